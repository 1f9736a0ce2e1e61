package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// FollowVideo yields the events of a task with a version above after (0: all), in order, without
// gaps or duplicates. It ends after the terminal event. To resume later, pass the version of the
// last event seen.
//
// It survives lost connections and restarts of genbus and NATS while nats.go keeps reconnecting. It
// also waits for a task whose first event is not stored yet, and therefore for a well-formed ID
// that does not exist: bound ctx, or call GetVideo first.
//
// An error is yielded last, with a nil event: ErrTaskNotFound if the ID is malformed or the task
// was erased; ErrBrokerUnavailable if the log can never be read (no stream, no permission);
// nats.ErrConnectionClosed; a decoding error; or the cause of ctx's end.
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

// WaitVideo follows a task to its end and returns it. If the task failed or was cancelled, it
// returns the task and its error, an *Error. If following fails, it returns the latest state seen,
// or nil, and the error of FollowVideo.
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
