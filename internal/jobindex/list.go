package jobindex

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Page sizes of List.
const (
	DefaultPage = 20
	MaxPage     = 100
)

// Errors of List.
var (
	// ErrPageToken: a page token is not one of this list.
	ErrPageToken = errors.New("the page token is not one of this list")
	// ErrCatchingUp: no replica has the index ready.
	ErrCatchingUp = errors.New("no replica has the index of jobs ready")
)

// Query chooses jobs of one tenant.
type Query struct {
	Kind   subject.Kind
	Tenant string
	// Status is UNSPECIFIED for all.
	Status genbusv1.JobStatus
	// CreatedFrom is inclusive and CreatedBefore exclusive, each of them a Bound.
	CreatedFrom, CreatedBefore int64
	// Size is 1 to MaxPage; 0 is DefaultPage, more is MaxPage.
	Size int
	// Token is the NextToken of the page before, or empty.
	Token string
	// After is the id of the job that the page begins after, where there is no
	// Token; empty for the list's begin.
	After string
	// Offset is how many jobs are passed over first. They are not read, so that
	// those count that were erased and that the list still knows.
	Offset int
	// Ascending lists the oldest first.
	Ascending bool
}

// Bound is a bound of time in Unix nanoseconds, 0 for none. What they cannot say becomes the
// first or the last moment that they can.
func Bound(t *timestamppb.Timestamp) int64 {
	const most = math.MaxInt64 / int64(time.Second) // in the year 2262
	switch {
	case t == nil:
		return 0
	case t.GetSeconds() <= 0:
		return 1
	case t.GetSeconds() >= most:
		return math.MaxInt64
	}
	return t.AsTime().UnixNano()
}

// Page is a part of a list.
type Page struct {
	Jobs []joblog.Entry
	// NextToken is empty when this is the last page.
	NextToken string
}

type pageToken struct {
	Created int64  `json:"c"`
	ID      string `json:"i"`
}

// List reads a page. The index says which jobs there are; each job is then read
// from the log, so that a page never shows an older state than Get. A job whose
// status has changed since the index heard of it, or that was erased, is left
// out, and the page goes on with the next one: only the last page is short,
// because clients take a short page for the last one. An After that neither the
// index nor the log knows is joblog.ErrNotFound. While no replica has the index ready the
// error is ErrCatchingUp, after a second.
func (x *Index) List(ctx context.Context, q Query) (Page, error) {
	w, err := q.window()
	if err != nil {
		return Page{}, err
	}
	var page Page
	for size := pageSize(q.Size); ; {
		w.N = size - len(page.Jobs) + 1 // one more tells whether there is another page
		rows, err := x.rows(ctx, &w)
		if err != nil {
			return Page{}, err
		}
		w.Skip = 0
		for _, r := range rows {
			if len(page.Jobs) == size {
				page.NextToken = formatToken(row{created: w.AfterCreated, id: w.AfterID})
				return page, nil
			}
			if page.Jobs, err = x.appendRow(ctx, page.Jobs, q, r); err != nil {
				return Page{}, err
			}
			w.after(r)
		}
		if len(rows) < w.N {
			return page, nil
		}
	}
}

// rows gives those of a window. Of a job that was erased the index may know the row still
// that a list begins after, so that a caller that erases what is listed can go on with the
// list; of one that fell out of the index the log knows it.
func (x *Index) rows(ctx context.Context, w *window) ([]row, error) {
	rows, found, err := x.page(ctx, *w)
	if err != nil || found {
		return rows, err
	}
	e, err := x.log.Get(ctx, subject.TaskName{Kind: w.Kind, Tenant: w.Tenant, ID: w.AfterJob})
	if err != nil {
		return nil, err
	}
	w.after(row{created: e.Job.GetCreatedAt().AsTime().UnixNano(), id: w.AfterJob})
	rows, _, err = x.page(ctx, *w)
	return rows, err
}

// appendRow reads the job of a row and appends it, if it is still there and as
// wanted.
func (x *Index) appendRow(ctx context.Context, jobs []joblog.Entry, q Query, r row) ([]joblog.Entry, error) {
	n := subject.TaskName{Kind: q.Kind, Tenant: q.Tenant, ID: r.id}
	e, err := x.log.Get(ctx, n)
	switch {
	case errors.Is(err, joblog.ErrNotFound):
		if has, err := x.log.Has(ctx, n, r.seq); err == nil && !has {
			x.forget(n, r)
		}
		return jobs, nil
	case err != nil:
		return nil, err
	case e.Job.GetCreatedAt().AsTime().UnixNano() != r.created:
		if e.Seq > r.seq { // the row is of a job that was erased; this one has a row of its own
			x.forget(n, r)
		}
		return jobs, nil
	case q.Status != 0 && e.Job.GetStatus() != q.Status:
		return jobs, nil
	}
	return append(jobs, e), nil
}

// window is the one that the page begins with.
func (q Query) window() (window, error) {
	w := window{Kind: q.Kind, Tenant: q.Tenant, From: q.CreatedFrom, Before: cmp.Or(q.CreatedBefore, math.MaxInt64), Skip: max(q.Offset, 0), Ascending: q.Ascending}
	if q.Status != 0 {
		w.Status = task.StatusWord(q.Status)
	}
	if q.Token == "" && q.After != "" {
		w.AfterJob = q.After
		return w, nil
	}
	after, err := parseToken(q.Token)
	w.after(after)
	return w, err
}

func pageSize(n int) int {
	if n <= 0 {
		return DefaultPage
	}
	return min(n, MaxPage)
}

func formatToken(r row) string {
	data, err := json.Marshal(pageToken{Created: r.created, ID: r.id})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func parseToken(token string) (row, error) {
	if token == "" {
		return row{}, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return row{}, ErrPageToken
	}
	var t pageToken
	if err := json.Unmarshal(data, &t); err != nil || subject.CheckToken(t.ID) != nil {
		return row{}, ErrPageToken
	}
	return row{created: t.Created, id: t.ID}, nil
}
