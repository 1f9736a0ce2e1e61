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
	// answerPatience bounds the wait for the answer to a list query, and listPatience the wait
	// until a replica's index is ready.
	answerPatience = 5 * time.Second
	listPatience   = time.Second
)

// Page is one page of a list.
type Page struct {
	Jobs []joblog.Entry
	// NextToken is empty on the last page.
	NextToken string
}

// List returns a page of jobs. It takes the job IDs from the index but reads each job from the log,
// so a page never shows an older state than Get.
//
// List skips jobs that were erased or whose status no longer matches, and fills the page with the
// jobs that follow. Only the last page may be short, because clients take a short page for the last
// one.
//
// List returns joblog.ErrNotFound if neither the index nor the log has the job q.After. It returns
// ErrCatchingUp if the index does not become ready on any replica within a second.
func (x *Index) List(ctx context.Context, q jobtable.Query) (Page, error) {
	w, err := q.Window()
	if err != nil {
		return Page{}, err
	}
	var page Page
	for size := jobtable.PageSize(q.Size); ; {
		w.N = size - len(page.Jobs) + 1 // one extra row shows whether another page follows
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

// rows returns the rows of a window. If the index has no row for AfterJob, rows takes the job's
// position from the log. Erased jobs may still have rows, so a caller can erase the jobs of a page
// and then continue with the next page.
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

// appendRow reads the job of a row and appends it if it still exists and matches.
func (x *Index) appendRow(ctx context.Context, jobs []joblog.Entry, q jobtable.Query, r jobtable.Row) ([]joblog.Entry, error) {
	n := subject.JobName{Kind: q.Kind, Tenant: q.Tenant, ID: r.ID}
	e, err := x.log.Get(ctx, n)
	switch {
	case errors.Is(err, joblog.ErrNotFound):
		if has, err := x.log.Has(ctx, n, r.Seq); err == nil && !has {
			x.removeAbsent(n, r)
		}
		return jobs, nil
	case err != nil:
		return nil, err
	case e.Job.GetCreatedAt().AsTime().UnixNano() != r.Created:
		if e.Seq > r.Seq { // the row belongs to an erased job; the job that reuses the ID has another row
			x.removeAbsent(n, r)
		}
		return jobs, nil
	case q.Status != 0 && e.Job.GetStatus() != q.Status:
		return jobs, nil
	}
	return append(jobs, e), nil
}

// page returns the rows of a window. found is false if the index has no row for AfterJob.
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

// removeAbsent tells all replicas to remove a job that the log does not have. If the message is
// lost, the next list that includes the job sends it again.
func (x *Index) removeAbsent(n subject.JobName, r jobtable.Row) {
	x.remove(removal{Kind: n.Kind, Tenant: n.Tenant, Row: r})
}
