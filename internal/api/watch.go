package api

import (
	"context"
	"iter"

	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// videoWatch is a task's events from a version on.
type videoWatch struct {
	core  *core
	name  subject.TaskName
	after uint64
	// expired is true when the caller has seen a version that the log never
	// had: another log, or a made-up number. The current state follows.
	expired bool
	// over is true when the caller has seen the terminal event.
	over bool
}

// watchVideo prepares to follow a task; events with a version above after
// follow. It fails when there is no such task.
func (c *core) watchVideo(ctx context.Context, n subject.TaskName, after uint64) (videoWatch, error) {
	e, err := c.getRecorded(ctx, n)
	if err != nil {
		return videoWatch{}, err
	}
	w := videoWatch{core: c, name: n, after: after, expired: after > e.Version(), over: after == e.Version() && e.Terminal()}
	if w.expired {
		w.after = e.Version() - 1
	}
	return w, nil
}

// events yields the events; it ends after the terminal one. An error comes last.
func (w videoWatch) events(ctx context.Context) iter.Seq2[tasklog.Entry, error] {
	return func(yield func(tasklog.Entry, error) bool) {
		ctx, leave := w.core.follow(ctx)
		defer leave()
		for e, err := range w.core.log.Follow(ctx, w.name, w.after) {
			if err != nil {
				yield(e, meaning(ctx, w.name, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// watchChat yields a chat's events, chunks and gaps from a token on, or from the
// start; it ends after the terminal event. An error comes last.
func (c *core) watchChat(ctx context.Context, n subject.TaskName, token string) iter.Seq2[chatlog.Item, error] {
	return func(yield func(chatlog.Item, error) bool) {
		ctx, leave := c.follow(ctx)
		defer leave()
		for item, err := range c.chats.Follow(ctx, n, token) {
			if err != nil {
				yield(item, meaning(ctx, n, err))
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}
