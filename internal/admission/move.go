package admission

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
	"github.com/genbus/genbus/internal/telemetry"
)

// verdict is what became of a job whose turn it was.
type verdict int

const (
	failed verdict = iota // it waits again, and nothing more is moved now
	later                 // it waits again, and so do its tenant's others
	gone                  // nothing was put in line: somebody else did, or its job has ended
	stands                // it stands in line, or may do so
)

// errFull says that there is no place in the stream of the line.
var errFull = errors.New("the stream of work is full")

// move brings a job into the line. Any replica may die at any point of it, or do
// the same at the same time:
//
//  1. Its first event is written if admission did not get to it. What is put in
//     line is marked as recorded, so that nobody takes a job that was erased
//     meanwhile, and has no log any more, for a new one.
//  2. It is put in line. That it stands there already is as good, if it is this job.
//  3. It is deleted here. A job that stands in both places is put in line again,
//     where its subject has one place; when it had its turn, the log says so.
func (u *usher) move(ctx context.Context, t turn) (verdict, error) {
	from := Item{Stream: u.b.Names().Wait()}
	var err error
	if from.Stored, err = u.b.At(ctx, from.Stream, t.seq); errors.Is(err, broker.ErrNoMessage) {
		return gone, nil
	} else if err != nil {
		return failed, err
	}
	n, err := u.b.Names().ParseWaitItem(from.Subject)
	if err != nil || n.Kind != u.kind || n.Route != u.route || n.Tenant != t.tenant {
		return gone, nil //nolint:nilerr // another message has the sequence: the stream was made anew
	}
	if rests := time.Until(from.Time.Add(lettersEvery)); rests > 0 && rests <= lettersEvery && from.Header.Get(subject.HeaderPutBack) != "" {
		return later, fmt.Errorf("job %s was just put back", n.ID) // by a replica with another count of letters
	}
	mark, ended, err := u.record(ctx, from)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return gone, nil
	case err != nil:
		return failed, err
	case ended:
		_, err = u.Remove(ctx, from)
		return gone, err
	}
	v, err := u.putInLine(ctx, n, from, mark)
	if err != nil {
		return v, err
	}
	return u.removeMoved(ctx, n, from, v)
}

// removeMoved deletes a job that was put in line where it waited. One that was gone from
// there was moved by another usher too, or has ended meanwhile: then it leaves the line.
func (u *usher) removeMoved(ctx context.Context, n subject.WorkName, from Item, v verdict) (verdict, error) {
	removed, err := u.Remove(ctx, from)
	if err != nil || removed || v != stands {
		return v, err
	}
	e, err := u.log.Get(ctx, subject.TaskName{Kind: n.Kind, Tenant: n.Tenant, ID: n.ID})
	if err != nil || !e.Terminal() {
		return v, nil //nolint:nilerr // it is in line, and its consumer reads the log again
	}
	return v, u.Leave(ctx, e)
}

// toSubmit reports whether a job has to be submitted, as far as is known: one that an
// upstream has, or that has ended, goes on whatever its tenant's dead letters are.
func (u *usher) toSubmit(ctx context.Context, t turn) bool {
	from := Item{Stream: u.b.Names().Wait()}
	var err error
	if from.Stored, err = u.b.At(ctx, from.Stream, t.seq); err != nil {
		return !errors.Is(err, broker.ErrNoMessage)
	}
	n, err := u.b.Names().ParseWaitItem(from.Subject)
	if err != nil {
		return false
	}
	e, err := u.log.Get(ctx, subject.TaskName{Kind: n.Kind, Tenant: n.Tenant, ID: n.ID})
	if err != nil {
		return true
	}
	x := e.Job.GetExecution()
	return x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_QUEUED && !x.GetBound()
}

// record makes sure that the log has the job, and gives what its item is marked with:
// the sequence of an event of it, or nothing where the log never had one; and whether
// the job has ended. ErrNoMessage: it was erased, and its item with it.
func (u *usher) record(ctx context.Context, from Item) (mark string, ended bool, err error) {
	item, err := from.Decode()
	if err != nil {
		return "", false, nil //nolint:nilerr // the consumer buries what nobody can read
	}
	e, means, err := u.log.Resolve(ctx, from.Of(item))
	switch {
	case err != nil:
		return "", false, err
	case means == tasklog.Removed:
		return "", false, broker.ErrNoMessage
	case means == tasklog.Unrecorded:
		mark, err = u.recordFirst(ctx, item)
		return mark, false, err
	case e.Job == nil: // a stray, or lost: the consumer says so
		return from.Header.Get(subject.HeaderRecorded), false, nil
	}
	// A terminal event of this very job, and not of another one under its id. Where its
	// end leaves a letter, that is for the consumer to write.
	if _, unfound := task.Unfound(e.Job); unfound {
		return markOf(e), false, nil
	}
	if e.Terminal() && e.Job.GetCreatedAt().AsTime().Equal(item.GetAcceptedAt().AsTime()) {
		return markOf(e), true, u.log.Finish(ctx, e)
	}
	return markOf(e), false, nil
}

// markOf is the mark of an item whose job the log has.
func markOf(e tasklog.Entry) string { return strconv.FormatUint(e.Seq, 10) }

// recordFirst writes the first event of a job whose admission ended between the
// work item and the log, however long ago.
func (u *usher) recordFirst(ctx context.Context, item *genbusv1.WorkItem) (mark string, err error) {
	entry, err := u.log.Commit(telemetry.Extract(ctx, item.GetTrace()), task.FromWork(item), 0)
	var lost *tasklog.LostError
	if errors.As(err, &lost) {
		return markOf(lost.Current), nil
	}
	if err != nil {
		return "", err
	}
	return markOf(entry), nil
}

// PutBack has a job in line, with the sequence that it has there, wait for its turn
// again. Afterwards the caller takes it out of the line. Until that is done the new item
// is not moved: whoever moves it would find the old one, and take the new one away.
func (a *Admission) PutBack(ctx context.Context, e tasklog.Entry, item *genbusv1.WorkItem, seq uint64) error {
	data, err := proto.Marshal(item)
	if err != nil {
		return err
	}
	m := nats.NewMsg(a.b.Names().WaitItem(subject.Kind(item.GetKind()), item.GetRoute(), item.GetTenant(), item.GetId()))
	m.Data = data
	m.Header[subject.HeaderRecorded] = []string{markOf(e)}
	m.Header[subject.HeaderPutBack] = []string{strconv.FormatUint(seq, 10)}
	for {
		_, full := a.b.Publish(ctx, m)
		if !errors.Is(full, broker.ErrFull) {
			return full
		}
		there := Item{Stream: a.b.Names().Wait()}
		if there.Stored, err = a.b.Last(ctx, there.Stream, m.Subject); err != nil {
			return full
		}
		before, _ := strconv.ParseUint(there.Header.Get(subject.HeaderPutBack), 10, 64) // none is before all
		if before == seq {
			return nil // from an earlier try
		}
		if before > seq || !sameJob(there, item) {
			return full
		}
		// The dispatcher that brought the job into the line died before it deleted this
		// one. The next does that, but not while it passes over the tenant.
		if _, err := a.Remove(ctx, there); err != nil {
			return err
		}
	}
}

// sameJob reports whether a stored item is of the job of another one, and not of a later
// job under its id, or of a second send of its request.
func sameJob(stored Item, item *genbusv1.WorkItem) bool {
	there, err := stored.Decode()
	return err == nil && there.GetAcceptedAt().AsTime().Equal(item.GetAcceptedAt().AsTime())
}

// putInLine publishes the job where the route's consumer takes it.
func (u *usher) putInLine(ctx context.Context, n subject.WorkName, from Item, mark string) (verdict, error) {
	m := nats.NewMsg(u.b.Names().WorkItem(n.Kind, n.Route, n.Tenant, n.ID))
	m.Data = from.Data
	if mark != "" {
		m.Header[subject.HeaderRecorded] = []string{mark}
	}
	_, err := u.b.Publish(ctx, m)
	if err == nil {
		return stands, nil
	}
	if !errors.Is(err, broker.ErrFull) {
		return failed, err
	}
	there := Item{Stream: u.b.Names().Work()}
	there.Stored, err = u.b.Last(ctx, there.Stream, m.Subject)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return failed, errFull
	case err != nil:
		return failed, err
	case !sameItem(there, from):
		return later, fmt.Errorf("another request with the id of job %s stands in line", n.ID)
	case from.Header.Get(subject.HeaderPutBack) == strconv.FormatUint(there.Seq, 10):
		return later, fmt.Errorf("job %s is leaving the line", n.ID)
	}
	return gone, nil // its place is counted already
}

// sameItem reports whether two work items of one id are of one request.
func sameItem(a, b Item) bool {
	x, err := a.Decode()
	if err != nil {
		return false
	}
	y, err := b.Decode()
	return err == nil && task.SameRequest(x, y)
}
