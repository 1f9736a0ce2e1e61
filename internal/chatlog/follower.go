package chatlog

import (
	"context"
	"errors"
	"sync"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// errEnded ends a follower that has nothing more to say: the terminal event was
// yielded, or the caller has stopped.
var errEnded = errors.New("the follower has ended")

// settlePoll is how often the stream is read for chunks that a finished chat
// still misses.
const settlePoll = 200 * time.Millisecond

// follower is one call of Follow. Its methods run in the caller's goroutine, and
// their error ends it.
type follower struct {
	log   *Log
	name  subject.TaskName
	yield func(Item, error) bool
	r     *reader
	at    position
	// terminal is the last event, held back until the chunks are complete.
	terminal *tasklog.Entry
}

func (f *follower) follow(ctx context.Context, token string) error {
	var err error
	if f.at, err = parseToken(f.name, token); err != nil {
		return err
	}
	// Listening starts before anything is read, so that nothing falls between
	// the two.
	f.r = newReader(f.log.opts.ReaderBuffer)
	stop, err := f.log.listen(f.name, f.r)
	if err != nil {
		return err
	}
	defer stop()
	if err := f.start(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var events sync.WaitGroup
	defer events.Wait()
	defer cancel()
	if f.terminal == nil {
		after := f.at.version
		events.Go(func() {
			for e, err := range f.log.tasks.Follow(ctx, f.name, after) {
				f.r.event(e, err)
			}
		})
	}
	return f.run(ctx)
}

// start yields what there is: the events, then the chunks of the last attempt.
func (f *follower) start(ctx context.Context) error {
	current, err := f.log.tasks.Get(ctx, f.name)
	if err != nil {
		return err
	}
	if err := f.place(ctx, current); err != nil {
		return err
	}
	if current.Terminal() && f.at.version >= current.Version() {
		return errEnded
	}
	if err := f.readEvents(ctx); err != nil {
		return err
	}
	return f.catchUp(ctx)
}

// place makes sure that the position means something: a place in a stream that
// is gone becomes the current state.
func (f *follower) place(ctx context.Context, current tasklog.Entry) error {
	s, err := f.log.stream(ctx, 0)
	if err != nil {
		return err
	}
	expired := f.at.version > current.Version() || f.at.seq > 0 && (f.at.created != s.created || f.at.seq > s.last)
	f.at.created = s.created
	if !expired {
		return nil
	}
	f.at = position{created: s.created, attempt: attempt(current), version: current.Version() - 1}
	return f.emit(Item{Gap: &genbusv1.ChatGap{Reason: ReasonResumeExpired, Attempt: f.at.attempt}})
}

func attempt(e tasklog.Entry) uint32 {
	chat, _ := e.Job.(*genbusv1.Chat)
	return chat.GetAttempt()
}

func chunkCount(e tasklog.Entry) uint64 {
	chat, _ := e.Job.(*genbusv1.Chat)
	return chat.GetChunkCount()
}

func (f *follower) run(ctx context.Context) error {
	ticker := time.NewTicker(f.log.opts.RereadEvery)
	defer ticker.Stop()
	for f.terminal == nil {
		var err error
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-ticker.C:
			err = f.catchUp(ctx)
		case <-f.r.signal:
			err = f.drain(ctx)
		}
		if err != nil {
			return err
		}
	}
	if err := f.settle(ctx); err != nil {
		return err
	}
	f.at.version = f.terminal.Version()
	f.yield(Item{Event: f.terminal, Token: f.token()}, nil)
	return errEnded
}

// settle waits for the chunks that the terminal event counts. They were stored
// before it, unless its writer had to give them up.
func (f *follower) settle(ctx context.Context) error {
	if err := f.catchUp(ctx); err != nil {
		return err
	}
	// For a chat that ended long ago nothing is going to come.
	left := f.log.opts.SettleWait - max(time.Since(f.terminal.Time), 0)
	deadline := time.NewTimer(max(left, 0))
	defer deadline.Stop()
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	for !f.whole() {
		var err error
		select {
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-deadline.C:
			return f.missing(chunkCount(*f.terminal))
		case <-poll.C:
			err = f.catchUp(ctx)
		case <-f.r.signal:
			err = f.drain(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// whole reports whether every chunk that the terminal event counts was seen.
func (f *follower) whole() bool {
	return f.at.index >= chunkCount(*f.terminal)
}

// drain yields what has arrived.
func (f *follower) drain(ctx context.Context) error {
	got := f.r.take()
	if got.full {
		return tasklog.ErrSlowReader
	}
	for _, e := range got.events {
		if err := f.event(e); err != nil {
			return err
		}
	}
	for _, m := range got.chunks {
		if err := f.live(ctx, m); err != nil {
			return err
		}
	}
	switch {
	case f.terminal != nil:
		return nil
	case got.err != nil:
		return got.err
	case got.stale:
		return f.catchUp(ctx)
	}
	return nil
}

// readEvents yields what the log has beyond the last event, from the leader.
func (f *follower) readEvents(ctx context.Context) error {
	entries, err := f.log.tasks.History(ctx, f.name, f.at.version)
	for _, e := range entries {
		if err := f.event(e); err != nil {
			return err
		}
	}
	return err
}

// event yields an event that is new; the terminal one is kept for the end.
func (f *follower) event(e tasklog.Entry) error {
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

// enter goes on to a later attempt, whose blocks are counted from 0.
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
