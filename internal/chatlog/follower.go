package chatlog

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// errEnded ends a follower after the terminal event or when its caller stops.
var errEnded = errors.New("the follower has ended")

// endPoll is the interval between reads of the stream for the missing chunks of an ended chat.
const endPoll = 200 * time.Millisecond

// follower is the state of one call to Follow. Its methods run in the caller's goroutine. Any error
// ends the call.
type follower struct {
	log    *Log
	name   subject.JobName
	yield  func(Item, error) bool
	events *joblog.Cursor
	chunks *cursor
	at     position
	// terminal is the terminal event, held back until all chunks have been yielded.
	terminal *joblog.Entry
}

func (f *follower) follow(ctx context.Context, token string) error {
	var err error
	if f.at, err = parseToken(f.name, token); err != nil {
		return err
	}
	f.events = f.log.tasks.Join(f.name, f.at.version)
	defer f.events.Close()
	ended, err := f.place(ctx)
	if err != nil {
		return err
	}
	f.chunks = f.log.tails.Join(f.name, f.at.created, f.at.seq, ended)
	defer f.chunks.Close()
	if _, _, err := f.chunks.Started(ctx); err != nil {
		return err
	}
	return f.run(ctx)
}

// place validates the position. If the position no longer exists, place yields a gap and moves to
// the current state. It reports whether the chat has ended, and returns errEnded if the caller has
// already seen everything.
func (f *follower) place(ctx context.Context) (ended bool, err error) {
	head, found, err := f.events.Started(ctx)
	if err == nil && f.at.version > head.Pos { // the caller saw it on another replica, which may know more
		if err = f.events.Sync(ctx); err == nil {
			head, found, err = f.events.Started(ctx)
		}
	}
	switch {
	case err != nil:
		return false, err
	case !found:
		return false, joblog.ErrNotFound
	}
	s, err := f.stream(ctx)
	if err != nil {
		return false, err
	}
	current := head.Value
	gone := f.at.seq > 0 && (s == nil || f.at.created != created(s) || f.at.seq > s.State.LastSeq)
	f.at.created = created(s)
	switch {
	case gone || f.at.version > current.Version():
		f.at = position{created: created(s), attempt: attempt(current), version: current.Version() - 1}
		f.events.MoveTo(0, f.at.version)
		err = f.emit(Item{Gap: &genbusv1.ChatGap{Reason: ReasonResumeExpired, Attempt: f.at.attempt}})
	case current.Terminal() && f.at.version >= current.Version():
		err = errEnded
	}
	return current.Terminal(), err
}

// stream returns the state of the chunk stream. If the position names a chunk, which may be very
// recent, the state must be current.
func (f *follower) stream(ctx context.Context) (s *jetstream.StreamInfo, err error) {
	maxAge := freshEnough
	if f.at.seq > 0 {
		maxAge = 0
	}
	err = f.log.tails.Retry(ctx, func(ctx context.Context) (err error) {
		s, err = f.log.stream.info(ctx, maxAge)
		return err
	})
	return s, err
}

func attempt(e joblog.Entry) uint32 {
	chat, _ := e.Job.(*genbusv1.Chat)
	return chat.GetAttempt()
}

func chunkCount(e joblog.Entry) uint64 {
	chat, _ := e.Job.(*genbusv1.Chat)
	return chat.GetChunkCount()
}

// run yields items until the chat ends. Events come before the chunks that they announce, and the
// terminal event comes last.
func (f *follower) run(ctx context.Context) error {
	err := f.drainEvents(ctx)
	for err == nil && f.terminal == nil {
		var more bool
		if more, err = f.drainChunks(ctx); err == nil {
			err = f.wait(ctx, more)
		}
	}
	if err != nil {
		return err
	}
	if err := f.awaitLastChunks(ctx); err != nil {
		return err
	}
	f.at.version = f.terminal.Version()
	f.yield(Item{Event: f.terminal, Token: f.token()}, nil)
	return errEnded
}

// wait yields new events. If more is false, it first waits for an event or a chunk.
func (f *follower) wait(ctx context.Context, more bool) error {
	if more {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.events.Signal():
			return f.drainEvents(ctx)
		default:
			return nil
		}
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-f.events.Signal():
		return f.drainEvents(ctx)
	case <-f.chunks.Signal():
		return f.wait(ctx, true)
	}
}

// awaitLastChunks waits for the chunks that the terminal event counts. They were stored before the
// event, unless the writer gave up on them.
func (f *follower) awaitLastChunks(ctx context.Context) error {
	if err := f.drainAll(ctx); err != nil || f.whole() {
		return err
	}
	if err := f.reread(ctx); err != nil {
		return err
	}
	// No more chunks will arrive if the chat ended long ago.
	remaining := f.log.opts.EndWait - max(time.Since(f.terminal.Time), 0)
	deadline := time.NewTimer(max(remaining, 0))
	defer deadline.Stop()
	poll := time.NewTicker(endPoll)
	defer poll.Stop()
	for !f.whole() {
		var err error
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-deadline.C:
			return f.missing(chunkCount(*f.terminal))
		case <-poll.C:
			err = f.reread(ctx)
		case <-f.chunks.Signal():
			err = f.drainAll(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// whole reports whether all chunks that the terminal event counts have been yielded.
func (f *follower) whole() bool {
	return f.at.index >= chunkCount(*f.terminal)
}

// reread reads the latest chunks from the leader and yields them.
func (f *follower) reread(ctx context.Context) error {
	if err := f.chunks.Sync(ctx); err != nil {
		return err
	}
	return f.drainAll(ctx)
}

func (f *follower) drainAll(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = f.drainChunks(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *follower) drainEvents(ctx context.Context) error {
	for f.terminal == nil {
		items, err := f.events.Next(ctx)
		for _, it := range items {
			if err := f.event(it.Value); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) && f.terminal == nil:
			return errEnded // the caller has seen the end
		case errors.Is(err, io.EOF) || len(items) > 0:
			continue
		default:
			return err
		}
	}
	return nil
}

// eventOf yields events up to the first one of an attempt. That event must already be in the log.
func (f *follower) eventOf(ctx context.Context, attempt uint32) error {
	if err := f.drainEvents(ctx); err != nil || f.at.attempt >= attempt || f.terminal != nil {
		return err
	}
	if err := f.events.Sync(ctx); err != nil {
		return err
	}
	return f.drainEvents(ctx)
}

// event yields a new event, but holds back the terminal event.
func (f *follower) event(e joblog.Entry) error {
	if e.Version() <= f.at.version || f.terminal != nil {
		return nil
	}
	f.enter(attempt(e))
	if e.Terminal() {
		f.terminal = &e
		return nil
	}
	f.at.version = e.Version()
	return f.emit(Item{Event: &e})
}

// enter switches to a later attempt, whose blocks start at index 0.
func (f *follower) enter(attempt uint32) {
	if attempt > f.at.attempt {
		f.at.attempt, f.at.index = attempt, 0
	}
}

func (f *follower) emit(item Item) error {
	item.Token = f.token()
	if !f.yield(item, nil) {
		return errEnded
	}
	return nil
}

func (f *follower) token() string { return f.at.token(f.name) }
