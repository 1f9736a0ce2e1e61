package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// FollowVideo yields the events of a task with a version above after (0 for all): what
// there is, and then every new one, in order, none twice and none missing. It ends after
// the terminal event. To go on another day, remember the version of the last event.
//
// It outlives the loss of the connection, restarts of genbus and of NATS: it goes on
// where it was as soon as it can, as long as nats.go reconnects. A task whose first event
// is not there yet is waited for, so an id that is wrong but well-formed is too: bound
// ctx, or ask GetVideo first.
//
// An error comes last: ErrTaskNotFound for what is no id of a task, and for a task that was
// erased meanwhile; ErrBrokerUnavailable where the log can never be read (no such stream,
// no right to it); nats.ErrConnectionClosed; an event that cannot be read; the cause of
// ctx's end.
func (c *Client) FollowVideo(ctx context.Context, id string, after uint64) iter.Seq2[*genbusv1.VideoTaskEvent, error] {
	return func(yield func(*genbusv1.VideoTaskEvent, error) bool) {
		f := &follower{c: c, kind: Video, id: id, version: after, event: func(e jobEvent) error {
			if !yield(e.video, nil) || e.ended {
				return errEnded
			}
			return nil
		}}
		if err := f.follow(ctx); !errors.Is(err, errEnded) {
			yield(nil, fmt.Errorf("follow %s: %w", id, err))
		}
	}
}

// WaitVideo follows a task to its end and returns it. A task that failed or was cancelled
// is returned together with the error that it ended with, an *Error.
func (c *Client) WaitVideo(ctx context.Context, id string) (*genbusv1.VideoTask, error) {
	var task *genbusv1.VideoTask
	for e, err := range c.FollowVideo(ctx, id, 0) {
		if err != nil {
			return task, err
		}
		task = e.GetTask()
	}
	return task, ErrorOf(task.GetError(), id)
}
