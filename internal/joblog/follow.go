package joblog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tail"
)

// Cursor is a follower's position in the history of a job.
type Cursor = tail.Cursor[subject.JobName, Entry]

// followers follows jobs live. Followers of the same job share reads.
type followers struct {
	tails *tail.Set[subject.JobName, Entry]
}

// Join returns a cursor for a job's events whose versions are greater than after. Start must have
// been called.
func (f *followers) Join(n subject.JobName, after uint64) *Cursor {
	return f.tails.Join(n, 0, after, false)
}

// Follow yields a job's events whose versions are greater than after: first the history, then each
// new event, in order and without gaps. It ends after the terminal event. Its last value may be an
// error. Possible errors are ErrNotFound (also if the job was erased before its end was seen),
// ErrSlowReader, the cause of ctx, and the error of a read that has failed for 30 s. Followers
// share entries and must not modify them. Start must have been called.
func (f *followers) Follow(ctx context.Context, n subject.JobName, after uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		c := f.Join(n, after)
		defer c.Close()
		if err := follow(ctx, c, after, func(e Entry) bool { return yield(e, nil) }); err != nil {
			yield(Entry{}, fmt.Errorf("follow %s: %w", n.ID, err))
		}
	}
}

// follow yields the events of a cursor until the job ends or yield returns false.
func follow(ctx context.Context, c *Cursor, after uint64, yield func(Entry) bool) error {
	head, _, err := c.Started(ctx)
	if err == nil && after > head.Pos { // the caller knows more than this replica
		err = c.Sync(ctx)
	}
	if err != nil {
		return err
	}
	for {
		entries, err := c.Next(ctx)
		for _, e := range entries {
			if !yield(e.Value) {
				return nil
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(entries) > 0:
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-c.Signal():
		}
	}
}

// source reads the histories of jobs for package tail. The position of an item is its version.
type source struct{ *Log }

type item = tail.Item[Entry]

// itemSize is the memory, in bytes, that an entry uses in addition to its message.
const itemSize = 256

func newItem(e Entry, size int) item {
	return item{Pos: e.Version(), Before: e.Version() - 1, Seq: e.Seq, Size: itemSize + size, Final: e.Terminal(), Value: e}
}

// Epoch is constant, because versions continue in a recreated stream.
func (source) Epoch(context.Context) (int64, error) { return 0, nil }

// Listen subscribes to the republished events of one job. A later read on the same connection
// reaches the server after the subscription. If another server stores an event before it learns of
// the subscription, the check after a silence finds the event.
func (s source) Listen(n subject.JobName, live func(item, error)) (stop func(), err error) {
	sub, err := s.b.Conn().Subscribe(s.b.Names().LiveTask(n.Kind, n.Tenant, n.ID), func(m *nats.Msg) {
		if s.hub.drops() || !s.b.Synced(s.b.Names().Tasks(), m.Header) {
			return // if it is stored after all, the check after a silence finds it
		}
		event, err := publisher.DecodeEvent(n.Kind, m.Header, m.Data)
		seq, bad := strconv.ParseUint(header(m.Header, jetstream.SequenceHeader), 10, 64)
		if err = errors.Join(err, bad); err != nil {
			live(item{}, err)
			return
		}
		live(newItem(Entry{Event: event, Seq: seq}, len(m.Data)), nil)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to live events: %w", errors.Join(broker.ErrUnavailable, err))
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only on a closed connection
}

// Head reads the job's current state from the leader.
func (s source) Head(ctx context.Context, n subject.JobName) (item, bool, error) {
	e, size, err := s.get(ctx, n, s.b.Last)
	if err != nil {
		return item{}, false, err
	}
	return newItem(e, size), true, nil
}

// Page reads the events whose versions are greater than after.
func (s source) Page(ctx context.Context, n subject.JobName, after, seq uint64) ([]item, error) {
	subj := s.b.Names().Task(n.Kind, n.Tenant, n.ID)
	for {
		stored, err := s.b.Page(ctx, s.b.Names().Tasks(), subj, seq+1)
		if err != nil || len(stored) == 0 {
			return nil, err
		}
		var out []item
		for _, m := range stored {
			e, err := decodeStored(n, m)
			if err != nil {
				return nil, err
			}
			if seq = m.Seq; e.Version() > after {
				out = append(out, newItem(e, len(m.Data)))
			}
		}
		if len(out) > 0 {
			return out, nil
		}
	}
}

// Behind reads the last events of many jobs at once.
func (s source) Behind(ctx context.Context, known []tail.Known[subject.JobName], missing bool) (tail.Change, error) {
	jobs := make([]Known, len(known))
	for i, k := range known {
		jobs[i] = Known{Name: k.Key, Seq: k.Seq}
	}
	behind, upTo, err := s.Log.Behind(ctx, jobs, missing)
	return tail.Change{Behind: behind, Seq: upTo}, err
}

// Known pairs a job with the sequence up to which its events are known.
type Known struct {
	Name subject.JobName
	Seq  uint64
}

// Behind returns the indexes of the jobs that have an event above their known sequence. If missing
// is true, it also returns jobs that the log does not have, possibly with a delay (see
// broker.Broker.Behind). It may also return other jobs. The jobs that it does not return have no
// new events up to sequence upTo. len(known) must not exceed broker.MaxSubjects.
func (l *Log) Behind(ctx context.Context, known []Known, missing bool) (behind []int, upTo uint64, err error) {
	stream, err := l.b.Stream(ctx, l.b.Names().Tasks())
	if err != nil {
		return nil, 0, err
	}
	subjects := make([]broker.Known, len(known))
	for i, k := range known {
		subjects[i] = broker.Known{Subject: l.b.Names().Task(k.Name.Kind, k.Name.Tenant, k.Name.ID), Seq: k.Seq}
	}
	state := stream.CachedInfo()
	behind, err = l.b.Behind(ctx, state, subjects, missing)
	return behind, state.State.LastSeq, err
}
