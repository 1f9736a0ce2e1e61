package consumer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/upstream"
)

// resultBounds are how many results an event carries, the longest URL, the longest URLs in
// all, and the longest metadata, in bytes. What is longer goes to the object store.
type resultBounds struct{ files, url, urls, metadata int }

// Some upstreams answer with data URLs that hold the whole video. Where the log has no room
// to spare, a result is as long as the end of any job may be (config.EndBytes).
var (
	wideBounds   = resultBounds{files: 64, url: 64 << 10, urls: 256 << 10, metadata: 64 << 10}
	narrowBounds = resultBounds{files: 16, url: tasklog.SpareReply, urls: tasklog.SpareReply, metadata: 1 << 10}
)

// fileBytes is what an event has of a result beside its URL: the copy's name, twice.
const fileBytes = 512

// boundsOf gives the bounds of a result, whose room is the task's until release is called.
func (j *videoJob) boundsOf(ctx context.Context, s upstream.VideoState) (bounds resultBounds, release tasklog.Release) {
	all := len(s.Metadata)
	for _, v := range s.Videos {
		all += len(v.URL) + fileBytes
	}
	if release, ok := j.Log.RoomForReply(ctx, min(all, wideBounds.urls+wideBounds.metadata+wideBounds.files*fileBytes)); ok {
		return wideBounds, release
	}
	return narrowBounds, func() {}
}

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
	known  *upstream.VideoState
	bounds resultBounds
	// copies are the videos that the object store has, by index.
	copies map[int]*genbusv1.BlobRef
	// metadata is true when long metadata is stored, and urls when long URLs are.
	metadata, urls bool
	// stored are all files that the object store has.
	stored []*genbusv1.BlobRef
	// missing is why the latest copy failed; nil when none did. tries counts them.
	missing *fault.Error
	tries   int
	// failed is true once no copy is tried any more, after one that failed.
	failed bool
	// begun is true when no earlier holder has copied anything.
	begun bool
}

// complete ends the task with its result, after a copy where one is asked for. A
// copy that fails is tried again until its time is over, and never fails the
// task. Nor does an object store that refuses what is too long for the event.
func (j *videoJob) complete(ctx context.Context, s upstream.VideoState) Outcome {
	bounds, release := j.boundsOf(ctx, s)
	defer release()
	whole := s
	j.result.known, j.result.bounds = &whole, bounds
	s.Videos = s.Videos[:min(len(s.Videos), bounds.files)]
	if !j.result.failed {
		if out, done := j.copyResult(ctx, s); !done {
			return out
		}
		j.result.failed = j.result.missing != nil
	}
	if err := j.keepLong(ctx, s); err != nil {
		j.Logger.Warn("what is too long of a result could not be stored", j.attrs("error", err)...)
		if !errors.Is(err, broker.ErrFull) && !j.archiveOver() {
			return HoldFor(retryLog)
		}
		j.result.missing = fault.New(fault.ArchiveFailed, "job %s: keep what is too long of its result: %w", j.name.ID, err)
	}
	e, err := task.Completed(j.video(), time.Now(), j.taskResult(s))
	return j.end(ctx, e, err)
}

// archiveOver reports whether the time is over in which the result is brought into the
// object store.
func (j *videoJob) archiveOver() bool {
	now, err := j.Broker.Clock().Now()
	return err == nil && !now.Before(j.entry.Job.GetExecution().GetArchiveUntil().AsTime())
}

// copyResult copies what is to be copied. It reports false with an outcome when
// the copy is to be tried again.
func (j *videoJob) copyResult(ctx context.Context, s upstream.VideoState) (Outcome, bool) {
	urls := j.toCopy(s)
	if len(urls) == 0 && len(s.Metadata) <= j.result.bounds.metadata {
		return Outcome{}, true
	}
	now, err := j.Broker.Clock().Now()
	if err != nil {
		return j.unjudged(), false
	}
	until := j.entry.Job.GetExecution().GetArchiveUntil().AsTime()
	if j.entry.Job.GetExecution().GetArchiveUntil() == nil {
		until = now.Add(j.Timeouts.Archive)
		if out, ok := j.archiving(ctx, until, s, nil); !ok {
			return out, false
		}
		j.result.begun = true
	}
	if earlier := j.video().GetArchive().GetError(); earlier != nil && !now.Before(until) {
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
	case !worthAnotherCopy(j.result.missing):
		return Outcome{}, true
	}
	if now, err = j.Broker.Clock().Now(); err == nil && !now.Before(until) {
		return Outcome{}, true
	}
	return j.copyLater(ctx, until, s)
}

// copyLater waits for the next try, longer each time. Only a new reason is worth
// an event.
func (j *videoJob) copyLater(ctx context.Context, until time.Time, s upstream.VideoState) (Outcome, bool) {
	j.Logger.Warn("a result could not be copied; it is tried again", j.attrs("error", j.result.missing)...)
	news := string(j.result.missing.Code) != j.video().GetArchive().GetError().GetCode()
	if news {
		if release, ok := j.Log.RoomForProgress(ctx, j.entry.Event); ok {
			defer release()
			if out, ok := j.archiving(ctx, until, s, j.result.missing.TaskError()); !ok {
				return out, false
			}
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
	urls, long := map[int]string{}, j.result.bounds.tooLong(s.Videos)
	for i, v := range s.Videos {
		if all || long[i] {
			urls[i] = v.URL
		}
	}
	return urls
}

// tooLong tells by index which results an event cannot carry: long ones, and
// those that would make all together too long.
func (b resultBounds) tooLong(videos []upstream.VideoFile) map[int]bool {
	long, total := map[int]bool{}, 0
	for i, v := range videos {
		if len(v.URL) > b.url || total+len(v.URL) > b.urls {
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
	for _, i := range slices.Sorted(maps.Keys(urls)) {
		if j.result.copies[i] != nil {
			continue
		}
		if err := j.copyOne(ctx, i, urls[i]); err != nil {
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
	stored, contentType, err := j.Content.Archive(ctx, at, j.Bodies, j.name.Tenant, publisher.CopyBody(j.name.ID, i), int64(j.Config.Now().Limits.ArchiveBytes))
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

// maxDimension bounds what an upstream says of a video's size or length, in bytes.
const maxDimension = 32

// taskResult is the result as the completed task has it. Metadata that is too
// long is in the object store, or archive.error says why it is nowhere.
func (j *videoJob) taskResult(s upstream.VideoState) task.Result {
	r := task.Result{Metadata: s.Metadata, Usage: usage(s), UpstreamStatus: fault.Clip(s.Status, 128), Size: fault.Clip(s.Size, maxDimension), Seconds: fault.Clip(s.Seconds, maxDimension)}
	if j.result.metadata || len(s.Metadata) > j.result.bounds.metadata {
		r.Metadata = nil
	}
	long := j.result.bounds.tooLong(s.Videos)
	for i, v := range s.Videos {
		if long[i] {
			// Its content is in the copy, its URL in a file, or archive.error says why it is nowhere.
			v.URL = ""
		}
		r.Videos = append(r.Videos, video(v, j.result.copies[i]))
	}
	if len(s.Videos) == 0 && j.result.copies[0] != nil {
		r.Videos = append(r.Videos, &genbusv1.Video{Archived: j.result.copies[0]})
	}
	missing := j.result.missing
	if all := len(j.result.known.Videos); missing == nil && len(s.Videos) < all {
		missing = fault.New(fault.ArchiveFailed, "job %s: the upstream names %d results, and the event has room for the first %d", j.name.ID, all, len(s.Videos))
	}
	if len(j.result.stored) > 0 || missing != nil {
		r.Archive = &genbusv1.Archive{Files: j.result.stored}
	}
	if missing != nil {
		r.Archive.Error = missing.TaskError()
	}
	return r
}

// keepMetadata stores long metadata, once however often the result is written.
func (j *videoJob) keepMetadata(ctx context.Context, metadata []byte) error {
	if j.result.metadata || len(metadata) <= j.result.bounds.metadata {
		return nil
	}
	stored, err := j.Bodies.Put(ctx, j.name.Tenant, publisher.MetadataBody(j.name.ID), metadata)
	if err != nil {
		return err
	}
	j.keep(stored, "application/json")
	j.result.metadata = true
	return nil
}

// keepLong stores what the event would have if the log had room to spare, also where the
// copy has failed: long metadata, and the long URLs of what was not copied, one on each line.
// A URL that no event has, as it may be the whole video, is not stored either.
func (j *videoJob) keepLong(ctx context.Context, s upstream.VideoState) error {
	if j.result.bounds == wideBounds {
		return nil
	}
	if err := j.keepMetadata(ctx, s.Metadata); err != nil {
		return err
	}
	var lines []byte
	never := wideBounds.tooLong(s.Videos)
	for _, i := range slices.Sorted(maps.Keys(j.result.bounds.tooLong(s.Videos))) {
		if j.result.copies[i] == nil && !never[i] {
			lines = append(append(lines, s.Videos[i].URL...), '\n')
		}
	}
	if len(lines) == 0 || j.result.urls {
		return nil
	}
	stored, err := j.Bodies.Put(ctx, j.name.Tenant, publisher.URLsBody(j.name.ID), lines)
	if err != nil {
		return err
	}
	j.keep(stored, "text/uri-list")
	j.result.urls = true
	return nil
}

// discardCopies removes what this process has stored of the result and no event names:
// the task has ended otherwise, or is not ours any more.
func (j *videoJob) discardCopies(ctx context.Context) {
	j.discard(ctx, unnamed(j.result.stored, j.video())...)
	j.result.stored = nil
}

// discardInherited does the same for holders before this one, of a task that has ended
// and whose copies were begun by another process. The log is read after what is there
// was listed, so that nothing is removed of a job that was made under the id after this
// one was erased.
func (j *videoJob) discardInherited(ctx context.Context) {
	if j.entry.Job.GetExecution().GetArchiveUntil() == nil || j.result.begun {
		return
	}
	var current tasklog.Entry
	found, err := j.Bodies.Of(ctx, j.name.Tenant, j.name.ID)
	if err == nil {
		current, err = j.Log.Get(ctx, j.name)
	}
	if err != nil {
		j.Logger.Warn("copies of earlier holders stay until they expire", j.attrs("error", err)...)
		return
	}
	if !sameJob(j.entry, current) {
		return
	}
	refs := make([]*genbusv1.BlobRef, 0, len(found))
	for _, f := range found {
		if strings.HasPrefix(f.Name, publisher.ResultBodies(j.name.ID)) {
			refs = append(refs, &genbusv1.BlobRef{Bucket: f.Bucket, Name: f.Name})
		}
	}
	j.discard(ctx, unnamed(refs, j.video())...)
	j.result.begun = true // what is done is not done again when the end is tried again
}

// unnamed gives those of the stored files that a task does not name.
func unnamed(stored []*genbusv1.BlobRef, v *genbusv1.VideoTask) (out []*genbusv1.BlobRef) {
	for _, ref := range stored {
		named := func(f *genbusv1.BlobRef) bool { return f.GetName() == ref.GetName() }
		if !slices.ContainsFunc(v.GetArchive().GetFiles(), named) {
			out = append(out, ref)
		}
	}
	return out
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
