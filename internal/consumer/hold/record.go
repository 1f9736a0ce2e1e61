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

// Record is what a holder knows of its job's log: the last event, and which writes are its
// own. It decides nothing: Job does. Ending and Superseded are safe for concurrent use;
// everything else belongs to the goroutine that works on the job, reads included: they unpack.
type Record struct {
	log     *joblog.Log
	metrics *telemetry.RouteMetrics

	entry   joblog.Entry      // zero until the log was read; last gives it
	packed  []byte            // the entry's job, which is nil until it is asked for; nil if it was not packed
	shown   genbusv1.JobPhase // the phase that metrics know
	unheard []string          // nonces of commits whose answer never came
	// vanished is held against the log, once it was read.
	vanished staleCheck

	version atomic.Uint64 // of entry; unread before that
	upTo    atomic.Uint64 // sequence up to which entry is the last of the job's events; 0 before that
	ending  atomic.Bool   // the last event that was written, or tried, is the job's end
}

// unread is more than every version: what the log had before it was read takes the job
// from no replica.
const unread = math.MaxUint64

// last is the last event that is known; zero until the log was read.
func (r *Record) last() joblog.Entry {
	if r.entry.Job == nil && r.packed != nil {
		video := new(genbusv1.VideoTask)
		if err := proto.Unmarshal(r.packed, video); err != nil { // never: Marshal refuses what Unmarshal does
			return joblog.Entry{}
		}
		r.entry.Job = video
	}
	return r.entry
}

// pack keeps a video's last event as bytes until it is asked for. They are a third as long,
// and the collector does not look into them: very many tasks are in work, and nearly all of
// them wait for their next poll. As no event is changed, the bytes are made once.
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

// Phase is the one in the log; unspecified until that was read.
func (r *Record) Phase() genbusv1.JobPhase {
	if r.last().Job == nil {
		return genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED
	}
	return r.last().Job.GetExecution().GetPhase()
}

// upstreamID is the upstream's id of the task, as far as the log knew it.
func (r *Record) upstreamID() string {
	v, _ := r.last().Job.(*genbusv1.VideoTask)
	return v.GetUpstreamTaskId()
}

// write stores an event after last, and knows it then.
func (r *Record) write(ctx context.Context, e task.Event, last uint64) error {
	r.ending.Store(e.Terminal())
	entry, err := r.log.Commit(ctx, e, last)
	switch {
	case err == nil:
		r.unheard = nil
		r.set(entry)
	case errors.Is(err, joblog.ErrUncertain):
		r.unheard = append(r.unheard, entry.Nonce)
	}
	return err
}

// set takes what the log has.
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

// Unheard reports whether an event is one of this holder's own whose commit was never
// answered. That its writer is this process proves less: the process may have held the
// job before.
func (r *Record) Unheard(e joblog.Entry) bool { return slices.Contains(r.unheard, e.Nonce) }

// Ending reports whether the last event that was written, or tried, is the job's end. What
// is heard of the log then is no news: the write finds out by itself.
func (r *Record) Ending() bool { return r.ending.Load() }

// Superseded reports whether current takes the job from this holder: the job has ended, or
// another replica has gone on with it. Our own end does not.
func (r *Record) Superseded(current joblog.Entry) bool {
	return !r.Ending() && (current.Terminal() || r.byOther(current))
}

func (r *Record) byOther(current joblog.Entry) bool {
	return current.Version() > r.version.Load() && !r.isOurs(current)
}

// isOurs reports whether this process has written an event.
func (r *Record) isOurs(e joblog.Entry) bool {
	return e.Job.GetExecution().GetWriter() == r.log.Writer()
}

// isBegunAgain reports whether the log of this job had vanished, and has the job's first
// event again, which any reader of the work item may have written.
func (r *Record) isBegunAgain(current joblog.Entry) bool {
	return r.last().Job != nil && current.Version() == 1 && !current.Terminal() && current.Version() < r.last().Version() &&
		current.Job.GetCreatedAt().AsTime().Equal(r.last().Job.GetCreatedAt().AsTime())
}

// paidSince reports whether this holder knows what a log that has begun again does not, and
// what is not to be repeated: the job's end, or that a video was submitted.
func (r *Record) paidSince(begun joblog.Entry) bool {
	_, video := r.last().Job.(*genbusv1.VideoTask)
	return r.last().Terminal() || video && r.last().Job.GetExecution().GetFirstSubmitAt() != nil && begun.Job.GetExecution().GetFirstSubmitAt() == nil
}

// begunElsewhere reports whether an item comes for the first time of a job that another
// replica has begun with since the item was put.
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
