// Package jobindex keeps the index of jobs for all replicas: two of them read the log's headers
// into a jobtable.Table, and the others ask these two. It holds nothing that it could not read
// from the log again.
//
// keeper.go reads the log, and role.go decides which replicas do. peers.go asks, and server.go
// answers.
package jobindex

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// countPatience is how long a count waits for an answer, as an acceptance waits for it.
	countPatience = 600 * time.Millisecond
	// lookAgain is the time between two looks for a replica that has the index ready.
	lookAgain = 50 * time.Millisecond
)

// Index is the index, for one replica. It is safe for concurrent use.
type Index struct {
	log     *joblog.Log
	metrics *telemetry.Metrics
	keeper  *keeper
	// role, peers and server are nil where there is no other replica.
	role   *role
	peers  *peers
	server *server

	mu    sync.Mutex
	wrote own
}

// own is the last event that began or ended a job by a commit of this process.
type own struct {
	seq uint64
	at  time.Time
}

// New returns an index that hears of the commits of this process. Start makes it hear of the
// others'.
func New(o Options) *Index {
	if o.Size == 0 {
		o.Size = DefaultSize
	}
	if o.Able == nil {
		o.Able = func() error { return nil }
	}
	x := &Index{log: o.Log, metrics: o.Metrics, keeper: newKeeper(o)}
	if o.Mode != Alone {
		x.role = newRole(o, x.keeper)
		x.peers = newPeers(o, x.role.leases)
		x.server = newServer(o, x.keeper)
	}
	o.Log.OnCommit(x.committed)
	return x
}

// Observe registers an observer, before Start.
func (x *Index) Observe(o Observer) { x.keeper.observers = append(x.keeper.observers, o) }

// Start keeps the index, or asks those that do, until ctx ends; the returned function waits
// for that.
func (x *Index) Start(ctx context.Context) (wait func(), err error) {
	run := x.keeper.run
	if x.role == nil {
		x.metrics.IndexKeepers(1)
	} else {
		unsubscribe, err := x.server.listen(ctx)
		if err != nil {
			return nil, err
		}
		run = func(ctx context.Context) {
			defer unsubscribe()
			x.role.run(ctx)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	return func() { <-done }, nil
}

// Leave has another replica keep the index, as this one stops; it has it until ctx of Start
// ends.
func (x *Index) Leave() {
	if x.role != nil {
		x.role.leave()
	}
}

// Ready reports whether this replica keeps the index and has all that the log has.
func (x *Index) Ready() bool { return x.keeper.ready() != nil }

// committed takes a job that this replica has just made or ended, before its event comes
// back.
func (x *Index) committed(n joblog.Notice) {
	x.mu.Lock()
	if n.Seq > x.wrote.seq || time.Since(x.wrote.at) > ownFor { // a log that is created again begins with 1
		x.wrote = own{seq: n.Seq, at: time.Now()}
	}
	x.mu.Unlock()
	if r := x.keeper.current.Load(); r != nil {
		n.Name.ID = strings.Clone(n.Name.ID)
		r.table.Wrote(n)
	}
}

// ownFor is how long a replica asks for what it has written itself. A keeper has heard of it
// by then, or will not: the job was erased, or the log created again.
const ownFor = 5 * time.Second

// upto is the event up to which an answer is to be, so that it has what this replica wrote.
func (x *Index) upto() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Since(x.wrote.at) > ownFor {
		x.wrote = own{}
	}
	return x.wrote.seq
}

// Unfinished is how many of a tenant's jobs, of both kinds and on all replicas, have begun
// and not ended, as far as a replica knows that keeps the index; with those that this process
// has committed before it asks. Inline chats are not among them. known is false where no
// replica has the index ready.
func (x *Index) Unfinished(ctx context.Context, tenant string) (n int, known bool) {
	if r := x.keeper.ready(); r != nil {
		return r.table.Unfinished(tenant), true
	}
	a, err := x.peers.ask(ctx, question{Tenant: tenant, Upto: x.upto()}, true, countPatience)
	return a.Jobs, err == nil
}

// UnfinishedByTenant are the unfinished jobs, as Unfinished counts them, of the tenants with the
// most, n of at most MaxPage, and of some others, and those of all tenants. While no replica
// has the index ready the error is ErrCatchingUp.
func (x *Index) UnfinishedByTenant(ctx context.Context, n int, also []string) (jobs map[string]int64, total int64, err error) {
	n = min(n, jobtable.MaxPage)
	if r := x.keeper.ready(); r != nil {
		jobs, total = r.table.UnfinishedByTenant(n, also)
		return jobs, total, nil
	}
	a, err := x.peers.ask(ctx, question{Largest: n, Tenants: also}, false, countPatience)
	return a.ByName, a.InAll, err
}

// Rates are those of all replicas, as a replica knows them that keeps the index. While none
// has it ready the error is ErrCatchingUp.
func (x *Index) Rates(ctx context.Context) (jobtable.Rates, error) {
	if r := x.keeper.ready(); r != nil {
		return r.rated(), nil
	}
	a, err := x.peers.ask(ctx, question{Rates: true}, false, countPatience)
	if err == nil && a.Rates == nil {
		err = ErrCatchingUp
	}
	if err != nil {
		return jobtable.Rates{}, err
	}
	return *a.Rates, nil
}

// Search looks for jobs of all tenants. The answer is the index's, which may be some seconds
// behind the log: AsOf says how far. An illegal token is jobtable.ErrPageToken; while no replica has
// the index ready the error is ErrCatchingUp, and while they are busy ErrBusy.
func (x *Index) Search(ctx context.Context, s jobtable.Search) (jobtable.Found, error) {
	s, err := s.Normalized()
	if err != nil {
		return jobtable.Found{}, err
	}
	found, err := x.search(ctx, s)
	found.NextToken = s.TokenAfter(found)
	return found, err
}

func (x *Index) search(ctx context.Context, s jobtable.Search) (jobtable.Found, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, searchPatience, broker.ErrNoAnswer)
	defer cancel()
	for {
		if r := x.keeper.ready(); r != nil {
			return x.keeper.search(ctx, r, s)
		}
		found, err := x.peers.search(ctx, s)
		if !errors.Is(err, ErrCatchingUp) {
			return found, err
		}
		if broker.Wait(ctx, lookAgain) != nil {
			return jobtable.Found{}, ErrCatchingUp
		}
	}
}

// Erased has a job forgotten that was erased, as it was then: what it was looked for by is not
// to be found any more.
func (x *Index) Erased(e joblog.Entry) {
	x.tell(gone{
		Kind: subject.Kind(task.Kind(e.Job)), Tenant: e.Job.GetTenant(), Erased: true,
		Row: jobtable.Row{Created: e.Job.GetCreatedAt().AsTime().UnixNano(), ID: e.Job.GetId(), Seq: e.Seq},
	})
}

// tell takes a job that is gone out of the table here, and tells the others.
func (x *Index) tell(g gone) {
	if own := x.keeper.current.Load(); own != nil {
		g.from(own.table)
	}
	x.peers.tell(g)
}
