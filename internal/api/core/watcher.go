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

// Watcher follows jobs of either kind for their callers. Every watch ends when the
// process drains, and with stream_ended when it has lived for limits.stream_time.
type Watcher struct {
	cfg     *config.Live
	jobs    *Jobs
	log     *joblog.Log
	chats   *chatlog.Log
	metrics *telemetry.Metrics
	drain   *drain
}

// Count runs what follows a job for a reader, and counts the reader: that it is there,
// and that it was cut because it read too slowly. run returns the error that ended it;
// a write that took longer than WriteTimeout is os.ErrDeadlineExceeded by HTTP.
func (w *Watcher) Count(kind subject.Kind, ingress telemetry.Ingress, run func() error) error {
	defer w.metrics.ReaderOpened(kind, ingress)()
	err := run()
	if errcode.CodeOf(err) == errcode.SlowReader || errors.Is(err, os.ErrDeadlineExceeded) {
		w.metrics.SlowReaderCut(kind, ingress)
	}
	return err
}

// follow joins a call that only follows a job. Its bound finds a client that went
// away without a word, and spreads connections over new replicas. leave must be
// called when it is over.
func (w *Watcher) follow(ctx context.Context) (_ context.Context, leave func()) {
	most := w.cfg.Now().Limits.StreamTime
	ctx, stop := context.WithTimeoutCause(ctx, most,
		errcode.New(errcode.StreamEnded, "the stream reached its maximum lifetime of %s; resume after the last event", most))
	ctx, left := w.drain.watch(ctx)
	return ctx, func() {
		left()
		stop()
	}
}

// VideoWatch is a task's events from a version on.
type VideoWatch struct {
	Name subject.JobName
	// Expired is true when the caller has seen a version that the log never
	// had: another log, or a made-up number. The current state follows.
	Expired bool
	// Over is true when the caller has seen the terminal event.
	Over bool

	watcher *Watcher
	after   uint64
}

// Video prepares to follow a task; events with a version above after
// follow. It fails when there is no such task.
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

// Events yields the events; it ends after the terminal one. An error comes last.
func (v VideoWatch) Events(ctx context.Context) iter.Seq2[joblog.Entry, error] {
	return func(yield func(joblog.Entry, error) bool) {
		ctx, leave := v.watcher.follow(ctx)
		defer leave()
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

// Chat follows a chat: its events, chunks and gaps after the resume token, or from
// the start where it is empty. It fails when there is no such chat. The sequence
// ends after the terminal event; an error, as of a token that is none of this chat,
// comes last.
func (w *Watcher) Chat(ctx context.Context, n subject.JobName, token string) (iter.Seq2[chatlog.Item, error], error) {
	if _, err := w.jobs.getLogged(ctx, n); err != nil {
		return nil, err
	}
	return func(yield func(chatlog.Item, error) bool) {
		ctx, leave := w.follow(ctx)
		defer leave()
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

// await waits until a job has ended. It is bounded by the job's own limits and
// by ctx.
func (w *Watcher) await(ctx context.Context, e joblog.Entry) (joblog.Entry, error) {
	if e.Terminal() {
		return e, nil
	}
	ctx, leave := w.follow(ctx)
	defer leave()
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
	if !e.Terminal() { // it was erased, and a later job of its id has ended with fewer events
		return e, notFound(e.Name())
	}
	return e, nil
}

// following says of an error that it ended the wait, not the job, unless the job
// was erased meanwhile.
func following(f *errcode.Error) *errcode.Error {
	if f.Code == errcode.TaskNotFound || f.Code == errcode.ChatNotFound {
		return f
	}
	out := *f
	out.Message = "job " + f.JobID + " was accepted and continues, but this call can no longer follow it; send the same request again (" + f.Message + ")"
	return &out
}
