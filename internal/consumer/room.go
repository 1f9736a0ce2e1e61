package consumer

import (
	"context"
	"strconv"
	"time"

	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// roomAgain is the wait before a submission that the log had no room for is tried again.
const roomAgain = 5 * time.Second

// waitForLetters has a task that may not be submitted, because its dead letter would have
// no room, wait for its turn again: one that is held takes the place of other tenants'.
func (j *videoJob) waitForLetters(ctx context.Context, cause error) Outcome {
	if fault.CodeOf(cause) != fault.DeadLettersFull {
		return HoldFor(retryLog)
	}
	j.Metrics.SubmissionHeld(j.kind)
	j.Logger.Info("a task is not submitted: an operator has to resolve dead letters first", j.attrs("cause", cause)...)
	return j.leaveLine(ctx)
}

// hasLeftLine reports whether the task let go of the item that is held, in the hands of
// this holder or of one before it: nobody submits it from that item any more, which an ack
// may take away from whoever has it by then. The task goes on from the next item that the
// dispatcher puts in line.
func (j *videoJob) hasLeftLine() bool {
	j.mu.Lock()
	recorded, _ := strconv.ParseUint(j.msg.recorded, 10, 64) // none is before all events
	j.mu.Unlock()
	return j.entry.Job.GetExecution().GetLeftLine() && recorded < j.entry.Seq
}

// leaveLine puts the task back behind the line. That is committed first: who is given the
// item after that finds it in the log, and who was given it before cannot commit.
func (j *videoJob) leaveLine(ctx context.Context) Outcome {
	if j.left != j.entry.Seq {
		now := time.Now()
		e, err := task.LeftLine(j.video(), now, string(fault.DeadLettersFull))
		if err == nil {
			release, ok := j.Log.RoomForProgress(ctx, e)
			if !ok {
				return j.holdUntil(now.Add(jittered(roomAgain, 0.2)))
			}
			defer release()
		}
		if out, ok := j.commitNext(ctx, e, err); !ok {
			return out
		}
		j.left = j.entry.Seq
	}
	j.mu.Lock()
	seq := j.msg.seq
	j.mu.Unlock()
	if err := j.Queue.PutBack(ctx, j.entry, j.item, seq); err != nil {
		j.Logger.Debug("a task that may not be submitted could not be put back; it is held", j.attrs("error", err)...)
		return j.holdUntil(time.Now().Add(jittered(roomAgain, 0.2)))
	}
	return Ack()
}

// roomForSubmission reports whether a job may be submitted. One that may not is held, not
// failed: events that reach their age make room.
func (c *Consumer) roomForSubmission(ctx context.Context, e tasklog.Entry, route string) (tasklog.Release, bool) {
	release, ok := c.Log.RoomForSubmission(ctx, e.Job)
	if !ok {
		c.Metrics.SubmissionHeld(e.Name().Kind)
		c.Logger.Debug("a submission waits for room in the task log", jobAttrs(e.Name(), route)...)
	}
	return release, ok
}

// roomToSubmit is roomForSubmission with the outcome of a task that may not be submitted. It
// is asked before a place is taken: a task that waits for room has not tried an upstream.
func (j *videoJob) roomToSubmit(ctx context.Context) (tasklog.Release, Outcome, bool) {
	room, ok := j.roomForSubmission(ctx, j.entry, j.Name)
	if !ok {
		j.assigned.leave()
		return nil, j.holdUntil(time.Now().Add(jittered(roomAgain, 0.2))), false
	}
	return room, Outcome{}, true
}
