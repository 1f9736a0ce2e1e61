package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

type verdict int

const (
	failed   verdict = iota // back in the backlog; stop this fill
	later                   // back in the backlog; delay its tenant
	blocked                 // back in the backlog; do not delay its tenant
	obsolete                // not enqueued, because another replica dispatched it or it has ended
	enqueued                // ready or possibly ready
)

var (
	errFull = errors.New("the work stream is full")
	// errNotStored means that the leader of GENBUS_WAIT lags behind the stream replica that
	// reported the job.
	errNotStored = errors.New("the leader has not stored the job yet")
	// errOutdated means that the index belongs to a previous stream.
	errOutdated = errors.New("the backlog stream was recreated")
)

type jobDispatcher struct {
	q     *Queue
	route *Route
}

// candidate is a job to dispatch, with the data that was read for its batch. item and job are zero
// if they were not found. They may be outdated, because any replica of the stream may have
// answered.
type candidate struct {
	turn
	item Item
	job  joblog.Entry
}

// read reads the items of a batch, with one request per tenant, and their jobs from the log, with
// one request. dispatch reads anything that is still missing.
func (m jobDispatcher) read(ctx context.Context, batch []turn) []candidate {
	out := make([]candidate, len(batch))
	byTenant := map[string][]*candidate{}
	for i, t := range batch {
		out[i].turn = t
		byTenant[t.tenant] = append(byTenant[t.tenant], &out[i])
	}
	if len(batch) == 1 { // a batch read would save nothing
		return out
	}
	var group sync.WaitGroup
	slots := make(chan struct{}, maxReads)
	for tenant, jobs := range byTenant {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			m.readItems(ctx, tenant, jobs)
		})
	}
	group.Wait()
	m.readJobs(ctx, out)
	return out
}

// readItems reads the items of one tenant's jobs, which must be the first jobs of its backlog in
// order.
func (m jobDispatcher) readItems(ctx context.Context, tenant string, jobs []*candidate) {
	names := m.q.b.Names()
	if len(jobs) == 1 { // cheaper than a page
		if s, err := m.q.b.At(ctx, names.Wait(), jobs[0].seq); err == nil {
			jobs[0].item = Item{Stream: names.Wait(), Stored: s}
		}
		return
	}
	stored, err := m.q.b.Some(ctx, names.Wait(), names.WaitTenantPattern(m.route.kind, m.route.name, tenant), jobs[0].seq, len(jobs))
	if err != nil {
		return
	}
	found := make(map[uint64]broker.Stored, len(stored))
	for _, s := range stored {
		found[s.Seq] = s
	}
	for _, j := range jobs {
		if s, ok := found[j.seq]; ok {
			j.item = Item{Stream: names.Wait(), Stored: s}
		}
	}
}

func (m jobDispatcher) readJobs(ctx context.Context, batch []candidate) {
	at := map[subject.JobName]*candidate{}
	var names []subject.JobName
	for i := range batch {
		if n, err := m.q.Items.NameOf(batch[i].item); err == nil {
			name := subject.JobName{Kind: n.Kind, Tenant: n.Tenant, ID: n.ID}
			names, at[name] = append(names, name), &batch[i]
		}
	}
	if len(names) == 0 {
		return
	}
	jobs, err := m.q.log.Some(ctx, names)
	if err != nil {
		return
	}
	for name, e := range jobs {
		if j := at[name]; j != nil {
			j.job = e
		}
	}
}

// dispatch moves a job from the backlog to the ready jobs. Its steps are safe even if a replica
// dies at any point or several replicas dispatch the same job at the same time:
//
//  1. It writes the first event if admission did not. It marks the ready copy with the sequence of
//     an event, so that a job that was erased in the meantime is not mistaken for a new one.
//  2. It publishes the copy as ready. If the subject already holds the same job, that is enough.
//  3. It deletes the item from the backlog. A job that is in both places is made ready again on the
//     same subject. If it has already run, the log shows that.
//
// The data of a batch may be outdated. The effect is the same as if the job had been removed,
// advanced or erased between steps 1 and 2. dispatch relies on the data only to conclude that the
// log has the item's job and that the job has not ended. It then marks the copy with the event that
// was read. Before it withholds or removes anything, it asks the leader whether the job has ended,
// belongs to another request or has no log. In step 3, the leader reports whether the item still
// existed.
func (m jobDispatcher) dispatch(ctx context.Context, j candidate) (verdict, error) {
	from, n, err := m.itemOf(ctx, j)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return obsolete, nil
	case errors.Is(err, errNotStored):
		return later, err
	case err != nil:
		return failed, err
	}
	mark, ended, err := m.ensureLogged(ctx, from, j.job)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return obsolete, nil
	case err != nil:
		return failed, err
	case ended:
		_, err = m.q.Items.Remove(ctx, from)
		return obsolete, err
	}
	v, err := m.enqueue(ctx, n, from, mark)
	if err != nil {
		return v, err
	}
	return m.removeDispatched(ctx, n, from, v)
}

// itemOf returns the backlog item of a candidate. It returns ErrNoMessage if the item is gone,
// errNotStored if the leader has not stored it yet, and errOutdated if the index belongs to a
// previous stream.
func (m jobDispatcher) itemOf(ctx context.Context, j candidate) (from Item, n subject.WorkName, err error) {
	if from = j.item; from.Seq == 0 {
		from.Stream = m.q.b.Names().Wait()
		from.Stored, err = m.q.b.At(ctx, from.Stream, j.seq)
	}
	if errors.Is(err, broker.ErrNoMessage) {
		from.Stored, err = m.confirm(ctx, from.Stream, j.seq)
	}
	if err != nil {
		return Item{}, n, err
	}
	n, err = m.q.Items.NameOf(from)
	if err != nil || n.Kind != m.route.kind || n.Route != m.route.name || n.Tenant != j.tenant {
		return Item{}, n, errOutdated // the subject of a sequence never changes
	}
	return from, n, nil
}

// confirm rereads an item that was not found. It first checks that the leader has reached the
// item's sequence.
func (m jobDispatcher) confirm(ctx context.Context, stream string, seq uint64) (broker.Stored, error) {
	s, err := m.q.b.Stream(ctx, stream)
	switch {
	case err != nil:
		return broker.Stored{}, err
	case !m.route.backlog.of(s.CachedInfo().Created):
		return broker.Stored{}, errOutdated
	case s.CachedInfo().State.LastSeq < seq:
		return broker.Stored{}, errNotStored
	}
	return m.q.b.At(ctx, stream, seq)
}

// removeDispatched deletes a dispatched job from the backlog. If the job is not there, either
// another dispatcher has moved it too or the job has ended. An ended job is removed from the ready
// jobs.
func (m jobDispatcher) removeDispatched(ctx context.Context, n subject.WorkName, from Item, v verdict) (verdict, error) {
	removed, err := m.q.Items.Remove(ctx, from)
	if err != nil || removed || v != enqueued {
		return v, err
	}
	e, err := m.q.log.Get(ctx, subject.JobName{Kind: n.Kind, Tenant: n.Tenant, ID: n.ID})
	if err != nil || !e.Terminal() {
		return v, nil //nolint:nilerr // its consumer rereads the log
	}
	return v, m.q.RemoveEnded(ctx, e)
}

// toSubmit reports whether a job still has to be submitted. If the job has ended or an upstream may
// already have it, it is dispatched regardless of its tenant's dead letters.
func (m jobDispatcher) toSubmit(ctx context.Context, j candidate) bool {
	_, n, err := m.itemOf(ctx, j)
	if err != nil {
		return !errors.Is(err, broker.ErrNoMessage) && !errors.Is(err, errOutdated)
	}
	e, err := m.q.log.Get(ctx, subject.JobName{Kind: n.Kind, Tenant: n.Tenant, ID: n.ID})
	if err != nil {
		return true
	}
	return task.Untouched(e.Job)
}

// ensureLogged makes sure that the log has the job. It returns the mark for the ready copy (the
// sequence of an event, or "" if the job was never logged) and whether the job has ended. It
// returns ErrNoMessage if the job was erased. read is the job as read for the batch, if it was
// found.
func (m jobDispatcher) ensureLogged(ctx context.Context, from Item, read joblog.Entry) (mark string, ended bool, err error) {
	work, err := from.Decode()
	if err != nil {
		return "", false, nil //nolint:nilerr // the consumer ends jobs with unreadable items
	}
	item := m.q.Items.LogItem(from, work)
	if read.Job != nil && !read.Terminal() && task.SameAcceptance(work, read.Job.GetCreatedAt()) && item.In(read) == joblog.Current {
		return markOf(read), false, nil
	}
	e, means, err := m.q.log.Resolve(ctx, item)
	switch {
	case err != nil:
		return "", false, err
	case means == joblog.Removed:
		return "", false, broker.ErrNoMessage
	case means == joblog.PendingFirstEvent:
		if e, err = m.q.Items.Begin(ctx, item, time.Time{}); err != nil {
			return "", false, err
		}
	case e.Job == nil: // stale item or lost log; the consumer decides
		return from.Header.Get(subject.HeaderRecorded), false, nil
	}
	// The end of another job with the same ID does not count. If the end leaves a dead letter, the
	// consumer writes it.
	if task.LeavesDeadLetter(e.Job) {
		return markOf(e), false, nil
	}
	if e.Terminal() && task.SameAcceptance(work, e.Job.GetCreatedAt()) {
		return markOf(e), true, m.q.log.Finish(ctx, e)
	}
	return markOf(e), false, nil
}

func markOf(e joblog.Entry) string { return strconv.FormatUint(e.Seq, 10) }

func (m jobDispatcher) enqueue(ctx context.Context, n subject.WorkName, from Item, mark string) (verdict, error) {
	msg := nats.NewMsg(m.q.b.Names().WorkItem(n.Kind, n.Route, n.Tenant, n.ID))
	msg.Data = from.Data
	if mark != "" {
		msg.Header[subject.HeaderRecorded] = []string{mark}
	}
	_, err := m.q.b.Publish(ctx, msg)
	if err == nil {
		return enqueued, nil
	}
	if errors.Is(err, broker.ErrTooLarge) { // max_payload was lowered; jobs behind this one need not wait
		return blocked, err
	}
	if !errors.Is(err, broker.ErrFull) {
		return failed, err
	}
	there := Item{Stream: m.q.b.Names().Work()}
	there.Stored, err = m.q.b.Last(ctx, there.Stream, msg.Subject)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return failed, errFull
	case err != nil:
		return failed, err
	case !sameItem(there, from):
		return blocked, fmt.Errorf("another request with the id of job %s is ready", n.ID)
	}
	return obsolete, nil // already counted
}

// sameItem reports whether two work items with the same ID come from the same request.
func sameItem(a, b Item) bool {
	x, err := a.Decode()
	if err != nil {
		return false
	}
	y, err := b.Decode()
	return err == nil && task.SameRequest(x, y)
}
