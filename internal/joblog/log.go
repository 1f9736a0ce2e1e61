// Package joblog is the log of record: it commits transitions by
// compare-and-set, reads jobs, follows them live, and lists them. It is the
// only code of the service's packages that reads or writes GENBUS_TASKS, which client and the
// commands read as subscribers do. It decides no transition itself.
package joblog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tail"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Errors of the log. A *LostError is the third outcome of a commit.
var (
	// ErrNotFound: the log has no such job.
	ErrNotFound = errors.New("the log has no such job")
	// ErrUncertain: it is not known whether the event was stored.
	ErrUncertain = errors.New("it is unknown whether the event was stored")
	// ErrFull: the log is full; the event was not stored.
	ErrFull = errors.New("the task log is full")
	// ErrSlowReader: a follower did not keep up, and was cut.
	ErrSlowReader = tail.ErrSlowReader
)

// LostError says that another writer was first. Current is the job as it is.
type LostError struct {
	Current Entry
}

func (e *LostError) Error() string {
	return fmt.Sprintf("another writer stored version %d of job %s first", e.Current.Version(), e.Current.Job.GetId())
}

// Entry is an event as the log holds it.
type Entry struct {
	task.Event
	// Seq is the event's sequence in the stream: what the next commit expects.
	Seq uint64
}

// Name is the job's name in the log.
func (e Entry) Name() subject.TaskName {
	return subject.TaskName{Kind: subject.Kind(task.Kind(e.Job)), Tenant: e.Job.GetTenant(), ID: e.Job.GetId()}
}

// Options makes a Log.
type Options struct {
	Broker  *broker.Broker
	Encoder publisher.Encoder
	Metrics *telemetry.Metrics
	Logger  *slog.Logger
	// ReaderBuffer bounds what a follower may be behind, in bytes. Default: 1 MiB.
	ReaderBuffer int
	// RereadEvery is how long nothing comes until a job that is followed is checked: core
	// delivery can lose its last event. Default: 10s.
	RereadEvery time.Duration
	// IndexSize bounds the jobs that List knows. Default: 100,000.
	IndexSize int
}

// Log is the log. Start begins to follow it live.
type Log struct {
	b       *broker.Broker
	enc     publisher.Encoder
	metrics *telemetry.Metrics
	log     *slog.Logger
	writer  string
	hub     *hub
	tails   *tail.Set[subject.TaskName, Entry]
	index   *index
	// Capacity is the log's room.
	Capacity *Capacity
}

// New returns a log that can commit and get; Start adds Follow and List.
func New(o Options) *Log {
	if o.IndexSize == 0 {
		o.IndexSize = 100_000
	}
	h := &hub{}
	x := newIndex(o.IndexSize, h.observe)
	l := &Log{
		b: o.Broker, enc: o.Encoder, metrics: o.Metrics, log: o.Logger, writer: nuid.Next(),
		hub: h, index: x, Capacity: newCapacity(o, x),
	}
	l.tails = tail.NewSet(source{l}, tail.Options{Buffer: o.ReaderBuffer, Silence: o.RereadEvery, Trouble: o.Broker.Trouble})
	return l
}

// Writer is the opaque id of this replica, new at each start.
func (l *Log) Writer() string { return l.writer }

// Start subscribes to notices and begins to fill the list's index. Both end with ctx; the
// returned function waits until they have.
func (l *Log) Start(ctx context.Context) (wait func(), err error) {
	unsubscribe, err := l.subscribe()
	if err != nil {
		return nil, err
	}
	fill, err := l.index.start(ctx, l.b, l.log)
	if err != nil {
		unsubscribe()
		return nil, err
	}
	l.b.OnReconnect(func(context.Context) { l.tails.Wake() })
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		unsubscribe()
		<-fill
		l.Capacity.reserved.stop()
	}()
	return func() { <-done }, nil
}

// Trouble returns at once why the log cannot be read or written now; nil when
// nothing is known to be wrong.
func (l *Log) Trouble() error { return l.b.Trouble() }

// Get reads a job as it is now, from the stream's leader. A job that the log
// does not have is ErrNotFound.
func (l *Log) Get(ctx context.Context, n subject.TaskName) (Entry, error) {
	e, _, err := l.get(ctx, n)
	return e, err
}

// get also returns the size of the event as it is stored.
func (l *Log) get(ctx context.Context, n subject.TaskName) (Entry, int, error) {
	m, err := l.b.Last(ctx, l.b.Names().Tasks(), l.b.Names().Task(n.Kind, n.Tenant, n.ID))
	if errors.Is(err, broker.ErrNoMessage) {
		return Entry{}, 0, fmt.Errorf("%s %s: %w", n.Kind, n.ID, ErrNotFound)
	}
	if err != nil {
		return Entry{}, 0, fmt.Errorf("get %s %s: %w", n.Kind, n.ID, err)
	}
	e, err := decodeStored(n, m)
	return e, len(m.Data), err
}

func decodeStored(n subject.TaskName, m broker.Stored) (Entry, error) {
	e, err := publisher.DecodeEvent(n.Kind, m.Header, m.Data)
	if err != nil {
		return Entry{}, fmt.Errorf("event %d of job %s: %w", m.Seq, n.ID, err)
	}
	return Entry{Event: e, Seq: m.Seq}, nil
}

func header(h nats.Header, key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}
