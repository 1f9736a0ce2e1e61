// Package bulk does operations of operators, work on many jobs or dead letters, to their end,
// whichever replicas stop or die. What an operation does to each of them it is told, and so
// it knows neither jobs nor letters.
package bulk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// maxRunning bounds the operations that one replica does at a time. Another replica, or
	// this one later, does the others.
	maxRunning = 4
	// parallel is how many steps of an operation are done at a time: jobs go first.
	parallel = 8
	// maxInFlight is how often a start is tried while another one with its id is in flight, and
	// inFlightWait the wait between.
	maxInFlight  = 20
	inFlightWait = 50 * time.Millisecond
	// maxFailures bounds the failures that an operation names.
	maxFailures = 10
)

// Step is what an operation does to one job or letter. A step that is repeated changes nothing
// more.
type Step struct {
	// JobID or Letter is what it is about.
	JobID  string
	Letter uint64
	// Do reports whether the operation has changed it: not what had ended, or is gone.
	Do func(context.Context) (changed bool, err error)
}

// about names the job or the letter for the log.
func (s Step) about() slog.Attr {
	if s.JobID != "" {
		return slog.String(telemetry.KeyJobID, s.JobID)
	}
	return slog.Uint64(telemetry.KeySequence, s.Letter)
}

// Steps are the steps of an operation from a cursor on, which is empty at first. next is the
// cursor after them, empty where there are no more. Whenever they are asked for, none is left
// out that has not been done.
type Steps func(ctx context.Context, op *genbusv1.Operation, cursor string) (steps []Step, next string, err error)

// Options make a Runner. All are required.
type Options struct {
	Broker *broker.Broker
	Steps  Steps
	// Self is the id of this replica, new at each start.
	Self   string
	Logger *slog.Logger
}

// timing is how often and how long; tests are faster.
type timing struct {
	// check is how often a replica says that it goes on with an operation, and reads whether it
	// still is to.
	check time.Duration
	// store is the first wait between two stored progresses of an operation, doubled up to
	// longest: GENBUS_OPS keeps each for 90 days, and nothing makes room in it before.
	store, longest time.Duration
	// watch is how often operations are looked for that no replica does, and silent how long
	// nothing was heard of one then.
	watch, silent time.Duration
	// retry is the wait after a step that may succeed later, doubled with each of tries.
	retry time.Duration
	tries int
	// step bounds one step.
	step time.Duration
}

var usual = timing{
	check: 3 * time.Second, store: 3 * time.Second, longest: time.Minute, watch: 3 * time.Second, silent: 15 * time.Second,
	retry: time.Second, tries: 5, step: 30 * time.Second,
}

// Runner does operations, those that were begun here and those that other replicas have left.
// It is safe for concurrent use.
type Runner struct {
	o Options
	t timing

	taking context.Context // ends when no more steps are begun
	stop   context.CancelFunc
	work   context.Context // of steps
	cut    context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex
	running map[string]*execution // the operations that this replica does
	heard   map[string]time.Time  // when another replica said last that it goes on with one
	stopped bool
	unhear  func() // ends the subscription of Start
}

// New returns a Runner. It looks for what others have left from Start on.
func New(ctx context.Context, o Options) *Runner {
	r := &Runner{o: o, t: usual, running: map[string]*execution{}, heard: map[string]time.Time{}, unhear: func() {}}
	r.work, r.cut = context.WithCancel(context.WithoutCancel(ctx))
	r.taking, r.stop = context.WithCancel(r.work)
	return r
}

// Start hears what other replicas do, and looks for operations that none does, until Close.
func (r *Runner) Start() error {
	sub, err := r.o.Broker.Conn().Subscribe(r.names().Operations(), r.hear)
	if err != nil {
		return fmt.Errorf("subscribe to the operations of other replicas: %w", err)
	}
	r.mu.Lock()
	r.unhear = func() { _ = sub.Unsubscribe() } // a closed connection hears nothing either
	r.mu.Unlock()
	r.all.Go(func() { (&watch{r: r, unfinished: map[string]*seen{}, next: 1}).run(r.taking) })
	return nil
}

// Close begins no more steps, waits for those in hand as long as grace lasts, and leaves the
// operations to other replicas, or to the next start.
func (r *Runner) Close(grace context.Context) {
	r.mu.Lock()
	r.stopped = true
	unhear := r.unhear
	r.mu.Unlock()
	r.stop()
	defer context.AfterFunc(grace, r.cut)()
	r.all.Wait()
	r.cut()
	unhear()
}

// Begin stores an operation and begins with it; the answer is op itself then. An operation of
// that id that there is already is the answer, where it is to do the same.
func (r *Runner) Begin(ctx context.Context, op *genbusv1.Operation) (*genbusv1.Operation, error) {
	op.StartedAt = timestamppb.Now()
	err := r.putBegun(ctx, op)
	if err == nil {
		op.Progress = &genbusv1.OperationProgress{State: genbusv1.OperationProgress_STATE_RUNNING}
		r.do(op, op.GetProgress(), 0)
		return op, nil
	}
	known, readErr := r.Get(ctx, op.GetId())
	switch {
	case readErr == nil && proto.Equal(known.GetSpec(), op.GetSpec()):
		return known, nil
	case readErr == nil:
		return nil, errcode.New(errcode.IdempotencyKeyReused, "operation %s was started already, by %s, and does something else; give this one another id", op.GetId(), known.GetOperator())
	case errors.Is(err, broker.ErrFull):
		return nil, errcode.New(errcode.StorageFull, "nothing was started: the stream of what operators did has no room for the operation; raise nats.streams.ops.max_bytes").Because(err)
	case errors.Is(err, broker.ErrUnavailable), errors.Is(err, broker.ErrRefused), errors.Is(err, broker.ErrTooLarge):
		return nil, errcode.New(errcode.BrokerUnavailable, "nothing was started: %s", broker.Reason(err)).Because(err).WithRetryAfter(time.Second)
	}
	return nil, errcode.New(errcode.AcceptanceUnknown, "operation %s may have been started; call again with this id, that starts no second one: %s", op.GetId(), broker.Reason(err)).Because(err)
}

// putBegun stores what an operation is to do, once. Of two calls with one id the second waits for
// what becomes of the first.
func (r *Runner) putBegun(ctx context.Context, op *genbusv1.Operation) error {
	for try := 1; ; try++ {
		_, err := r.put(ctx, r.names().OperationBegun(op.GetId()), op, 0)
		if !errors.Is(err, broker.ErrInFlight) || try == maxInFlight || broker.Wait(ctx, inFlightWait) != nil {
			return err
		}
	}
}

// Get reads an operation, with its progress.
func (r *Runner) Get(ctx context.Context, id string) (*genbusv1.Operation, error) {
	op, err := r.begun(ctx, id)
	if err == nil {
		op.Progress, _, err = r.progress(ctx, id)
	}
	return op, err
}

// begun reads an operation as it was begun.
func (r *Runner) begun(ctx context.Context, id string) (*genbusv1.Operation, error) {
	if subject.CheckToken(id) != nil {
		return nil, notFound(id)
	}
	m, err := r.o.Broker.Last(ctx, r.names().Ops(), r.names().OperationBegun(id))
	if errors.Is(err, broker.ErrNoMessage) {
		return nil, notFound(id)
	}
	if err != nil {
		return nil, err
	}
	op := &genbusv1.Operation{}
	if err := proto.Unmarshal(m.Data, op); err != nil {
		return nil, fmt.Errorf("operation %s: %w", id, err)
	}
	return op, nil
}

func notFound(id string) error {
	return errcode.New(errcode.OperationNotFound, "there is no operation %q, or not any more", errcode.Clip(id, 64))
}

// Stop has an operation stop, which its replica is told at once, or reads soon. One that has
// ended stays as it is. Where GENBUS_OPS is full the replica alone knows of the stop: where it
// dies before there is room, the operation goes on.
func (r *Runner) Stop(ctx context.Context, id string) (*genbusv1.Operation, error) {
	op, err := r.begun(ctx, id)
	if err != nil {
		return nil, err
	}
	for {
		var seq uint64
		if op.Progress, seq, err = r.progress(ctx, id); err != nil || op.GetProgress().GetState() != genbusv1.OperationProgress_STATE_RUNNING {
			return op, err
		}
		op.Progress.State = genbusv1.OperationProgress_STATE_STOPPING
		_, err = r.put(ctx, r.names().OperationProgress(id), op.GetProgress(), seq)
		switch {
		case err == nil:
			r.announce(id, headerStop)
			return op, nil
		case errors.Is(err, broker.ErrFull):
			return op, r.stopUnstored(ctx, id, err)
		case !errors.Is(err, broker.ErrWrongSequence) && !errors.Is(err, broker.ErrInFlight): // else its replica was first
			return nil, err
		}
	}
}

// progress is how far an operation is, and the sequence of the message that says so: 0 where
// no replica has said anything yet.
func (r *Runner) progress(ctx context.Context, id string) (p *genbusv1.OperationProgress, seq uint64, err error) {
	m, err := r.o.Broker.Last(ctx, r.names().Ops(), r.names().OperationProgress(id))
	if errors.Is(err, broker.ErrNoMessage) {
		return &genbusv1.OperationProgress{State: genbusv1.OperationProgress_STATE_RUNNING}, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	p = &genbusv1.OperationProgress{}
	if err := proto.Unmarshal(m.Data, p); err != nil {
		return nil, 0, fmt.Errorf("the progress of operation %s: %w", id, err)
	}
	p.UpdatedAt = timestamppb.New(m.Time)
	return p, m.Seq, nil
}

// put stores a message where the last one on its subject is the one of a sequence.
func (r *Runner) put(ctx context.Context, subj string, what proto.Message, last uint64) (broker.Ack, error) {
	data, err := proto.Marshal(what)
	if err != nil {
		return broker.Ack{}, err
	}
	m := nats.NewMsg(subj)
	m.Header[subject.HeaderCEDataContentType], m.Data = []string{subject.ContentTypeProtobuf}, data
	return r.o.Broker.PublishExpecting(ctx, broker.Jobs, m, last)
}

func (r *Runner) names() subject.Space { return r.o.Broker.Names() }

// do goes on with an operation in the background, where this replica has room for one more.
func (r *Runner) do(op *genbusv1.Operation, p *genbusv1.OperationProgress, seq uint64) {
	id := op.GetId()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || r.running[id] != nil || len(r.running) >= maxRunning {
		return
	}
	x := &execution{r: r, op: op, p: proto.CloneOf(p), seq: seq, wake: make(chan struct{}, 1), log: r.o.Logger.With("operation", id)}
	r.running[id] = x
	r.all.Go(func() {
		defer func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.running, id)
		}()
		x.run(r.taking)
	})
}

// execution is that of an operation that this replica does, or nil.
func (r *Runner) execution(id string) *execution {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[id]
}

// passing reports whether an error may be gone later.
func passing(err error) bool {
	code := codeOf(err)
	return errcode.MeaningOf(code).Retry || code == errcode.AcceptanceUnknown
}

func codeOf(err error) errcode.Code {
	f, ok := errors.AsType[*errcode.Error](err)
	switch {
	case ok:
		return f.Code
	case errors.Is(err, broker.ErrFull):
		return errcode.StorageFull
	case broker.Unavailable(err):
		return errcode.BrokerUnavailable
	}
	return errcode.From(err).Code
}
