package consumer

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
)

// maxURL is the longest result URL that an event carries, maxResult the longest
// result in all, and maxMetadata the longest metadata. Some upstreams answer with
// data URLs that hold the whole video.
const (
	maxURL      = 64 << 10
	maxResult   = 256 << 10
	maxMetadata = 64 << 10
)

// maxCopies is how many results one process copies at a time.
const maxCopies = 8

// copyAgain is the wait after the first copy that failed, and maxCopyAgain the
// longest.
const (
	copyAgain    = 5 * time.Second
	maxCopyAgain = time.Minute
)

// errLookAgain ends a copy because something was heard of the task.
var errLookAgain = errors.New("the task is looked at again")

// result is what is known of a task whose upstream has finished.
type result struct {
	// known is the upstream's answer; nil before it has finished.
	known *upstream.VideoState
	// copies are the videos that the object store has, by index.
	copies map[int]*genbusv1.BlobRef
	// metadata is true when long metadata is stored.
	metadata bool
	// stored are all files that the object store has.
	stored []*genbusv1.BlobRef
	// missing is why the latest copy failed; nil when none did. tries counts them.
	missing *fault.Error
	tries   int
}

// complete ends the task with its result, after a copy where one is asked for. A
// copy that fails is tried again until its time is over, and never fails the
// task.
func (j *videoJob) complete(ctx context.Context, s upstream.VideoState) Outcome {
	j.result.known = &s
	if out, done := j.copyResult(ctx, s); !done {
		return out
	}
	e, err := task.Completed(j.video(), time.Now(), j.taskResult(s))
	return j.end(ctx, e, err)
}

// copyResult copies what is to be copied. It reports false with an outcome when
// the copy is to be tried again.
func (j *videoJob) copyResult(ctx context.Context, s upstream.VideoState) (Outcome, bool) {
	urls := j.toCopy(s)
	if len(urls) == 0 && len(s.Metadata) <= maxMetadata {
		return Outcome{}, true
	}
	until := j.entry.Job.GetExecution().GetArchiveUntil().AsTime()
	if j.entry.Job.GetExecution().GetArchiveUntil() == nil {
		until = time.Now().Add(j.Timeouts.Archive)
		if out, ok := j.archiving(ctx, until, s, nil); !ok {
			return out, false
		}
	}
	if earlier := j.video().GetArchive().GetError(); earlier != nil && !time.Now().Before(until) {
		j.result.missing = fault.FromTaskError(earlier)
		return Outcome{}, true
	}
	j.result.missing = j.copyAll(ctx, until, urls, s.Metadata)
	switch {
	case j.result.missing == nil:
		return Outcome{}, true
	case errors.Is(j.result.missing, errLookAgain):
		return HoldFor(0), false
	case ctx.Err() != nil || j.fetching.Err() != nil:
		return Nak(), false
	case !time.Now().Before(until) || !worthAnotherCopy(j.result.missing):
		return Outcome{}, true
	}
	return j.copyLater(ctx, until, s)
}

// copyLater waits for the next try, longer each time. Only a new reason is worth
// an event.
func (j *videoJob) copyLater(ctx context.Context, until time.Time, s upstream.VideoState) (Outcome, bool) {
	j.Logger.Warn("a result could not be copied; it is tried again", j.attrs("error", j.result.missing)...)
	if string(j.result.missing.Code) != j.video().GetArchive().GetError().GetCode() {
		if out, ok := j.archiving(ctx, until, s, j.result.missing.TaskError()); !ok {
			return out, false
		}
	}
	wait := min(copyAgain<<min(j.result.tries, 6), maxCopyAgain)
	j.result.tries++
	j.pollAt = time.Now().Add(jittered(wait, 0.2)) // the next poll may bring a fresh URL
	return Hold(j.pollAt), false
}

func worthAnotherCopy(f *fault.Error) bool {
	return f.Code != fault.ContentBlocked && !errors.Is(f, broker.ErrBodyTooLarge) && !errors.Is(f, broker.ErrFull)
}

func (j *videoJob) archiving(ctx context.Context, until time.Time, s upstream.VideoState, why *genbusv1.TaskError) (Outcome, bool) {
	e, err := task.Archiving(j.video(), time.Now(), until, fault.Clip(s.Status, 128), why)
	return j.commitNext(ctx, e, err)
}

// toCopy gives the URLs that are to be copied, by the index of their video: all
// where the copy is asked for, and those that are too long for an event. A result
// without a URL is read from the upstream by the task's id.
func (j *videoJob) toCopy(s upstream.VideoState) map[int]string {
	all := j.entry.Job.GetExecution().GetArchive()
	if all && len(s.Videos) == 0 {
		return map[int]string{0: ""}
	}
	urls, long := map[int]string{}, tooLong(s.Videos)
	for i, v := range s.Videos {
		if all || long[i] {
			urls[i] = v.URL
		}
	}
	return urls
}

// tooLong tells by index which results an event cannot carry: long ones, and
// those that would make all together too long.
func tooLong(videos []upstream.VideoFile) map[int]bool {
	long, total := map[int]bool{}, 0
	for i, v := range videos {
		if len(v.URL) > maxURL || total+len(v.URL) > maxResult {
			long[i] = true
			continue
		}
		total += len(v.URL)
	}
	return long
}

func (j *videoJob) copyAll(ctx context.Context, until time.Time, urls map[int]string, metadata []byte) *fault.Error {
	ctx, done := j.interruptible(ctx)
	defer done()
	ctx, cancel := context.WithDeadlineCause(ctx, until, fault.New(fault.ArchiveFailed, "the copy of %s took longer than the route's archive timeout", j.name.ID))
	defer cancel()
	// Whoever takes the task over copies anew, so that a stop need not wait.
	defer context.AfterFunc(j.fetching, cancel)()
	select {
	case j.copies <- struct{}{}:
		defer func() { <-j.copies }()
	case <-j.fetching.Done():
		return fault.From(context.Cause(j.fetching))
	case <-ctx.Done():
		return fault.From(context.Cause(ctx))
	}
	for i, url := range urls {
		if j.result.copies[i] != nil {
			continue
		}
		if err := j.copyOne(ctx, i, url); err != nil {
			return interrupted(ctx, err)
		}
	}
	if err := j.keepMetadata(ctx, metadata); err != nil {
		return interrupted(ctx, fault.New(fault.ArchiveFailed, "job %s: keep its metadata: %w", j.name.ID, err))
	}
	return nil
}

// interruptible gives a context that confirm ends: a copy may take long, and what
// is heard of the task meanwhile may be its end.
func (j *videoJob) interruptible(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	j.mu.Lock()
	j.interrupt = func() { cancel(errLookAgain) }
	j.mu.Unlock()
	return ctx, func() {
		j.mu.Lock()
		j.interrupt = nil
		j.mu.Unlock()
		cancel(nil)
	}
}

// interrupted prefers why the copy was ended over how that looked.
func interrupted(ctx context.Context, err *fault.Error) *fault.Error {
	if errors.Is(context.Cause(ctx), errLookAgain) {
		return fault.New(fault.ArchiveFailed, "%w", errLookAgain)
	}
	return err
}

func (j *videoJob) copyOne(ctx context.Context, i int, url string) *fault.Error {
	at, err := j.Routes.Place(j.video(), url)
	if err != nil {
		return fault.From(err)
	}
	stored, contentType, err := j.Content.Archive(ctx, at, j.Bodies, j.name.Tenant, publisher.CopyName(j.name.ID, i), int64(j.Config.Now().Limits.ArchiveBytes))
	var named *fault.Error
	switch {
	case err == nil:
	case errors.As(err, &named):
		return named
	default:
		return fault.New(fault.ArchiveFailed, "job %s: copy the result: %w", j.name.ID, err)
	}
	if j.result.copies == nil {
		j.result.copies = map[int]*genbusv1.BlobRef{}
	}
	j.result.copies[i] = j.keep(stored, contentType)
	return nil
}

// keep notes a file that the object store has of the task.
func (j *videoJob) keep(stored broker.Body, contentType string) *genbusv1.BlobRef {
	ref := publisher.BlobRef(stored)
	ref.ContentType = fault.Clip(contentType, 128)
	j.result.stored = append(j.result.stored, ref)
	return ref
}

// taskResult is the result as the completed task has it. Metadata that is too
// long is in the object store, or archive.error says why it is nowhere.
func (j *videoJob) taskResult(s upstream.VideoState) task.Result {
	r := task.Result{Metadata: s.Metadata, Usage: usage(s), UpstreamStatus: fault.Clip(s.Status, 128)}
	if len(s.Metadata) > maxMetadata {
		r.Metadata = nil
	}
	long := tooLong(s.Videos)
	for i, v := range s.Videos {
		if long[i] {
			// Its content is in the copy, or archive.error says why it is nowhere.
			v.URL = ""
		}
		r.Videos = append(r.Videos, video(v, j.result.copies[i]))
	}
	if len(s.Videos) == 0 && j.result.copies[0] != nil {
		r.Videos = append(r.Videos, &genbusv1.Video{Archived: j.result.copies[0]})
	}
	if len(j.result.stored) > 0 || j.result.missing != nil {
		r.Archive = &genbusv1.Archive{Files: j.result.stored}
	}
	if j.result.missing != nil {
		r.Archive.Error = j.result.missing.TaskError()
	}
	return r
}

// keepMetadata stores long metadata, once however often the result is written.
func (j *videoJob) keepMetadata(ctx context.Context, metadata []byte) error {
	if j.result.metadata || len(metadata) <= maxMetadata {
		return nil
	}
	stored, err := j.Bodies.Put(ctx, j.name.Tenant, j.name.ID+"-metadata", metadata)
	if err != nil {
		return err
	}
	j.keep(stored, "application/json")
	j.result.metadata = true
	return nil
}

// dropCopies deletes the copies of a task that has ended without them, those of
// earlier holders too.
func (j *videoJob) dropCopies(ctx context.Context) {
	if j.entry.Job == nil { // nothing was ever known of it
		return
	}
	x := j.entry.Job.GetExecution()
	if j.entry.Job.GetStatus() == genbusv1.JobStatus_JOB_STATUS_COMPLETED || x.GetArchiveUntil() == nil && len(j.result.stored) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	for i := range publisher.MaxCopies {
		ref := broker.Body{Bucket: j.Bodies.Bucket(j.name.Tenant), Name: publisher.CopyName(j.name.ID, i)}
		if err := j.Bodies.Delete(ctx, ref); err != nil {
			j.Logger.Warn("a copy of a task that ended otherwise stays until it expires", j.attrs("object", ref.Name, "error", err)...)
		}
	}
	j.result.stored = nil
}

// video is a result file as an event carries it.
func video(v upstream.VideoFile, archived *genbusv1.BlobRef) *genbusv1.Video {
	out := &genbusv1.Video{
		Url: v.URL, Format: fault.Clip(v.Format, 32), DurationSeconds: v.Duration,
		Width: int32(v.Width), Height: int32(v.Height), Archived: archived,
	}
	if !v.ExpiresAt.IsZero() {
		out.ExpiresAt = timestamppb.New(v.ExpiresAt)
	}
	return out
}

func usage(s upstream.VideoState) *genbusv1.Usage {
	if len(s.Usage) == 0 {
		return nil
	}
	return body.ParseUsage(s.Usage)
}

func failure(s upstream.VideoState) *genbusv1.TaskError {
	if s.Err == nil {
		return fault.New(fault.UpstreamFailed, "the upstream reports that the task failed, and gives no reason").TaskError()
	}
	f := routes.Fault(s.Err)
	f.Code, f.Message = fault.UpstreamFailed, s.Err.Message
	out := f.TaskError()
	out.Retryable = !s.Err.Final
	return out
}
