package hold

import (
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/task"
)

// maxDeliveries is how often a job may be delivered without any progress.
const maxDeliveries = 10

// CheckPoison judges a job, once, when its log was read. One that was delivered again and
// again without any progress may be what kills the processes that take it: end ends it. From
// half of those deliveries on it is suspect.
func (j *Job) CheckPoison(end func(*errcode.Error) error) error {
	if n := j.unprogressed(); !j.judged && n > maxDeliveries && !j.Record.last().Terminal() {
		return end(errcode.New(errcode.Poisoned, "job %s was delivered %d times without progress", j.Name().ID, n))
	}
	j.judged = true
	return nil
}

// Suspect reports whether a job that is not to end for it was delivered often, to this
// holder or to those before it.
func (j *Job) Suspect() bool { return j.judged && j.unprogressed() > maxDeliveries/2 }

// unprogressed is how often the job was delivered since its last event.
func (j *Job) unprogressed() int64 {
	return int64(j.Message.Delivery().Count) - int64(j.Record.last().Job.GetExecution().GetDeliveries())
}

// ResetPoisonCount records that a step with a suspect job is over, and that its holder lives: the
// others died of something else. A crash of many processes must not end the jobs that they
// held. It returns the outcome of that step, unless the job turns out to be lost.
func (j *Job) ResetPoisonCount(outcome error) error {
	e, err := task.ResetPoisonCount(j.Record.last().Job, time.Now())
	if err != nil { // it is being submitted, which is progress
		return outcome
	}
	ctx := j.Message.Context()
	release, ok := j.holder.Log.Capacity.ReserveProgress(ctx, e)
	if !ok {
		return outcome
	}
	defer release()
	if err := j.Next(ctx, e, nil); err != nil {
		return err
	}
	return outcome
}

// Unjudged gives the job to a replica with a right clock. One that was delivered so often
// that it seems to kill its holders stays: to return it would add to that.
func (j *Job) Unjudged() error {
	if j.Suspect() {
		return For(FetchWait)
	}
	return unjudged()
}
