// Package jobindex keeps the job index for all replicas. Two replicas, the keepers, read the log's
// headers into a jobtable.Table, and the other replicas query them. The index can be rebuilt from
// the log at any time.
//
// The code in keeper.go reads the log, and role.go decides whether this replica is a keeper.
// Queries to other replicas are in peers.go, and the answers to such queries in server.go.
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
	// countPatience bounds the wait for a count. It is short because job acceptance waits for the
	// count.
	countPatience = 600 * time.Millisecond
	// lookAgain is the interval at which a call checks again whether a replica's index is ready.
	lookAgain = 50 * time.Millisecond
)

// Index gives a replica access to the job index. It is safe for concurrent use.
type Index struct {
	log     *joblog.Log
	metrics *telemetry.Metrics
	keeper  *keeper
	// role, peers and server are nil in mode Alone.
	role   *role
	peers  *peers
	server *server

	mu    sync.Mutex
	wrote own
}

// own identifies the last commit by which this process began or ended a job.
type own struct {
	seq uint64
	at  time.Time
}

// New returns an index that follows the commits of this process. After Start, it also follows those
// of other replicas.
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

// Observe registers an observer. It must be called before Start.
func (x *Index) Observe(o Observer) { x.keeper.observers = append(x.keeper.observers, o) }

// Start keeps the index, or prepares to query its keepers, until ctx ends. The returned function
// waits until everything that Start has started has stopped.
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

// HandOver hands the index over to another replica because this one is stopping. This replica
// continues to answer queries until the context passed to Start ends.
func (x *Index) HandOver() {
	if x.role != nil {
		x.role.handOver()
	}
}

// Ready reports whether this replica keeps the index and has caught up with the log.
func (x *Index) Ready() bool { return x.keeper.ready() != nil }

// committed applies a commit of this replica that began or ended a job, before the log delivers its
// event.
func (x *Index) committed(s joblog.Summary) {
	x.mu.Lock()
	if s.Seq > x.wrote.seq || time.Since(x.wrote.at) > ownFor { // a recreated log starts at sequence 1
		x.wrote = own{seq: s.Seq, at: time.Now()}
	}
	x.mu.Unlock()
	if r := x.keeper.current.Load(); r != nil {
		s.Name.ID = strings.Clone(s.Name.ID)
		r.table.Wrote(s)
	}
}

// ownFor is how long answers must include this replica's last commit. After that time, a keeper
// either has the event or will never get it because the job was erased or the log recreated.
const ownFor = 5 * time.Second

// upto returns the sequence that answers must reach to include this replica's recent commits, or 0
// if there are none.
func (x *Index) upto() uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	if time.Since(x.wrote.at) > ownFor {
		x.wrote = own{}
	}
	return x.wrote.seq
}

// Unfinished returns the number of a tenant's unfinished jobs of both kinds on all replicas,
// excluding inline chats. The number includes all earlier commits of this process. known is false
// if no replica with a ready index answers.
func (x *Index) Unfinished(ctx context.Context, tenant string) (n int, known bool) {
	if r := x.keeper.ready(); r != nil {
		return r.table.Unfinished(tenant), true
	}
	a, err := x.peers.ask(ctx, question{Tenant: tenant, Upto: x.upto()}, true, countPatience)
	return a.Jobs, err == nil
}

// ReplacedBy returns the IDs of the jobs that repeat an ended job, as in jobtable.Table.ReplacedBy. e
// is the job's last entry. The list may lack jobs that were accepted a moment ago, and it is empty if
// no replica with a ready index answers within 600 ms.
func (x *Index) ReplacedBy(ctx context.Context, e joblog.Entry) []string {
	if !e.Terminal() {
		return nil
	}
	n := e.Name()
	job := jobtable.Replaced{Kind: n.Kind, Tenant: n.Tenant, ID: n.ID, Created: e.Job.GetCreatedAt().AsTime().UnixNano()}
	if r := x.keeper.ready(); r != nil {
		return r.table.ReplacedBy(job)
	}
	a, _ := x.peers.ask(ctx, question{Replaced: &job}, false, countPatience)
	return a.IDs
}

// UnfinishedByTenant returns the numbers of unfinished jobs, excluding inline chats, of the n
// tenants that have the most and of the tenants in also. total is the number for all tenants.
// Values of n above jobtable.MaxPage mean jobtable.MaxPage. UnfinishedByTenant returns
// ErrCatchingUp while the index is not ready on any replica.
func (x *Index) UnfinishedByTenant(ctx context.Context, n int, also []string) (jobs map[string]int64, total int64, err error) {
	n = min(n, jobtable.MaxPage)
	if r := x.keeper.ready(); r != nil {
		jobs, total = r.table.UnfinishedByTenant(n, also)
		return jobs, total, nil
	}
	a, err := x.peers.ask(ctx, question{Largest: n, Tenants: also}, false, countPatience)
	return a.ByName, a.InAll, err
}

// Rates returns the rates across all replicas. It returns ErrCatchingUp while the index is not
// ready on any replica.
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

// Search finds jobs of all tenants. The index may be a few seconds behind the log, as reported by
// AsOf. Search returns jobtable.ErrPageToken for an invalid token, ErrCatchingUp while the index is
// not ready on any replica, and ErrBusy while the keepers are busy.
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

// Erased hides an erased job from searches on all replicas. e is the job's last entry.
func (x *Index) Erased(e joblog.Entry) {
	x.remove(removal{
		Kind: subject.Kind(task.Kind(e.Job)), Tenant: e.Job.GetTenant(), Erased: true,
		Row: jobtable.Row{Created: e.Job.GetCreatedAt().AsTime().UnixNano(), ID: e.Job.GetId(), Seq: e.Seq},
	})
}

// remove removes a job from the tables of all replicas.
func (x *Index) remove(g removal) {
	if own := x.keeper.current.Load(); own != nil {
		g.applyTo(own.table)
	}
	x.peers.remove(g)
}
