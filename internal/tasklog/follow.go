package tasklog

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// rereadEvery is how often a follower reads the leader although nothing came:
// core delivery can lose the last event of a job.
const rereadEvery = 10 * time.Second

// Follow yields a job's events with a version above after: the history, then
// every new event as it is committed, without gaps and in order. It ends after
// the terminal event. An error is yielded last: ErrNotFound, also for a job that
// was erased before its end was seen; ErrSlowReader; the end of ctx; or a failed
// read. Start must have been called.
func (l *Log) Follow(ctx context.Context, n subject.TaskName, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		subj := l.b.Names().LiveTask(n.Kind, n.Tenant, n.ID)
		// Listening starts before the history is read, so that nothing falls
		// between the two.
		r := l.hub.add(subj)
		defer l.hub.remove(subj, r)
		f := &follower{log: l, name: n, last: after, yield: yield}
		if more := f.read(ctx); more {
			f.run(ctx, r)
		}
	}
}

type follower struct {
	log   *Log
	name  subject.TaskName
	last  uint64 // version that was yielded last
	seq   uint64 // highest sequence in the stream that was seen
	yield func(Entry, error) bool
}

// read yields what the leader has beyond the last version. A job without any event
// is not found, or was erased since; one whose events were all seen goes on if it
// has not ended. Where nothing is new this is one read.
func (f *follower) read(ctx context.Context) (more bool) {
	current, err := f.log.Get(ctx, f.name)
	if err != nil {
		f.yield(Entry{}, err)
		return false
	}
	if current.Version() <= f.last {
		return !current.Terminal()
	}
	entries, err := f.log.historyFrom(ctx, f.name, f.last, f.seq+1)
	for _, e := range entries {
		if !f.emit(e) {
			return false
		}
	}
	if err != nil {
		f.yield(Entry{}, err)
		return false
	}
	return true
}

func (f *follower) emit(e Entry) (more bool) {
	f.last, f.seq = e.Version(), max(f.seq, e.Seq)
	return f.yield(e, nil) && !e.Terminal()
}

func (f *follower) run(ctx context.Context, r *reader) {
	ticker := time.NewTicker(rereadEvery)
	defer ticker.Stop()
	for more := true; more; {
		select {
		case <-ctx.Done():
			f.yield(Entry{}, fmt.Errorf("follow %s: %w", f.name.ID, context.Cause(ctx)))
			return
		case <-ticker.C:
			more = f.read(ctx)
		case <-r.signal:
			more = f.drain(ctx, r)
		}
	}
}

func (f *follower) drain(ctx context.Context, r *reader) (more bool) {
	queue, stale, full := r.take()
	if full {
		f.yield(Entry{}, fmt.Errorf("follow %s: %w", f.name.ID, ErrSlowReader))
		return false
	}
	for _, m := range queue {
		if !f.live(ctx, m) {
			return false
		}
	}
	return !stale || f.read(ctx)
}

// live yields a republished event, after reading what is missing before it.
func (f *follower) live(ctx context.Context, m *nats.Msg) (more bool) {
	event, err := publisher.DecodeEvent(f.name.Kind, m.Header, m.Data)
	if err != nil {
		f.yield(Entry{}, fmt.Errorf("follow %s: %w", f.name.ID, err))
		return false
	}
	switch version := event.Version(); {
	case version <= f.last:
		return true
	case version > f.last+1:
		return f.read(ctx)
	default:
		seq, err := strconv.ParseUint(header(m.Header, jetstream.SequenceHeader), 10, 64)
		if err != nil { // republished without its place: read it from the log
			return f.read(ctx)
		}
		return f.emit(Entry{Event: event, Seq: seq})
	}
}
