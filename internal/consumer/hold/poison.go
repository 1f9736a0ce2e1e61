package hold

import (
	"time"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/task"
)

// maxDeliveries is how often a job may be delivered without any progress.
const maxDeliveries = 10

// Poisoned judges a job, once its log was read, that was delivered again and again without
// any progress: it may be what kills the processes that take it. Then it is to end with the
// error, which is nil otherwise. From half of those deliveries on it is suspect.
func (j *Job) Poisoned() *errcode.Error {
	count, since := j.Message.Delivery().Count, j.Record.entry.Job.GetExecution().GetDeliveries()
	j.suspect = count > since+maxDeliveries/2
	if count <= since+maxDeliveries || j.Record.entry.Terminal() {
		return nil
	}
	return errcode.New(errcode.Poisoned, "job %s was delivered %d times without any progress", j.Name().ID, count-since)
}

// Suspect reports whether the holders of the job have died often.
func (j *Job) Suspect() bool { return j.suspect }

// ResetPoisonCount records that a step with a suspect job is over, and that its holder lives: the
// others died of something else. A crash of many processes must not end the jobs that they
// held. It returns the outcome of that step, unless the job turns out to be lost.
func (j *Job) ResetPoisonCount(outcome error) error {
	e, err := task.ResetPoisonCount(j.Record.entry.Job, time.Now())
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
	j.suspect = false
	return outcome
}

// Unjudged gives the job to a replica with a right clock. One that was delivered so often
// that it seems to kill its holders stays: to return it would add to that.
func (j *Job) Unjudged() error {
	if j.suspect {
		return For(FetchWait)
	}
	return Unjudged()
}
