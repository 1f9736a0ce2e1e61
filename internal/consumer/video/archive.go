package video

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// resultBounds limits the result in an event. files is the maximum number of files. url, urls and
// metadata are the maximum sizes, in bytes, of one URL, of all URLs together, and of the metadata.
// Larger parts go to the object store.
type resultBounds struct{ files, url, urls, metadata int }

// Some upstreams return data URLs that contain the whole video. narrowBounds applies if the log is
// nearly full or the result exceeds half of the broker's message size limit.
var (
	wideBounds   = resultBounds{files: 64, url: 64 << 10, urls: 256 << 10, metadata: 64 << 10}
	narrowBounds = resultBounds{files: 16, url: joblog.SpareReply, urls: joblog.SpareReply, metadata: 1 << 10}
)

// fileBytes is the size of a result file in an event, apart from its URL. The name of the file's
// copy appears twice.
const fileBytes = 512

// boundsOf returns the bounds for a result. For wideBounds, it also reserves log capacity until
// release is called.
func (a *archiving) boundsOf(ctx context.Context, s upstream.VideoState) (bounds resultBounds, release joblog.Release) {
	all := len(s.Metadata)
	for _, v := range s.Videos {
		all += len(v.URL) + fileBytes
	}
	all = min(all, wideBounds.urls+wideBounds.metadata+wideBounds.files*fileBytes)
	if int64(all) > a.task.holder().Broker.MaxPayload()/2 {
		return narrowBounds, func() {}
	}
	if release, ok := a.task.holder().Log.Capacity.ReserveReply(ctx, all); ok {
		return wideBounds, release
	}
	return narrowBounds, func() {}
}

// copyAgain is the delay after the first failed copy, and maxCopyAgain is the longest delay.
const (
	copyAgain    = 5 * time.Second
	maxCopyAgain = time.Minute
)

// errInterrupted cancels a copy so that the job can reread its log.
var errInterrupted = errors.New("the task's log is read again")

// archiving completes a job whose upstream task has completed, after copying the result if
// requested.
type archiving struct {
	task      *heldTask
	interrupt *interrupter // the job's

	// result is the upstream's answer, or nil until the upstream task has completed.
	result *upstream.VideoState
	bounds resultBounds
	// copies holds the stored videos by index.
	copies map[int]*genbusv1.BlobRef
	// metadata and urls report whether long metadata and long URLs have been stored.
	metadata, urls bool
	// stored lists all stored files.
	stored []*genbusv1.BlobRef
	// missing is the error of the latest copy, or nil. tries counts failed copies.
	missing *errcode.Error
	tries   int
	// failed is true if the copy has failed and will not be retried.
	failed bool
	// begun is true if earlier holders left no copies or their copies have been removed.
	begun bool
}

// began reports whether this process has seen the upstream task completed.
func (a *archiving) began() bool { return a.result != nil }

// interrupter cancels the current copy, or a copy that the current step starts later. The zero
// value is ready to use.
type interrupter struct {
	mu     sync.Mutex
	cancel context.CancelCauseFunc // nil if no copy is running
	due    bool                    // the now method has been called during this step
}

// step marks the start of a step. It discards earlier interrupts, because the step rereads the log.
func (i *interrupter) step() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.due = false
}

// with returns a context that the now method cancels. The caller must call done when the copy ends.
func (i *interrupter) with(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cancel = cancel
	if i.due {
		cancel(errInterrupted)
	}
	return ctx, func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.cancel = nil
		cancel(nil)
	}
}

func (i *interrupter) now() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.due = true
	if i.cancel != nil {
		i.cancel(errInterrupted)
	}
}

// complete completes the job with its result, after copying the result if requested. It retries a
// failed copy until the archive timeout. Neither a failed copy nor an object store that refuses
// long parts of the result fails the job.
func (a *archiving) complete(ctx context.Context, s upstream.VideoState) error {
	bounds, release := a.boundsOf(ctx, s)
	defer release()
	whole := s
	a.result, a.bounds = &whole, bounds
	s.Videos = s.Videos[:min(len(s.Videos), bounds.files)]
	if !a.failed {
		if err := a.copyResult(ctx, s); err != nil {
			return err
		}
		a.failed = a.missing != nil
	}
	if err := a.keepLong(ctx, s); err != nil {
		a.task.held.Logger().Warn("could not store long result", telemetry.KeyError, err)
		if !errors.Is(err, broker.ErrFull) && !a.archiveOver() {
			return hold.For(hold.Retry)
		}
		a.missing = errcode.New(errcode.ArchiveFailed, "job %s: store its long result: %w", a.task.held.Name().ID, err)
	}
	e, err := task.Completed(a.task.video(), time.Now(), a.taskResult(s))
	return a.task.held.End(ctx, e, err)
}

// archiveOver reports whether the time limit for storing the result has passed.
func (a *archiving) archiveOver() bool {
	now, err := a.task.holder().Broker.Clock().Now()
	return err == nil && !now.Before(a.task.execution().GetArchiveUntil().AsTime())
}

// copyResult makes the necessary copies. It returns nil if they succeeded or will not be retried.
func (a *archiving) copyResult(ctx context.Context, s upstream.VideoState) error {
	urls := a.toCopy(s)
	if len(urls) == 0 && len(s.Metadata) <= a.bounds.metadata {
		return nil
	}
	now, err := a.task.holder().Broker.Clock().Now()
	if err != nil {
		return a.task.held.Unjudged()
	}
	until := a.task.execution().GetArchiveUntil().AsTime()
	if a.task.execution().GetArchiveUntil() == nil {
		until = now.Add(a.task.route.Timeouts.Archive)
		if err := a.announce(ctx, until, s, nil); err != nil {
			return err
		}
		a.begun = true
	}
	if earlier := a.task.video().GetArchive().GetError(); earlier != nil && !now.Before(until) {
		a.missing = errcode.FromTaskError(earlier)
		return nil
	}
	a.missing = a.copyAll(ctx, until, urls, s.Metadata)
	switch {
	case a.missing == nil:
		return nil
	case errors.Is(a.missing, errInterrupted):
		return hold.For(0)
	case ctx.Err() != nil || a.task.holder().Fetching.Err() != nil:
		return hold.Return()
	case !worthAnotherCopy(a.missing):
		return nil
	}
	if now, err = a.task.holder().Broker.Clock().Now(); err == nil && !now.Before(until) {
		return nil
	}
	return a.copyLater(ctx, until, s)
}

// copyLater schedules the next attempt after an increasing delay. It commits an event only if the
// error code has changed.
func (a *archiving) copyLater(ctx context.Context, until time.Time, s upstream.VideoState) error {
	a.task.held.Logger().Warn("could not archive result, retrying", telemetry.KeyError, a.missing)
	news := string(a.missing.Code) != a.task.video().GetArchive().GetError().GetCode()
	if news {
		if release, ok := a.task.holder().Log.Capacity.ReserveProgress(ctx, a.task.held.Entry().Event); ok {
			defer release()
			if err := a.announce(ctx, until, s, a.missing.TaskError()); err != nil {
				return err
			}
		}
	}
	wait := min(copyAgain<<min(a.tries, 6), maxCopyAgain)
	a.tries++
	a.task.pollAt = time.Now().Add(hold.Jittered(wait, 0.2)) // the next poll may return a fresh URL
	return hold.Until(a.task.pollAt)
}

func worthAnotherCopy(f *errcode.Error) bool {
	return f.Code != errcode.ContentBlocked && !errors.Is(f, broker.ErrBodyTooLarge) && !errors.Is(f, broker.ErrFull)
}

// announce commits the time limit of the copy and why the last copy failed.
func (a *archiving) announce(ctx context.Context, until time.Time, s upstream.VideoState, why *genbusv1.TaskError) error {
	e, err := task.Archiving(a.task.video(), time.Now(), until, errcode.Clip(s.Status, 128), why)
	return a.task.held.Next(ctx, e, err)
}

// toCopy returns the URLs to copy, by video index. It returns all URLs if a copy was requested, and
// otherwise only those that are too long for an event. An empty URL means that the result must be
// read from the upstream by task ID.
func (a *archiving) toCopy(s upstream.VideoState) map[int]string {
	all := a.task.execution().GetArchive()
	if all && len(s.Videos) == 0 {
		return map[int]string{0: ""}
	}
	urls, long := map[int]string{}, a.bounds.tooLong(s.Videos)
	for i, v := range s.Videos {
		if all || long[i] {
			urls[i] = v.URL
		}
	}
	return urls
}

// tooLong returns the indexes of videos whose URLs are too long for an event, either individually
// or in total.
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

func (a *archiving) copyAll(ctx context.Context, until time.Time, urls map[int]string, metadata []byte) *errcode.Error {
	ctx, done := a.interrupt.with(ctx)
	defer done()
	ctx, cancel := context.WithDeadlineCause(ctx, until, errcode.New(errcode.ArchiveFailed, "the copy of %s took longer than the route's archive timeout", a.task.held.Name().ID))
	defer cancel()
	// The next holder restarts the copy, so shutdown need not wait for it.
	defer context.AfterFunc(a.task.holder().Fetching, cancel)()
	select {
	case a.task.runner.shared.copies <- struct{}{}:
		defer func() { <-a.task.runner.shared.copies }()
	case <-a.task.holder().Fetching.Done():
		return errcode.From(context.Cause(a.task.holder().Fetching))
	case <-ctx.Done():
		return errcode.From(context.Cause(ctx))
	}
	for _, i := range slices.Sorted(maps.Keys(urls)) {
		if a.copies[i] != nil {
			continue
		}
		if err := a.copyOne(ctx, i, urls[i]); err != nil {
			return interrupted(ctx, err)
		}
	}
	if err := a.keepMetadata(ctx, metadata); err != nil {
		return interrupted(ctx, errcode.New(errcode.ArchiveFailed, "job %s: keep its metadata: %w", a.task.held.Name().ID, err))
	}
	return nil
}

// interrupted replaces err with errInterrupted if that is why ctx ended.
func interrupted(ctx context.Context, err *errcode.Error) *errcode.Error {
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return errcode.New(errcode.ArchiveFailed, "%w", errInterrupted)
	}
	return err
}

func (a *archiving) copyOne(ctx context.Context, i int, url string) *errcode.Error {
	at, err := a.task.runner.shared.Routes.Place(a.task.video(), url)
	if err != nil {
		return errcode.From(err)
	}
	stored, contentType, err := a.task.runner.shared.Content.Archive(ctx, at, a.task.holder().Bodies, a.task.held.Name().Tenant, publisher.CopyBody(a.task.held.Name().ID, i), int64(a.task.runner.shared.Config.Now().Limits.ArchiveBytes))
	var named *errcode.Error
	switch {
	case err == nil:
	case errors.As(err, &named):
		return named
	default:
		return errcode.New(errcode.ArchiveFailed, "job %s: copy the result: %w", a.task.held.Name().ID, err)
	}
	if a.copies == nil {
		a.copies = map[int]*genbusv1.BlobRef{}
	}
	a.copies[i] = a.keep(stored, contentType)
	return nil
}

// keep records a file that was stored for the job and returns a reference to it.
func (a *archiving) keep(stored broker.Body, contentType string) *genbusv1.BlobRef {
	ref := publisher.BlobRef(stored)
	ref.ContentType = errcode.Clip(contentType, 128)
	a.stored = append(a.stored, ref)
	return ref
}

// taskResult returns the result for the completed event. If long metadata could not be stored,
// archive.error gives the reason.
func (a *archiving) taskResult(s upstream.VideoState) task.Result {
	r := task.Result{Metadata: s.Metadata, Usage: usage(s), UpstreamStatus: errcode.Clip(s.Status, 128), Size: errcode.Clip(s.Size, maxDimension), Seconds: errcode.Clip(s.Seconds, maxDimension)}
	if a.metadata || len(s.Metadata) > a.bounds.metadata {
		r.Metadata = nil
	}
	long := a.bounds.tooLong(s.Videos)
	for i, v := range s.Videos {
		if long[i] {
			// A copy has the content or a file has the URL. Otherwise archive.error gives the
			// reason.
			v.URL = ""
		}
		r.Videos = append(r.Videos, video(v, a.copies[i]))
	}
	if len(s.Videos) == 0 && a.copies[0] != nil {
		r.Videos = append(r.Videos, &genbusv1.Video{Archived: a.copies[0]})
	}
	missing := a.missing
	if all := len(a.result.Videos); missing == nil && len(s.Videos) < all {
		missing = errcode.New(errcode.ArchiveFailed, "job %s: the upstream returned %d results; the event holds only the first %d", a.task.held.Name().ID, all, len(s.Videos))
	}
	if len(a.stored) > 0 || missing != nil {
		r.Archive = &genbusv1.Archive{Files: a.stored}
	}
	if missing != nil {
		r.Archive.Error = missing.TaskError()
	}
	return r
}

// keepMetadata stores long metadata unless it is already stored.
func (a *archiving) keepMetadata(ctx context.Context, metadata []byte) error {
	if a.metadata || len(metadata) <= a.bounds.metadata {
		return nil
	}
	stored, err := a.task.holder().Bodies.Put(ctx, a.task.held.Name().Tenant, publisher.MetadataBody(a.task.held.Name().ID), metadata)
	if err != nil {
		return err
	}
	a.keep(stored, "application/json")
	a.metadata = true
	return nil
}

// keepLong stores long metadata, even if the copy failed. It also stores the long URLs of videos
// that were not copied, one per line. It omits URLs that exceed wideBounds, because they may
// contain whole videos.
func (a *archiving) keepLong(ctx context.Context, s upstream.VideoState) error {
	if a.bounds == wideBounds {
		return nil
	}
	if err := a.keepMetadata(ctx, s.Metadata); err != nil {
		return err
	}
	var lines []byte
	never := wideBounds.tooLong(s.Videos)
	for _, i := range slices.Sorted(maps.Keys(a.bounds.tooLong(s.Videos))) {
		if a.copies[i] == nil && !never[i] {
			lines = append(append(lines, s.Videos[i].URL...), '\n')
		}
	}
	if len(lines) == 0 || a.urls {
		return nil
	}
	stored, err := a.task.holder().Bodies.Put(ctx, a.task.held.Name().Tenant, publisher.URLsBody(a.task.held.Name().ID), lines)
	if err != nil {
		return err
	}
	a.keep(stored, "text/uri-list")
	a.urls = true
	return nil
}

// discardCopies removes files that this process stored and no event references, because the job
// ended in another way or is no longer ours.
func (a *archiving) discardCopies(ctx context.Context) {
	a.task.holder().Discard(ctx, unnamed(a.stored, a.task.video())...)
	a.stored = nil
}

// discardInherited removes unreferenced copies of earlier holders after the job's end. It lists the
// bodies before it reads the log. Otherwise it could remove files of a new job that has the same ID
// after an erasure.
func (a *archiving) discardInherited(ctx context.Context) {
	if a.task.execution().GetArchiveUntil() == nil || a.begun {
		return
	}
	var current joblog.Entry
	found, err := a.task.holder().Bodies.Of(ctx, a.task.held.Name().Tenant, a.task.held.Name().ID)
	if err == nil {
		current, err = a.task.holder().Log.Get(ctx, a.task.held.Name())
	}
	if err != nil {
		a.task.held.Logger().Warn("could not list copies of earlier holders, left to expire", telemetry.KeyError, err)
		return
	}
	if !joblog.SameJob(a.task.held.Entry(), current) {
		return
	}
	refs := make([]*genbusv1.BlobRef, 0, len(found))
	for _, f := range found {
		if strings.HasPrefix(f.Name, publisher.ResultBodies(a.task.held.Name().ID)) {
			refs = append(refs, &genbusv1.BlobRef{Bucket: f.Bucket, Name: f.Name})
		}
	}
	a.task.holder().Discard(ctx, unnamed(refs, a.task.video())...)
	a.begun = true // a retry of finish skips this
}

// unnamed returns the stored files that a job does not reference.
func unnamed(stored []*genbusv1.BlobRef, v *genbusv1.VideoTask) (out []*genbusv1.BlobRef) {
	for _, ref := range stored {
		named := func(f *genbusv1.BlobRef) bool { return f.GetName() == ref.GetName() }
		if !slices.ContainsFunc(v.GetArchive().GetFiles(), named) {
			out = append(out, ref)
		}
	}
	return out
}

// video converts an upstream's result file for an event.
func video(v upstream.VideoFile, archived *genbusv1.BlobRef) *genbusv1.Video {
	out := &genbusv1.Video{
		Url: v.URL, Format: errcode.Clip(v.Format, 32), DurationSeconds: v.Duration,
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
		return errcode.New(errcode.UpstreamFailed, "the upstream reported that the task failed and gave no reason").TaskError()
	}
	f := routes.Fault(s.Err)
	f.Code, f.Message = errcode.UpstreamFailed, s.Err.Message
	out := f.TaskError()
	out.Retryable = !s.Err.Final
	return out
}
