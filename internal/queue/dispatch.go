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

// verdict is what became of a job whose turn it was.
type verdict int

const (
	failed   verdict = iota // it waits again, and nothing more is dispatched now
	later                   // it waits again, and so do its tenant's others
	blocked                 // it waits again, and its tenant's others do not
	gone                    // nothing was enqueued: another replica did, or the job has ended
	enqueued                // it is ready, or may be
)

var (
	// errFull says that the stream of ready jobs has no room.
	errFull = errors.New("the work stream is full")
	// errNotStored says that the leader of the stream of waiting jobs is behind the node of
	// which the job was heard.
	errNotStored = errors.New("the leader has not stored the job yet")
	// errOutdated says that all that is known of the backlog is of another stream.
	errOutdated = errors.New("the backlog stream was recreated")
)

// jobDispatcher dispatches single jobs of a route's backlog.
type jobDispatcher struct {
	q     *Queue
	route *Route
}

// candidate is a job whose turn it is, and what was read of it together with others; zero where
// that was not said. Any server may have said it, so that it may be old.
type candidate struct {
	turn
	item Item
	job  joblog.Entry
}

// read reads the items and the jobs of a batch, with one request for each tenant in it and one
// for the log. What it does not find is read by dispatch.
func (m jobDispatcher) read(ctx context.Context, batch []turn) []candidate {
	out := make([]candidate, len(batch))
	byTenant := map[string][]*candidate{}
	for i, t := range batch {
		out[i].turn = t
		byTenant[t.tenant] = append(byTenant[t.tenant], &out[i])
	}
	if len(batch) == 1 { // two reads, here or there
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

// readItems reads the items of a tenant's jobs, which are the first ones of its backlog, in
// order.
func (m jobDispatcher) readItems(ctx context.Context, tenant string, jobs []*candidate) {
	names := m.q.b.Names()
	if len(jobs) == 1 { // a page costs more than a message
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

// readJobs reads the jobs of the items.
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

// dispatch brings a job from the backlog to the ready jobs. Any replica may die at any
// point of it, or do the same at the same time:
//
//  1. Its first event is written if admission did not get to it. What is made ready is
//     marked with the sequence of an event, so that a job that was erased meanwhile,
//     and has no log any more, is not taken for a new one.
//  2. It is published as ready. That it is ready already is as good, if it is this job.
//  3. It is deleted from the backlog. A job that is in both places is made ready again,
//     where its subject has one place; when it had its turn, the log says so.
//
// An item that was read with others may be gone, and the job may have gone on, or have been
// erased: as if that had happened between 1 and 2. So of the log only that this very job, and
// not an earlier one under its id, goes on is believed, which lets it have its turn, with a
// mark of an event that it had. What lets it have none, or takes something away, is asked of
// the leader: that it has ended, that it is another request's, that there is no log, and
// whether the item was there in 3.
func (m jobDispatcher) dispatch(ctx context.Context, j candidate) (verdict, error) {
	from, n, err := m.itemOf(ctx, j)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return gone, nil
	case errors.Is(err, errNotStored):
		return later, err
	case err != nil:
		return failed, err
	}
	mark, ended, err := m.ensureLogged(ctx, from, j.job)
	switch {
	case errors.Is(err, broker.ErrNoMessage):
		return gone, nil
	case err != nil:
		return failed, err
	case ended:
		_, err = m.q.Items.Remove(ctx, from)
		return gone, err
	}
	v, err := m.enqueue(ctx, n, from, mark)
	if err != nil {
		return v, err
	}
	return m.removeDispatched(ctx, n, from, v)
}

// itemOf is the item of the backlog that a turn is of. ErrNoMessage: it is gone.
// errNotStored: a follower has told of it before the leader has stored it. errOutdated: the
// turn is of a stream that is gone.
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
		return Item{}, n, errOutdated // one sequence of a stream has one subject
	}
	return from, n, nil
}

// confirm makes sure that an item that was not found is gone, and reads it where it is not:
// the leader has to have had its sequence before it was asked.
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

// removeDispatched deletes a dispatched job from the backlog. If it is not there, another
// dispatcher dispatched it too, or it has ended: then it is removed from the ready jobs.
func (m jobDispatcher) removeDispatched(ctx context.Context, n subject.WorkName, from Item, v verdict) (verdict, error) {
	removed, err := m.q.Items.Remove(ctx, from)
	if err != nil || removed || v != enqueued {
		return v, err
	}
	e, err := m.q.log.Get(ctx, subject.JobName{Kind: n.Kind, Tenant: n.Tenant, ID: n.ID})
	if err != nil || !e.Terminal() {
		return v, nil //nolint:nilerr // it is ready, and its consumer reads the log again
	}
	return v, m.q.RemoveEnded(ctx, e)
}

// toSubmit reports whether a job has to be submitted, as far as is known: one that an
// upstream has, or that has ended, goes on whatever its tenant's dead letters are.
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

// ensureLogged makes sure that the log has the job, and returns what its item is marked
// with: the sequence of an event of it, or nothing where the log never had one; and
// whether the job has ended. ErrNoMessage: it was erased, and its item with it. read is the
// job where it was read.
func (m jobDispatcher) ensureLogged(ctx context.Context, from Item, read joblog.Entry) (mark string, ended bool, err error) {
	work, err := from.Decode()
	if err != nil {
		return "", false, nil //nolint:nilerr // the consumer buries what cannot be read
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
	case e.Job == nil: // a stale item, or a lost log: the consumer says so
		return from.Header.Get(subject.HeaderRecorded), false, nil
	}
	// A terminal event of this very job, and not of another one under its id. Where its
	// end leaves a letter, that is for the consumer to write.
	if task.LeavesDeadLetter(e.Job) {
		return markOf(e), false, nil
	}
	if e.Terminal() && task.SameAcceptance(work, e.Job.GetCreatedAt()) {
		return markOf(e), true, m.q.log.Finish(ctx, e)
	}
	return markOf(e), false, nil
}

// markOf is the mark of an item whose job the log has.
func markOf(e joblog.Entry) string { return strconv.FormatUint(e.Seq, 10) }

// enqueue publishes the job where the route's consumer takes it.
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
	if errors.Is(err, broker.ErrTooLarge) { // NATS takes less than it did; the jobs behind it need not wait
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
