// Package chatlog follows a chat: its events and its chunks, in order,
// resumable. It publishes nothing and decides nothing about the chat.
package chatlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// The reasons of a gap.
const (
	// ReasonGap: blocks are missing for good.
	ReasonGap = "gap"
	// ReasonResumeExpired: the place to resume from is gone; what follows is the
	// current state.
	ReasonResumeExpired = "resume_expired"
)

// ErrToken says that a resume token is not one of this chat.
var ErrToken = errors.New("the resume token is not one of this chat")

// Item is one step of a chat. Exactly one of Event, Chunk and Gap is set.
type Item struct {
	// Event is a change of the chat.
	Event *tasklog.Entry
	// Chunk holds new blocks. Blocks is always set, and BlocksRef never.
	Chunk *genbusv1.ChatChunk
	// Gap says that blocks are missing before the next item.
	Gap *genbusv1.ChatGap
	// Token resumes after this item.
	Token string
}

// Options are the limits of a Log. Zero fields: the defaults.
type Options struct {
	// ReaderBuffer bounds what may wait for one follower, in bytes. Default: 1 MiB.
	ReaderBuffer int
	// SettleWait is how long after a chat's end its last chunks are waited for.
	// Default: 2s.
	SettleWait time.Duration
	// RereadEvery is how often a follower reads the leader although nothing came:
	// core delivery can lose the last chunk. Default: 10s.
	RereadEvery time.Duration
	// Reads is how many chunks are read from the stream at a time, for all
	// followers together. Default: 4.
	Reads int
}

func (o Options) withDefaults() Options {
	if o.ReaderBuffer == 0 {
		o.ReaderBuffer = 1 << 20
	}
	if o.SettleWait == 0 {
		o.SettleWait = 2 * time.Second
	}
	if o.RereadEvery == 0 {
		o.RereadEvery = 10 * time.Second
	}
	if o.Reads == 0 {
		o.Reads = 4
	}
	return o
}

// Log follows chats. It is safe for concurrent use.
type Log struct {
	b      *broker.Broker
	tasks  *tasklog.Log
	bodies *broker.Bodies
	opts   Options
	// reads has a place for each read of the stream. The broker answers them one
	// after the other, a MiB at a time: without a bound, those who read long chats
	// again would keep it from everybody else.
	reads chan struct{}

	mu     sync.Mutex
	live   map[subject.TaskName]*live
	chunks streamState
}

// live is the one subscription to a chat's chunks that its followers share: each of
// their own would bring a copy of every chunk over the one connection.
type live struct {
	sub     *nats.Subscription
	readers map[*reader]struct{}
}

// streamState is what is known of the stream of chunks.
type streamState struct {
	read    time.Time // zero: not at all
	created int64     // Unix nanoseconds; 0 while there is no stream
	last    uint64    // its last sequence
}

// New returns a log. The task log must have been started before Follow.
func New(b *broker.Broker, tasks *tasklog.Log, bodies *broker.Bodies, o Options) *Log {
	o = o.withDefaults()
	l := &Log{b: b, tasks: tasks, bodies: bodies, opts: o, reads: make(chan struct{}, o.Reads), live: map[subject.TaskName]*live{}}
	b.OnReconnect(func(context.Context) { l.wake() })
	return l
}

// Follow yields what a chat has, and then every new event and chunk. It ends
// after the terminal event, which comes last. Chunks of an attempt that a later
// one has replaced, and repeats, are left out; what is missing is told as a Gap.
//
// token is that of the last item that was handled, or empty for the start. One
// whose place is gone is answered with a Gap (resume_expired) and the current
// state. An error is yielded last: ErrToken, tasklog.ErrNotFound,
// tasklog.ErrSlowReader, the cause of ctx's end, or a failed read.
func (l *Log) Follow(ctx context.Context, n subject.TaskName, token string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		f := &follower{log: l, name: n, yield: yield}
		err := f.follow(ctx, token)
		if errors.Is(err, errEnded) {
			return
		}
		if ctx.Err() != nil { // a read that it cut off says less
			err = context.Cause(ctx)
		}
		yield(Item{}, fmt.Errorf("follow %s: %w", n.ID, err))
	}
}

// wake makes every follower read the leader again: what was published while the
// connection was away is gone, and the stream may be another one.
func (l *Log) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chunks.read = time.Time{}
	for _, c := range l.live {
		for r := range c.readers {
			r.reread()
		}
	}
}

// flushTimeout bounds the wait until the server knows of a subscription.
const flushTimeout = 5 * time.Second

// listen hands the chunks of a chat to r as they are stored, until stop.
func (l *Log) listen(n subject.TaskName, r *reader) (stop func(), err error) {
	if err := l.join(n, r); err != nil {
		return nil, fmt.Errorf("subscribe to live chunks: %w", errors.Join(broker.ErrUnavailable, err))
	}
	stop = func() { l.leave(n, r) }
	if err := l.b.Conn().FlushTimeout(flushTimeout); err != nil {
		stop()
		return nil, fmt.Errorf("subscribe to live chunks: %w", errors.Join(broker.ErrUnavailable, err))
	}
	return stop, nil
}

func (l *Log) join(n subject.TaskName, r *reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.live[n]
	if c == nil {
		sub, err := l.b.Conn().Subscribe(l.b.Names().LiveChunk(n.Tenant, n.ID), func(m *nats.Msg) { l.push(n, m) })
		if err != nil {
			return err
		}
		c = &live{sub: sub, readers: map[*reader]struct{}{}}
		l.live[n] = c
	}
	c.readers[r] = struct{}{}
	return nil
}

func (l *Log) leave(n subject.TaskName, r *reader) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.live[n]
	if delete(c.readers, r); len(c.readers) == 0 {
		_ = c.sub.Unsubscribe() // a closed connection has no subscription left
		delete(l.live, n)
	}
}

// push hands a chunk to all that follow its chat.
func (l *Log) push(n subject.TaskName, m *nats.Msg) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.live[n]; c != nil {
		for r := range c.readers {
			r.push(m)
		}
	}
}

// freshEnough is how old a look at the stream may be where it only has to
// notice, some time, that the stream was made anew.
const freshEnough = time.Second

// stream looks at the stream of chunks, at most maxAge ago. Many followers share
// a look.
func (l *Log) stream(ctx context.Context, maxAge time.Duration) (streamState, error) {
	l.mu.Lock()
	known := l.chunks
	l.mu.Unlock()
	if !known.read.IsZero() && time.Since(known.read) < maxAge {
		return known, nil
	}
	state := streamState{read: time.Now()}
	s, err := l.b.Stream(ctx, l.b.Names().Chunks())
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
	case err != nil:
		return streamState{}, fmt.Errorf("stream %s: %w", l.b.Names().Chunks(), err)
	default:
		info := s.CachedInfo()
		state.created, state.last = info.Created.UnixNano(), info.State.LastSeq
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.chunks = state
	return state, nil
}
