package core

import (
	"context"
	"errors"
	"iter"
	"os"

	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Watcher follows jobs of either kind for their callers. Every watch ends when the process drains,
// and with stream_ended after limits.stream_time.
type Watcher struct {
	cfg     *config.Live
	jobs    *Jobs
	log     *joblog.Log
	chats   *chatlog.Log
	metrics *telemetry.Metrics
	drain   *drain
}

// Count calls run, which follows a job for a reader, and counts the reader. It also counts a reader
// that was cut off for reading too slowly. HTTP reports that as os.ErrDeadlineExceeded.
func (w *Watcher) Count(kind subject.Kind, ingress telemetry.Ingress, run func() error) error {
	defer w.metrics.ReaderOpened(kind, ingress)()
	err := run()
	if errcode.CodeOf(err) == errcode.SlowReader || errors.Is(err, os.ErrDeadlineExceeded) {
		w.metrics.SlowReaderCut(kind, ingress)
	}
	return err
}

// follow registers a call that only follows a job and bounds its lifetime. The bound finds clients
// that vanished and spreads connections over new replicas. The call must call release at its end.
func (w *Watcher) follow(ctx context.Context) (_ context.Context, release func()) {
	lifetime := w.cfg.Now().Limits.StreamTime
	ctx, stop := context.WithTimeoutCause(ctx, lifetime,
		errcode.New(errcode.StreamEnded, "the stream reached its maximum lifetime of %s; resume after the last event", lifetime))
	ctx, left := w.drain.watch(ctx)
	return ctx, func() {
		left()
		stop()
	}
}

// VideoWatch yields a task's events after a version.
type VideoWatch struct {
	Name subject.JobName
	// Expired is set if the log never had the version that the caller named, because this is not
	// the log that the caller followed, or because the version is made up. The current state
	// follows.
	Expired bool
	// Over is set if the caller has seen the terminal event.
	Over bool

	watcher *Watcher
	after   uint64
}

// Video prepares to follow a task's events with versions above after. It fails if the task does not
// exist.
func (w *Watcher) Video(ctx context.Context, n subject.JobName, after uint64) (VideoWatch, error) {
	e, err := w.jobs.getLogged(ctx, n)
	if err != nil {
		return VideoWatch{}, err
	}
	v := VideoWatch{Name: n, Expired: after > e.Version(), Over: after == e.Version() && e.Terminal(), watcher: w, after: after}
	if v.Expired {
		v.after = e.Version() - 1
	}
	return v, nil
}

// Events yields events up to the terminal one. An error comes last.
func (v VideoWatch) Events(ctx context.Context) iter.Seq2[joblog.Entry, error] {
	return func(yield func(joblog.Entry, error) bool) {
		ctx, release := v.watcher.follow(ctx)
		defer release()
		for e, err := range v.watcher.log.Follow(ctx, v.Name, v.after) {
			if err != nil {
				yield(e, Explain(ctx, v.Name, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Chat follows a chat's events, chunks and gaps after the resume token, or from the start without
// one. It fails if the chat does not exist. The sequence ends after the terminal event. An error,
// such as for a token of another chat, comes last.
func (w *Watcher) Chat(ctx context.Context, n subject.JobName, token string) (iter.Seq2[chatlog.Item, error], error) {
	if _, err := w.jobs.getLogged(ctx, n); err != nil {
		return nil, err
	}
	return func(yield func(chatlog.Item, error) bool) {
		ctx, release := w.follow(ctx)
		defer release()
		for item, err := range w.chats.Follow(ctx, n, token) {
			if err != nil {
				yield(item, Explain(ctx, n, err))
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}, nil
}

// await waits until a job has ended, bounded by ctx and limits.stream_time.
func (w *Watcher) await(ctx context.Context, e joblog.Entry) (joblog.Entry, error) {
	if e.Terminal() {
		return e, nil
	}
	ctx, release := w.follow(ctx)
	defer release()
	e, err := w.jobs.waitLogged(ctx, e)
	if err != nil {
		return e, err
	}
	for next, err := range w.log.Follow(ctx, e.Name(), e.Version()) {
		if err != nil {
			return e, following(Explain(ctx, e.Name(), err))
		}
		e = next
	}
	if !e.Terminal() { // erased, and a later job with its id has ended with fewer events
		return e, notFound(e.Name())
	}
	return e, nil
}

// following explains that an error ended the wait and not the job, unless the job was erased.
func following(f *errcode.Error) *errcode.Error {
	if f.Code == errcode.TaskNotFound || f.Code == errcode.ChatNotFound {
		return f
	}
	out := *f
	out.Message = "job " + f.JobID + " was accepted and continues, but this call can no longer follow it; send the same request again (" + f.Message + ")"
	return &out
}
