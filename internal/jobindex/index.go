// Package jobindex knows which jobs the log has: it lists them, counts those that have not
// ended, and tells of each event of any replica. It is made of the headers of the log, and
// has nothing that it could not read there again.
package jobindex

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unique"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// DefaultSize is how many jobs an index lists where Options say nothing.
const DefaultSize = 100_000

// fillAgain is the wait after a log that could not be read from its beginning.
const fillAgain = 5 * time.Second

// Options makes an Index. Log and Logger are required.
type Options struct {
	Log    *joblog.Log
	Logger *slog.Logger
	// Size bounds the jobs that List knows. Default: DefaultSize.
	Size int
}

// Index is the index of one replica. It is safe for concurrent use.
type Index struct {
	log       *joblog.Log
	logger    *slog.Logger
	table     *table
	observers []func(joblog.Notice)
	again     chan struct{} // the log was created again

	mu      sync.Mutex
	created time.Time // when the log was that is read
	seen    func()    // a test's signal; nil otherwise
}

// New returns an index that hears of the commits of this process, and counts for the log's
// capacity. Start has it hear of the others'.
func New(o Options) *Index {
	if o.Size == 0 {
		o.Size = DefaultSize
	}
	x := &Index{log: o.Log, logger: o.Logger, table: newTable(o.Size), again: make(chan struct{}, 1)}
	o.Log.OnCommit(x.wrote)
	o.Log.Capacity.CountBy(x.counts)
	return x
}

// Observe registers a function that hears, by an ordered consumer, of every commit of every
// replica, and of the last event of every job that the log has. It must not block, and is
// registered before Start.
func (x *Index) Observe(f func(joblog.Notice)) { x.observers = append(x.observers, f) }

// Unfinished is how many of a tenant's jobs, of both kinds and on all replicas,
// have begun and not ended, as far as this replica knows: at once of what it has accepted
// or ended itself, as soon as the events arrive of what others did, and after a start not
// before the index is filled. Inline chats are not among them. It is always known.
func (x *Index) Unfinished(_ context.Context, tenant string) (n int, known bool) {
	return x.table.unfinishedOf(tenant), true
}

// Start fills the index until ctx ends; the returned function waits for that.
func (x *Index) Start(ctx context.Context) (wait func(), err error) {
	stop, err := x.fill(ctx)
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
			case <-x.again:
			}
			if stop != nil {
				stop()
			}
			if ctx.Err() != nil {
				return
			}
			if stop, err = x.fill(ctx); err != nil {
				x.logger.Warn("the list of jobs cannot be read", telemetry.KeyError, err)
				_ = broker.Wait(ctx, fillAgain) // the loop looks at ctx
				x.ring()
			}
		}
	}()
	return func() { <-done }, nil
}

// fill reads the log from its beginning into an empty table.
func (x *Index) fill(ctx context.Context) (stop func(), err error) {
	h, err := x.log.Headers(ctx)
	if err != nil {
		return nil, err
	}
	x.table.empty()
	x.mu.Lock()
	x.created = h.LogCreated
	x.mu.Unlock()
	return h.Each(x.see, func() {}, func(err error) {
		x.logger.Debug("the index: a part of the log is read again", telemetry.KeyError, err)
	})
}

func (x *Index) see(n joblog.Notice) {
	if n.CreatedAt.IsZero() {
		return
	}
	// Clones: values are parts of the whole message's memory.
	n.Name.ID = strings.Clone(n.Name.ID)
	x.table.put(n.Name, rowOf(n))
	x.mu.Lock()
	seen := x.seen
	x.mu.Unlock()
	if seen != nil {
		seen()
	}
	for _, f := range x.observers {
		f(n)
	}
}

// wrote lists a job that this replica has just made or ended, before its event comes back.
func (x *Index) wrote(n joblog.Notice) {
	n.Name.ID = strings.Clone(n.Name.ID)
	x.table.wrote(n.Name, rowOf(n))
}

// rowOf is the row of an event. It keeps the id as it is.
func rowOf(n joblog.Notice) row {
	r := row{created: n.CreatedAt.UnixNano(), id: n.Name.ID, seq: n.Seq, status: unique.Make(strings.Clone(n.Status)).Value()}
	if isUnfinished(n) {
		r.unfinished = n.Bytes
	}
	return r
}

// counts are the unfinished jobs for the log's capacity. A log that was created then is read
// from its beginning if it is not the one that is being read: a consumer of one that was lost
// goes on where that one ended, and the jobs that were in it would count for ever.
func (x *Index) counts(_ context.Context, logCreated time.Time) (map[subject.Kind]joblog.Unfinished, bool) {
	x.mu.Lock()
	same := x.created.Equal(logCreated)
	x.mu.Unlock()
	if !same {
		x.ring()
	}
	return x.table.unfinishedByKind(), true
}

func (x *Index) ring() {
	select {
	case x.again <- struct{}{}:
	default:
	}
}
