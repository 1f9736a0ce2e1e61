package consumer

import (
	"context"
	"errors"
	"strconv"
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

// copyAgain is the wait after a copy that failed.
const copyAgain = 5 * time.Second

// result is what is known of a task whose upstream has finished.
type result struct {
	// known is the upstream's answer; nil before it has finished.
	known *upstream.VideoState
	// copies are the videos that the object store has, by index.
	copies map[int]*genbusv1.BlobRef
	// stored are all files that the object store has.
	stored []*genbusv1.BlobRef
	// missing is why the latest copy failed; nil when none did.
	missing *fault.Error
}

// complete ends the task with its result, after a copy where one is asked for. A
// copy that fails is tried again until its time is over, and never fails the
// task.
func (j *videoJob) complete(ctx context.Context, s upstream.VideoState) Outcome {
	j.result.known = &s
	if out, done := j.copyResult(ctx, s); !done {
		return out
	}
	r, err := j.taskResult(ctx, s)
	if err != nil {
		j.Logger.Warn("a long result could not be stored", j.attrs("error", err)...)
		return j.holdForPoll()
	}
	e, err := task.Completed(j.video(), time.Now(), r)
	return j.end(ctx, e, err)
}

// copyResult copies what is to be copied. It reports false with an outcome when
// the copy is to be tried again.
func (j *videoJob) copyResult(ctx context.Context, s upstream.VideoState) (Outcome, bool) {
	urls := j.toCopy(s)
	if len(urls) == 0 {
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
	j.result.missing = j.copyAll(ctx, until, urls)
	switch {
	case j.result.missing == nil:
		return Outcome{}, true
	case ctx.Err() != nil || j.fetching.Err() != nil:
		return Nak(), false
	case !time.Now().Before(until) || !worthAnotherCopy(j.result.missing):
		return Outcome{}, true
	}
	j.Logger.Warn("a result could not be copied; it is tried again", j.attrs("error", j.result.missing)...)
	if out, ok := j.archiving(ctx, until, s, j.result.missing.TaskError()); !ok {
		return out, false
	}
	j.pollAt = time.Now().Add(jittered(copyAgain, 0.2)) // the next poll may bring a fresh URL
	return Hold(j.pollAt), false
}

func worthAnotherCopy(f *fault.Error) bool {
	return f.Code != fault.ContentBlocked && !errors.Is(f, broker.ErrBodyTooLarge)
}

func (j *videoJob) archiving(ctx context.Context, until time.Time, s upstream.VideoState, why *genbusv1.TaskError) (Outcome, bool) {
	e, err := task.Archiving(j.video(), time.Now(), until, fault.Clip(s.Status, 128), why)
	return j.commitNext(ctx, e, err)
}

// toCopy gives the URLs that are to be copied, by the index of their video: all
// where the copy is asked for, and those that are too long for an event. A result
// without a URL is read from the upstream by the task's id.
func (j *videoJob) toCopy(s upstream.VideoState) map[int]string {
	urls, total := map[int]string{}, 0
	all := j.entry.Job.GetExecution().GetArchive()
	if all && len(s.Videos) == 0 {
		urls[0] = ""
	}
	for i, v := range s.Videos {
		if total += len(v.URL); all || len(v.URL) > maxURL || total > maxResult {
			urls[i] = v.URL
			total -= len(v.URL)
		}
	}
	return urls
}

func (j *videoJob) copyAll(ctx context.Context, until time.Time, urls map[int]string) *fault.Error {
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
			return err
		}
	}
	return nil
}

func (j *videoJob) copyOne(ctx context.Context, i int, url string) *fault.Error {
	at, err := j.Routes.Place(j.video(), url)
	if err != nil {
		return fault.From(err)
	}
	stored, contentType, err := j.Content.Archive(ctx, at, j.Bodies, j.name.Tenant, j.name.ID+"-video-"+strconv.Itoa(i), int64(j.Config.Limits.ArchiveBytes))
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

// taskResult is the result as the completed task has it.
func (j *videoJob) taskResult(ctx context.Context, s upstream.VideoState) (task.Result, error) {
	r := task.Result{Metadata: s.Metadata, Usage: usage(s), UpstreamStatus: fault.Clip(s.Status, 128)}
	if len(s.Metadata) > maxMetadata {
		stored, err := j.Bodies.Put(ctx, j.name.Tenant, j.name.ID+"-metadata", s.Metadata)
		if err != nil {
			return r, err
		}
		j.keep(stored, "application/json")
		r.Metadata = nil
	}
	total := 0
	for i, v := range s.Videos {
		if total += len(v.URL); len(v.URL) > maxURL || total > maxResult {
			total -= len(v.URL)
			v.URL = "" // its content is in the copy
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
	return r, nil
}

// dropCopies deletes the copies of a task that has ended without them.
func (j *videoJob) dropCopies(ctx context.Context) {
	if j.entry.Job.GetStatus() == genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		return
	}
	for _, ref := range j.result.stored {
		if err := j.Bodies.Delete(ctx, publisher.BodyOf(ref)); err != nil {
			j.Logger.Warn("a copy of a task that ended otherwise stays until it expires", j.attrs("object", ref.GetName(), "error", err)...)
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
