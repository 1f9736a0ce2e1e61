package hold

import (
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/task"
)

// maxDeliveries is how often a job may be delivered without progress.
const maxDeliveries = 10

// CheckPoison ends a job that was delivered too often without progress, because it may be killing
// its holders. It judges each job once, after its log was read.
func (j *Job) CheckPoison(end func(*errcode.Error) error) error {
	if n := j.unprogressed(); !j.judged && n > maxDeliveries && !j.Record.last().Terminal() {
		return end(errcode.New(errcode.Poisoned, "job %s was delivered %d times without progress", j.Name().ID, n))
	}
	j.judged = true
	return nil
}

// Suspect reports whether a job that passed CheckPoison has used up more than half of the
// deliveries that it may have without progress.
func (j *Job) Suspect() bool { return j.judged && j.unprogressed() > maxDeliveries/2 }

// unprogressed returns the number of deliveries since the job's last event.
func (j *Job) unprogressed() int64 {
	return int64(j.Message.Delivery().Count) - int64(j.Record.last().Job.GetExecution().GetDeliveries())
}

// ResetPoisonCount records that a step with a suspect job has finished and its holder lives, so
// that crashes with other causes do not end the job. It returns the outcome of that step, or the
// error of the commit.
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

// Unjudged returns the job to a replica with a correct clock. A suspect job stays: returning it
// would add a delivery.
func (j *Job) Unjudged() error {
	if j.Suspect() {
		return For(FetchWait)
	}
	return unjudged()
}
