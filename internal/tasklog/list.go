package tasklog

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Page sizes of List.
const (
	DefaultPage = 20
	MaxPage     = 100
)

// ErrPageToken says that a page token is not one of this list.
var ErrPageToken = errors.New("the page token is not one of this list")

// Query chooses jobs of one tenant.
type Query struct {
	Kind   subject.Kind
	Tenant string
	// Status is UNSPECIFIED for all.
	Status genbusv1.JobStatus
	// CreatedAfter (inclusive) and CreatedBefore (exclusive) are zero for no
	// bound.
	CreatedAfter, CreatedBefore time.Time
	// Size is 1 to MaxPage; 0 is DefaultPage, more is MaxPage.
	Size int
	// Token is the NextToken of the page before, or empty.
	Token string
}

// Page is a part of a list, newest first.
type Page struct {
	Jobs []Entry
	// NextToken is empty when this is the last page.
	NextToken string
}

type pageToken struct {
	Created int64  `json:"c"`
	ID      string `json:"i"`
}

// List reads a page. The index says which jobs there are; each job is then read
// from the log, so that a page never shows an older state than Get. A job whose
// status has changed since the index heard of it is left out.
func (l *Log) List(ctx context.Context, q Query) (Page, error) {
	before, err := parseToken(q.Token)
	if err != nil {
		return Page{}, err
	}
	size := pageSize(q.Size)
	rows := l.index.page(listKey{q.Kind, q.Tenant}, q.match, before, size+1)
	var page Page
	if len(rows) > size {
		rows = rows[:size]
		page.NextToken = formatToken(rows[size-1])
	}
	for _, r := range rows {
		n := subject.TaskName{Kind: q.Kind, Tenant: q.Tenant, ID: r.id}
		e, err := l.Get(ctx, n)
		if errors.Is(err, ErrNotFound) {
			l.index.forget(n, r)
			continue
		}
		if err != nil {
			return Page{}, err
		}
		if q.Status == 0 || e.Job.GetStatus() == q.Status {
			page.Jobs = append(page.Jobs, e)
		}
	}
	return page, nil
}

func (q Query) match(r row) bool {
	switch {
	case q.Status != 0 && r.status != task.StatusWord(q.Status):
		return false
	case !q.CreatedAfter.IsZero() && r.created < q.CreatedAfter.UnixNano():
		return false
	case !q.CreatedBefore.IsZero() && r.created >= q.CreatedBefore.UnixNano():
		return false
	}
	return true
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
