// Package chatlog follows chats. It delivers a chat's events and chunks in order, and readers can
// resume after any of them. It only reads, and never changes a chat.
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

// Values of ChatGap.Reason.
const (
	// ReasonGap means that blocks are permanently missing.
	ReasonGap = "gap"
	// ReasonResumeExpired means that the position to resume from no longer exists. The chat's
	// current state follows.
	ReasonResumeExpired = "resume_expired"
)

// ErrToken means that a resume token does not belong to this chat.
var ErrToken = errors.New("the resume token does not belong to this chat")

// Item is one event, chunk or gap of a chat. Exactly one of Event, Chunk and Gap is set.
type Item struct {
	// Event is a change in the chat's state.
	Event *joblog.Entry
	// Chunk holds new blocks, always in Blocks and never in BlocksRef. Followers share it and must
	// not modify it.
	Chunk *genbusv1.ChatChunk
	// Gap means that blocks are missing before the next item.
	Gap *genbusv1.ChatGap
	// Token is the token for resuming after this item.
	Token string
}

// Options configures a Log. Zero fields select defaults.
type Options struct {
	// ReaderBuffer limits the unread data of one follower, in bytes. Default: 1 MiB.
	ReaderBuffer int
	// EndWait is how long to wait for the last chunks after a chat's end. Default: 2s.
	EndWait time.Duration
	// RereadEvery is how long a chat must be silent before its chunks are checked again, because
	// core NATS may lose the last one. Default: 10s.
	RereadEvery time.Duration
	// Reads limits the concurrent reads of the stream by all followers. Default: 4.
	Reads int
}

func (o Options) withDefaults() Options {
	if o.EndWait == 0 {
		o.EndWait = 2 * time.Second
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

type cursor = tail.Cursor[subject.JobName, *genbusv1.ChatChunk]

// New returns a log. Start the job log before the first call to Follow.
func New(b *broker.Broker, tasks *joblog.Log, bodies *broker.Bodies, o Options) *Log {
	o = o.withDefaults()
	l := &Log{b: b, tasks: tasks, bodies: bodies, opts: o}
	l.stream.read = l.readStream
	l.tails = tail.NewSet(source{l}, tail.Options{Buffer: o.ReaderBuffer, Silence: o.RereadEvery, Reads: o.Reads, Trouble: b.Trouble})
	b.OnReconnect(func(context.Context) { l.wake() })
	return l
}

// Follow yields a chat's history and then each new event and chunk. It ends after the terminal
// event, which comes last. It omits repeated chunks and chunks of superseded attempts, and reports
// missing blocks as a Gap.
//
// token is the Token of the last handled item, or empty to start at the beginning. If the token's
// position no longer exists, Follow yields a Gap with ReasonResumeExpired and then the current
// state. The last value may be an error. It wraps ErrToken, joblog.ErrNotFound,
// joblog.ErrSlowReader, the cause of ctx, or the error of a read that failed for 30 s.
func (l *Log) Follow(ctx context.Context, n subject.JobName, token string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		f := &follower{log: l, name: n, yield: yield}
		err := f.follow(ctx, token)
		if errors.Is(err, errEnded) {
			return
		}
		if ctx.Err() != nil { // more precise than the interrupted read's error
			err = context.Cause(ctx)
		}
		yield(Item{}, fmt.Errorf("follow %s: %w", n.ID, err))
	}
}

// wake checks every followed chat, because messages published during an outage were missed and the
// stream may have been recreated.
func (l *Log) wake() {
	l.stream.invalidate()
	l.tails.Wake()
}
