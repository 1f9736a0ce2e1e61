package hold

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Record is a holder's view of its job's log: the last event, and its own writes. Ending and
// Superseded are safe for concurrent use. Everything else belongs to the goroutine that works on
// the job. That includes reads, which may unpack the event.
type Record struct {
	log     *joblog.Log
	metrics *telemetry.RouteMetrics

	entry       joblog.Entry      // zero until the log has been read; use last
	packed      []byte            // the entry's job, encoded; nil if it was never packed
	shown       genbusv1.JobPhase // the phase in the metrics
	unconfirmed []string          // nonces of commits that were never answered
	// vanished is the suspicion that the log no longer exists.
	vanished staleCheck

	version atomic.Uint64 // of entry; unread until the log has been read
	upTo    atomic.Uint64 // entry is current up to this sequence; 0 before the first read
	ending  atomic.Bool   // the last event that was written or attempted is the job's end
}

// unread exceeds every version, so that no event counts as another replica's before the log has
// been read.
const unread = math.MaxUint64

// last returns the last known event, or zero until the log has been read.
func (r *Record) last() joblog.Entry {
	if r.entry.Job == nil && r.packed != nil {
		video := new(genbusv1.VideoTask)
		// This cannot fail: Marshal rejects whatever Unmarshal would.
		if err := proto.Unmarshal(r.packed, video); err != nil {
			return joblog.Entry{}
		}
		r.entry.Job = video
	}
	return r.entry
}

// pack stores a video's last event as bytes until it is needed. They take a third of the memory,
// and the garbage collector does not scan them. This pays off because most held tasks are waiting
// for their next poll. Events never change, so the bytes are made once.
func (r *Record) pack() {
	video, ok := r.entry.Job.(*genbusv1.VideoTask)
	if !ok {
		return
	}
	if r.packed == nil {
		packed, err := proto.Marshal(video)
		if err != nil {
			return
		}
		r.packed = packed
	}
	r.entry.Job = nil
}

// Phase returns the job's phase in the log, or unspecified until the log has been read.
func (r *Record) Phase() genbusv1.JobPhase {
	if r.last().Job == nil {
		return genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED
	}
	return r.last().Job.GetExecution().GetPhase()
}

// upstreamID returns the upstream's task ID, or "" if the log does not have it.
func (r *Record) upstreamID() string {
	v, _ := r.last().Job.(*genbusv1.VideoTask)
	return v.GetUpstreamTaskId()
}

// write stores an event after sequence last, which becomes the last known event.
func (r *Record) write(ctx context.Context, e task.Event, last uint64) error {
	r.ending.Store(e.Terminal())
	entry, err := r.log.Commit(ctx, e, last)
	switch {
	case err == nil:
		r.unconfirmed = nil
		r.set(entry)
	case errors.Is(err, joblog.ErrUncertain):
		r.unconfirmed = append(r.unconfirmed, entry.Nonce)
	}
	return err
}

func (r *Record) set(e joblog.Entry) {
	r.entry, r.packed, r.vanished = e, nil, staleCheck{}
	r.version.Store(e.Version())
	r.upTo.Store(e.Seq)
	r.show(e.Job.GetExecution().GetPhase())
}

// show moves the job to the gauge of its phase.
func (r *Record) show(phase genbusv1.JobPhase) {
	r.metrics.Moved(task.PhaseWord(r.shown), task.PhaseWord(phase))
	r.shown = phase
}

// Unconfirmed reports whether an event is this holder's own commit that was never answered. The
// event's writer would not be proof enough: this process may have held the job before.
func (r *Record) Unconfirmed(e joblog.Entry) bool { return slices.Contains(r.unconfirmed, e.Nonce) }

// Ending reports whether the last event that was written or attempted is the job's end. Reports of
// newer events are then ignored, because the write itself detects a conflict.
func (r *Record) Ending() bool { return r.ending.Load() }

// Superseded reports whether current takes the job from this holder: the job has ended, or another
// replica has continued it. Our own end does not count.
func (r *Record) Superseded(current joblog.Entry) bool {
	return !r.Ending() && (current.Terminal() || r.byOther(current))
}

func (r *Record) byOther(current joblog.Entry) bool {
	return current.Version() > r.version.Load() && !r.isOurs(current)
}

func (r *Record) isOurs(e joblog.Entry) bool {
	return e.Job.GetExecution().GetWriter() == r.log.Writer()
}

// isBegunAgain reports whether the log had vanished and has the job's first event again, which any
// reader of the work item may have written.
func (r *Record) isBegunAgain(current joblog.Entry) bool {
	return r.last().Job != nil && current.Version() == 1 && !current.Terminal() && current.Version() < r.last().Version() &&
		current.Job.GetCreatedAt().AsTime().Equal(r.last().Job.GetCreatedAt().AsTime())
}

// paidSince reports whether a restarted log lacks something that must not be repeated: the job's
// end, or a video's submission.
func (r *Record) paidSince(begun joblog.Entry) bool {
	_, video := r.last().Job.(*genbusv1.VideoTask)
	return r.last().Terminal() || video && r.last().Job.GetExecution().GetFirstSubmitAt() != nil && begun.Job.GetExecution().GetFirstSubmitAt() == nil
}

// begunElsewhere reports whether another replica has continued the job since its item was stored,
// although this is the item's first delivery.
func (r *Record) begunElsewhere(d Delivery) bool {
	switch {
	case d.Count > 1, r.isOurs(r.last()):
		return false
	case d.Recorded == "":
		return r.last().Version() > 1
	default:
		return d.Recorded != strconv.FormatUint(r.last().Seq, 10)
	}
}
