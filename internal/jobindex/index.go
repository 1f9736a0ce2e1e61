// Package jobindex knows which jobs the log has: it lists them, counts those that have not
// ended, and tells of each event of any replica. It is made of the headers of the log, and
// has nothing that it could not read there again.
//
// Of all replicas two keep the index (role.go), and the others ask them (peers.go, ask.go, answer.go).
package jobindex

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/telemetry"
)

// DefaultSize is how many jobs an index lists where Options say nothing.
const DefaultSize = 100_000

// readAgain is the wait after a log that could not be read from its beginning.
const readAgain = 5 * time.Second

// Mode says whether a replica keeps the index.
type Mode string

// The modes.
const (
	// Alone keeps it, asks no other replica and is asked by none: there is none.
	Alone Mode = ""
	// Auto keeps it where fewer than two others do.
	Auto Mode = "auto"
	// On keeps it in any case.
	On Mode = "on"
	// Off keeps it only where no other replica has for half a minute.
	Off Mode = "off"
)

// Observer hears, while this replica keeps the index, of the last event of every job that the
// log has, and of every commit of every replica. It must not block.
type Observer interface {
	Notice(n joblog.Notice)
	// Forget is called when this replica keeps the index no more, after the last Notice.
	Forget()
}

// Options makes an Index. Log, Metrics and Logger are required, and Broker unless it is alone.
type Options struct {
	Log     *joblog.Log
	Broker  *broker.Broker
	Metrics *telemetry.Metrics
	Logger  *slog.Logger
	Mode    Mode
	// Size bounds the jobs that List knows. Default: DefaultSize.
	Size int
	// Able is an error while this replica's observers cannot do what they are for, so that
	// another one is to keep the index. Default: they always can.
	Able func() error
}

// Index is the index, for one replica. It is safe for concurrent use.
type Index struct {
	log       *joblog.Log
	metrics   *telemetry.Metrics
	logger    *slog.Logger
	size      int
	able      func() error
	observers []Observer
	// current is the reading of the log of a replica that keeps the index, or kept it last.
	current atomic.Pointer[reading]
	role    *role                  // nil: alone
	heard   atomic.Pointer[func()] // a test's signal; nil otherwise
	// searches has a token for each search that is looking.
	searches chan struct{}

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
	x := &Index{log: o.Log, metrics: o.Metrics, logger: o.Logger, size: o.Size, able: o.Able, searches: make(chan struct{}, searches)}
	if o.Mode != Alone {
		x.role = newRole(x, o)
	}
	o.Log.OnCommit(x.committed)
	return x
}

// Observe registers an observer, before Start.
func (x *Index) Observe(o Observer) { x.observers = append(x.observers, o) }

// Start keeps the index, or asks those that do, until ctx ends; the returned function waits
// for that.
func (x *Index) Start(ctx context.Context) (wait func(), err error) {
	run := x.keep
	if x.role != nil {
		unsubscribe, err := x.role.server.listen(ctx)
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

// keep keeps the index until ctx ends.
func (x *Index) keep(ctx context.Context) {
	defer func() {
		x.current.Store(nil)
		for _, o := range x.observers {
			o.Forget()
		}
	}()
	for ctx.Err() == nil {
		if err := x.read(ctx); err != nil && ctx.Err() == nil {
			x.logger.Warn("the index of jobs cannot be read from the log; this is repeated", telemetry.KeyError, err)
			_ = broker.Wait(ctx, readAgain) // the loop looks at ctx
		}
	}
}

// Leave has another replica keep the index, as this one stops; it has it until ctx of Start
// ends.
func (x *Index) Leave() {
	if x.role != nil {
		x.role.leave()
	}
}

// report sets the metrics.
func (x *Index) report() {
	keepers := 1
	if x.role != nil {
		keepers = x.role.count(time.Now())
	}
	x.metrics.Index(keepers, x.ready() != nil)
}

// Ready reports whether this replica keeps the index and has all that the log has.
func (x *Index) Ready() bool { return x.ready() != nil }

// ready is the reading of this replica where it has all that the log has; nil otherwise.
func (x *Index) ready() *reading {
	if r := x.current.Load(); r != nil && r.isReady(time.Now()) {
		return r
	}
	return nil
}

// committed takes a job that this replica has just made or ended, before its event comes
// back.
func (x *Index) committed(n joblog.Notice) {
	x.mu.Lock()
	if n.Seq > x.wrote.seq || time.Since(x.wrote.at) > ownFor { // a log that is created again begins with 1
		x.wrote = own{seq: n.Seq, at: time.Now()}
	}
	x.mu.Unlock()
	if r := x.current.Load(); r != nil {
		n.Name.ID = strings.Clone(n.Name.ID)
		r.table.wrote(n.Name, rowOf(n))
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

// rowOf is the row of an event. It keeps the id as it is.
func rowOf(n joblog.Notice) row {
	return row{created: n.CreatedAt.UnixNano(), id: n.Name.ID, seq: n.Seq, status: unique.Make(n.Status).Value(), unfinished: isUnfinished(n), facts: factsOf(n)}
}

// Unfinished is how many of a tenant's jobs, of both kinds and on all replicas, have begun
// and not ended, as far as a replica knows that keeps the index; with those that this process
// has committed before it asks. Inline chats are not among them. known is false where no
// replica has the index ready.
func (x *Index) Unfinished(ctx context.Context, tenant string) (n int, known bool) {
	if r := x.ready(); r != nil {
		return r.table.unfinishedOf(tenant), true
	}
	a, err := x.ask(ctx, question{Tenant: tenant, Upto: x.upto()}, true, countPatience)
	return a.Jobs, err == nil
}

// UnfinishedByTenant are the unfinished jobs, as Unfinished counts them, of the tenants with the
// most, n of at most MaxPage, and of some others, and those of all tenants. While no replica
// has the index ready the error is ErrCatchingUp.
func (x *Index) UnfinishedByTenant(ctx context.Context, n int, also []string) (jobs map[string]int64, total int64, err error) {
	n = min(n, MaxPage)
	if r := x.ready(); r != nil {
		jobs, total = r.table.unfinishedByTenant(n, also)
		return jobs, total, nil
	}
	a, err := x.ask(ctx, question{Largest: n, Tenants: also}, false, countPatience)
	return a.ByName, a.InAll, err
}
