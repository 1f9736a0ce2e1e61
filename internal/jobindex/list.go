package jobindex

import (
	"context"
	"errors"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// answerPatience is how long a list waits for an answer, and listPatience how long it waits
	// for a replica that has the index ready.
	answerPatience = 5 * time.Second
	listPatience   = time.Second
)

// Page is a part of a list.
type Page struct {
	Jobs []joblog.Entry
	// NextToken is empty when this is the last page.
	NextToken string
}

// List reads a page. The index says which jobs there are; each job is then read
// from the log, so that a page never shows an older state than Get. A job whose
// status has changed since the index heard of it, or that was erased, is left
// out, and the page goes on with the next one: only the last page is short,
// because clients take a short page for the last one. An After that neither the
// index nor the log knows is joblog.ErrNotFound. While no replica has the index ready the
// error is ErrCatchingUp, after a second.
func (x *Index) List(ctx context.Context, q jobtable.Query) (Page, error) {
	w, err := q.Window()
	if err != nil {
		return Page{}, err
	}
	var page Page
	for size := jobtable.PageSize(q.Size); ; {
		w.N = size - len(page.Jobs) + 1 // one more tells whether there is another page
		rows, err := x.rows(ctx, &w)
		if err != nil {
			return Page{}, err
		}
		w.Skip = 0
		for _, r := range rows {
			if len(page.Jobs) == size {
				page.NextToken = w.Token()
				return page, nil
			}
			if page.Jobs, err = x.appendRow(ctx, page.Jobs, q, r); err != nil {
				return Page{}, err
			}
			w.After(r)
		}
		if len(rows) < w.N {
			return page, nil
		}
	}
}

// rows gives those of a window. Of a job that was erased the index may know the row still
// that a list begins after, so that a caller that erases what is listed can go on with the
// list; of one that fell out of the index the log knows it.
func (x *Index) rows(ctx context.Context, w *jobtable.Window) ([]jobtable.Row, error) {
	rows, found, err := x.page(ctx, *w)
	if err != nil || found {
		return rows, err
	}
	e, err := x.log.Get(ctx, subject.JobName{Kind: w.Kind, Tenant: w.Tenant, ID: w.AfterJob})
	if err != nil {
		return nil, err
	}
	w.After(jobtable.Row{Created: e.Job.GetCreatedAt().AsTime().UnixNano(), ID: w.AfterJob})
	rows, _, err = x.page(ctx, *w)
	return rows, err
}

// appendRow reads the job of a row and appends it, if it is still there and as
// wanted.
func (x *Index) appendRow(ctx context.Context, jobs []joblog.Entry, q jobtable.Query, r jobtable.Row) ([]joblog.Entry, error) {
	n := subject.JobName{Kind: q.Kind, Tenant: q.Tenant, ID: r.ID}
	e, err := x.log.Get(ctx, n)
	switch {
	case errors.Is(err, joblog.ErrNotFound):
		if has, err := x.log.Has(ctx, n, r.Seq); err == nil && !has {
			x.forget(n, r)
		}
		return jobs, nil
	case err != nil:
		return nil, err
	case e.Job.GetCreatedAt().AsTime().UnixNano() != r.Created:
		if e.Seq > r.Seq { // the row is of a job that was erased; this one has a row of its own
			x.forget(n, r)
		}
		return jobs, nil
	case q.Status != 0 && e.Job.GetStatus() != q.Status:
		return jobs, nil
	}
	return append(jobs, e), nil
}

// page gives the rows of a window; false where the job is unknown that it begins after.
func (x *Index) page(ctx context.Context, w jobtable.Window) (rows []jobtable.Row, found bool, err error) {
	for began := time.Now(); ; {
		if r := x.keeper.ready(); r != nil {
			rows, found = r.table.Page(w)
			return rows, found, nil
		}
		a, err := x.peers.ask(ctx, question{List: &w, Upto: x.upto()}, false, answerPatience)
		switch {
		case err == nil:
			return a.Rows, !a.NoRow, nil
		case ctx.Err() != nil:
			return nil, false, context.Cause(ctx)
		case !errors.Is(err, ErrCatchingUp), time.Since(began) > listPatience:
			return nil, false, err
		}
		if err := broker.Wait(ctx, lookAgain); err != nil {
			return nil, false, err
		}
	}
}

// forget makes all replicas forget a job that the log does not have. If a message is lost, the
// next list sends another one.
func (x *Index) forget(n subject.JobName, r jobtable.Row) {
	x.tell(gone{Kind: n.Kind, Tenant: n.Tenant, Row: r})
}
