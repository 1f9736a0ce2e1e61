package jobindex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

const (
	// hedgeAfter is how long one keeper is waited for until another one is asked too. Counts
	// wait for countPatience, as an acceptance waits for them; a list waits for answerPatience.
	hedgeAfter     = 300 * time.Millisecond
	countPatience  = 600 * time.Millisecond
	answerPatience = 5 * time.Second
	// listPatience is how long a list waits for a replica that has the index ready, and
	// listAgain how often it looks for one.
	listPatience = time.Second
	// mostAskedAtAll bounds the replicas that one question goes to.
	mostAskedAtAll = 8
	listAgain      = 50 * time.Millisecond
)

// question is what a replica asks one that keeps the index: one of its parts.
type question struct {
	// Upto is an event that the answer is to know of; 0 for none.
	Upto uint64 `json:"upto,omitempty"`

	List   *window   `json:"list,omitempty"`
	Tenant string    `json:"tenant,omitempty"` // how many unfinished jobs it has
	Gone   *wireGone `json:"gone,omitempty"`   // a job that the log does not have; it has no answer
	Search *Search   `json:"search,omitempty"`
	Rates  bool      `json:"rates,omitempty"` // what happened lately
	// Largest is how many of the tenants with the most unfinished jobs are wanted, with those
	// of Tenants.
	Largest int      `json:"largest,omitempty"`
	Tenants []string `json:"tenants,omitempty"`
}

// answer is one to a question.
type answer struct {
	// Error is empty, or why there is no answer.
	Error   string `json:"error,omitempty"`
	replica string // that was asked
	// AsOf is the last event that the keeper has heard of.
	AsOf uint64 `json:"as_of"`

	Rows   []wireRow        `json:"rows,omitempty"`
	NoRow  bool             `json:"no_row,omitempty"` // the job is unknown that the list is to begin after
	Jobs   int              `json:"jobs,omitempty"`
	Found  *Found           `json:"found,omitempty"`
	Rates  *Rates           `json:"rates,omitempty"`
	ByName map[string]int64 `json:"by_name,omitempty"` // unfinished jobs of tenants
	InAll  int64            `json:"in_all,omitempty"`  // and of all of them
}

// Errors of an answer.
const (
	notReady = "not_ready"
	badlyPut = "bad_question" // by a replica of another version
	tooMany  = "too_many"     // searches at a time
)

// wireRow is a row of an answer.
type wireRow struct {
	Created int64  `json:"created"`
	ID      string `json:"id"`
	Status  string `json:"status"`
	Seq     uint64 `json:"seq"`
}

// wireGone is a row that is to be forgotten.
type wireGone struct {
	Kind   subject.Kind `json:"kind"`
	Tenant string       `json:"tenant"`
	// Erased has the row stay, as one that a list may begin after.
	Erased bool `json:"erased,omitempty"`
	wireRow
}

func (g wireGone) row() (subject.TaskName, row) {
	return subject.TaskName{Kind: g.Kind, Tenant: g.Tenant, ID: g.ID}, row{created: g.Created, id: g.ID, status: g.Status, seq: g.Seq}
}

// gone takes a job that the log does not have.
func (x *table) gone(g wireGone) {
	n, r := g.row()
	if g.Erased {
		x.erase(n, r)
		return
	}
	x.forget(n, r)
}

// ask asks a replica that has the index ready, and after hedgeAfter also another one, also one
// that is heard of only then: the first answer counts. current: an answer that does not know of what was asked for is none.
// Without an answer for most the error is ErrCatchingUp where no replica, as they say, has the
// index ready, that of ctx, or one that says that the broker gave none.
func (x *Index) ask(ctx context.Context, q question, current bool, most time.Duration) (answer, error) {
	if x.role == nil {
		return answer{}, ErrCatchingUp
	}
	if err := x.role.b.Trouble(); err != nil {
		return answer{}, err
	}
	replicas := x.role.peers.ready(time.Now())
	if len(replicas) == 0 {
		return answer{}, ErrCatchingUp
	}
	data, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	asking, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	answers := make(chan answer, mostAskedAtAll)
	hedge := time.NewTicker(hedgeAfter)
	defer hedge.Stop()
	for asked, open := 0, 0; asked < len(replicas) || open > 0; {
		if asked < len(replicas) {
			replica := replicas[asked]
			asked, open = asked+1, open+1
			go func() { answers <- x.role.peers.request(asking, replica, data) }()
		}
		select {
		case a := <-answers:
			open--
			switch {
			case a.Error == "" && (!current || a.AsOf >= q.Upto):
				return a, nil
			case a.Error != "" && asking.Err() == nil: // else it is not known what it would have answered
				x.logger.Debug("a replica that keeps the index has not answered", "replica", a.replica, "reason", a.Error)
				x.role.peers.failed(a.replica, time.Now())
			}
		case <-hedge.C:
			x.role.peers.avoid(replicas[0], time.Now())
			for _, replica := range x.role.peers.ready(time.Now()) {
				if !slices.Contains(replicas, replica) && len(replicas) < mostAskedAtAll {
					replicas = append(replicas, replica)
				}
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return answer{}, context.Cause(ctx)
	case asking.Err() == nil: // they are gone, or not ready any more
		return answer{}, ErrCatchingUp
	}
	return answer{}, fmt.Errorf("the replicas that keep the index of jobs: %w", broker.ErrNoAnswer)
}

// page gives the rows of a window; false where the job is unknown that it begins after.
func (x *Index) page(ctx context.Context, w window) (rows []row, found bool, err error) {
	for began := time.Now(); ; {
		if r := x.ready(); r != nil {
			rows, found = r.table.page(w)
			return rows, found, nil
		}
		a, err := x.ask(ctx, question{List: &w, Upto: x.upto()}, false, answerPatience)
		switch {
		case err == nil:
			for _, r := range a.Rows {
				rows = append(rows, row{created: r.Created, id: r.ID, status: r.Status, seq: r.Seq})
			}
			return rows, !a.NoRow, nil
		case ctx.Err() != nil:
			return nil, false, context.Cause(ctx)
		case !errors.Is(err, ErrCatchingUp), time.Since(began) > listPatience:
			return nil, false, err
		}
		if err := broker.Wait(ctx, listAgain); err != nil {
			return nil, false, err
		}
	}
}

// Erased has a job forgotten that was erased, as it was then: what it was looked for by is not
// to be found any more.
func (x *Index) Erased(e joblog.Entry) {
	x.tell(wireGone{
		Kind: subject.Kind(task.Kind(e.Job)), Tenant: e.Job.GetTenant(), Erased: true,
		wireRow: wireRow{Created: e.Job.GetCreatedAt().AsTime().UnixNano(), ID: e.Job.GetId(), Seq: e.Seq},
	})
}

// forget has a job forgotten that the log does not have. Of a message that is lost the next
// list makes another one.
func (x *Index) forget(n subject.TaskName, r row) {
	x.tell(wireGone{Kind: n.Kind, Tenant: n.Tenant, wireRow: wireRow{r.created, r.id, r.status, r.seq}})
}

// tell tells every replica that may have read it of a job that is gone.
func (x *Index) tell(gone wireGone) {
	if own := x.current.Load(); own != nil {
		own.table.gone(gone)
	}
	if x.role == nil {
		return
	}
	data, err := json.Marshal(question{Upto: gone.Seq, Gone: &gone})
	if err != nil {
		return
	}
	_ = x.role.b.Conn().Publish(x.role.b.Names().Index(subject.AnyWriter), data)
}
