// Package chatlog follows a chat: its events and its chunks, in order,
// resumable. It publishes nothing and decides nothing about the chat.
package chatlog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tail"
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
var ErrToken = errors.New("the resume token does not belong to this chat")

// Item is one step of a chat. Exactly one of Event, Chunk and Gap is set.
type Item struct {
	// Event is a change of the chat.
	Event *joblog.Entry
	// Chunk holds new blocks. Blocks is always set, and BlocksRef never. Followers share
	// it, and do not change it.
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
	// RereadEvery is how long nothing comes until a chat's chunks are checked: core
	// delivery can lose the last one. Default: 10s.
	RereadEvery time.Duration
	// Reads is how many readings of the stream are under way at a time, for all
	// followers together. Default: 4.
	Reads int
}

func (o Options) withDefaults() Options {
	if o.SettleWait == 0 {
		o.SettleWait = 2 * time.Second
	}
	return o
}

// Log follows chats. It is safe for concurrent use.
type Log struct {
	b      *broker.Broker
	tasks  *joblog.Log
	bodies *broker.Bodies
	opts   Options
	tails  *tail.Set[subject.JobName, *genbusv1.ChatChunk]
	stream stream
}

// cursor is a place among the chunks of a chat.
type cursor = tail.Cursor[subject.JobName, *genbusv1.ChatChunk]

// New returns a log. The task log must have been started before Follow.
func New(b *broker.Broker, tasks *joblog.Log, bodies *broker.Bodies, o Options) *Log {
	o = o.withDefaults()
	l := &Log{b: b, tasks: tasks, bodies: bodies, opts: o}
	l.stream.read = l.readStream
	l.tails = tail.NewSet(source{l}, tail.Options{Buffer: o.ReaderBuffer, Silence: o.RereadEvery, Reads: o.Reads, Trouble: b.Trouble})
	b.OnReconnect(func(context.Context) { l.wake() })
	return l
}

// Follow yields what a chat has, and then every new event and chunk. It ends
// after the terminal event, which comes last. Chunks of an attempt that a later
// one has replaced, and repeats, are left out; what is missing is told as a Gap.
//
// token is that of the last item that was handled, or empty for the start. One
// whose place is gone is answered with a Gap (resume_expired) and the current
// state. An error is yielded last: ErrToken, joblog.ErrNotFound,
// joblog.ErrSlowReader, the cause of ctx's end, or a read that has failed for 30 s.
func (l *Log) Follow(ctx context.Context, n subject.JobName, token string) iter.Seq2[Item, error] {
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

// wake checks every chat: what was published while the connection was away is gone, and
// the stream may be another one.
func (l *Log) wake() {
	l.stream.forget()
	l.tails.Wake()
}
