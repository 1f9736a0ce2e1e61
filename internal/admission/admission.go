// Package admission accepts requests: it validates, routes, fingerprints and
// enqueues them, in one function behind all ways in. It does not run jobs, keeps no
// queue, and leaves what a body means to its protocol.
package admission

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// Request is a request in canonical form, whichever way it came in.
type Request struct {
	Kind   subject.Kind
	Tenant string
	// RequestID is the idempotency key, or empty.
	RequestID string
	// Body is the upstream's JSON as the client sent it.
	Body body.Document
	// Typed is a video request field by field; Body is then its JSON in the
	// default protocol, and the upstream gets it in that of its route. Nil
	// otherwise.
	Typed     *genbusv1.VideoGeneration
	Labels    map[string]string
	ExpiresAt time.Time // zero: none
	RetryOf   string
	// Protocol is what the caller expects of the route, or empty.
	Protocol string
	Archive  *bool
	// Source is what makes a request without a request id the same job again: its
	// message in the inbox, or the dead letter that it was made of; nil for neither.
	Source *Source
	// Before is the source that the version before made of the same message, of one that
	// was delivered before; nil otherwise. It goes with the next release.
	Before *Source
	// First is true for a message that the inbox delivers for the first time, where its id
	// is made of the message: no log has the id, as far as is known. Where that is wrong,
	// the write of the first event finds the job.
	First bool
	// Attached makes the job one of a task that an upstream already has; nil for a
	// job that is to be submitted.
	Attached *Attachment
	// Resolves is true for a request that a dead letter makes, which goes: it is accepted
	// also where its tenant has as many letters as it may have.
	Resolves bool
	// Way is the way in, for metrics.
	Way telemetry.Way
}

// Checked is a request that passed validation, with everything that was found
// on the way. Inline chats go on from here without being enqueued.
type Checked struct {
	ID    string
	Route config.Route
	Model string
	// Stream is what the body says of it, and StreamSet that it says something.
	Stream, StreamSet bool
	// Body is what the upstream gets, but for the model's name.
	Body []byte
	// Asked is what a video task keeps of its body.
	Asked upstream.Asked
	// Fingerprint is that of the client's body, with which other requests of the same id
	// are compared. A fresh request has none: no other one has its id.
	Fingerprint []byte
	// Fresh is true when nothing identifies the request, so that the id is new.
	Fresh bool
}

// Admission is the only code that puts new jobs into the queue.
type Admission struct {
	cfg     *config.Live
	b       *broker.Broker
	log     *joblog.Log
	bodies  *broker.Bodies
	queue   *queue.Queue
	firsts  *firsts
	quota   *quota.Quota
	letters *quota.Letters
	metrics *telemetry.Metrics
}

// Options are the parts that admission works with. All are required.
type Options struct {
	Config  *config.Live
	Broker  *broker.Broker
	Log     *joblog.Log
	Bodies  *broker.Bodies
	Queue   *queue.Queue
	Letters *quota.Letters
	Metrics *telemetry.Metrics
}

// New returns an admission.
func New(o Options) *Admission {
	return &Admission{
		cfg: o.Config, b: o.Broker, log: o.Log, bodies: o.Bodies, queue: o.Queue, letters: o.Letters, metrics: o.Metrics, firsts: newFirsts(),
		quota: quota.New(quota.Options{Limits: o.Config.LimitsOf, Unfinished: o.Log.Unfinished}),
	}
}

// errTooSlow says that JetStream did not answer in time.
var errTooSlow = errors.New("JetStream did not answer within " + decideWithin.String())

// Admit accepts a request, or attaches it to the job that it names, and returns
// the job as it is now. The job is accepted when its work item is stored. From then
// on Admit only fails with idempotency_key_reused, or, where the request has an id
// that another may use too and the log does not say whose it is, with
// acceptance_unknown. Every error is a *errcode.Error.
func (a *Admission) Admit(ctx context.Context, r Request) (joblog.Entry, error) {
	begin := time.Now()
	entry, err := a.admit(ctx, r)
	a.metrics.Admission(r.Kind, r.Way, time.Since(begin))
	if err != nil {
		a.metrics.Refused(r.Kind, r.Way, string(errcode.Counted(ctx, err)))
		return joblog.Entry{}, errcode.From(err)
	}
	return entry, nil
}

// decideWithin bounds one admission while JetStream does not answer: a caller who
// waits is told within that time, and those that follow at once.
const decideWithin = 8 * time.Second

func (a *Admission) admit(ctx context.Context, r Request) (joblog.Entry, error) {
	c, err := a.Check(r)
	if err != nil {
		return joblog.Entry{}, err
	}
	if err := a.b.Trouble(); err != nil {
		return joblog.Entry{}, unavailable(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, decideWithin, errTooSlow)
	defer cancel()
	if !c.Fresh && !r.First { // their ids have no log
		entry, found, err := a.attach(ctx, r, c)
		if !found && err == nil && r.RequestID == "" && r.Before != nil {
			entry, found, err = a.attachBefore(ctx, r, c)
		}
		if found || err != nil {
			return entry, err
		}
	}
	if err := c.Refusal(); err != nil && r.Attached == nil { // an attached task is only polled
		return joblog.Entry{}, err
	}
	releaseSlot, err := a.acquireSlot(ctx, r, c)
	if err != nil {
		return joblog.Entry{}, err
	}
	defer releaseSlot()
	release, err := a.checkCapacity(ctx, r, c)
	if err != nil {
		return joblog.Entry{}, err
	}
	defer release()
	if r.Kind == subject.Video && !r.Resolves {
		if err := a.letters.Check(ctx, r.Tenant); err != nil {
			return joblog.Entry{}, err
		}
	}
	var entry joblog.Entry
	// The holder of an attached job polls before it writes anything, and would not be told of a
	// cancel that came before it was given the item: it reads the log.
	if r.Attached == nil {
		tell := a.firsts.begin(subject.TaskName{Kind: r.Kind, Tenant: r.Tenant, ID: c.ID})
		defer func() { tell(entry) }()
	}
	there, err := a.enqueue(ctx, r, c)
	if err != nil {
		return joblog.Entry{}, err
	}
	if entry, err = a.logFirst(ctx, there, c); err == nil {
		a.metrics.Accepted(r.Kind, r.Way)
	}
	return entry, err
}

// attach looks for the job in the log: there is none, it is this request's, or
// the key was used for another body.
func (a *Admission) attach(ctx context.Context, r Request, c Checked) (entry joblog.Entry, found bool, err error) {
	entry, err = a.log.Get(ctx, subject.TaskName{Kind: r.Kind, Tenant: r.Tenant, ID: c.ID})
	if errors.Is(err, joblog.ErrNotFound) {
		return joblog.Entry{}, false, nil
	}
	if err != nil {
		return joblog.Entry{}, false, unavailable(err)
	}
	return entry, true, sameBody(entry.Job.GetExecution().GetFingerprint(), c)
}

// attachBefore looks for the job that a replica of the version before made of the message,
// which has another id. Its item is stored first, and leaves when the log has its end: so
// the streams of work are asked first. It goes with the next release.
func (a *Admission) attachBefore(ctx context.Context, r Request, c Checked) (entry joblog.Entry, found bool, err error) {
	c.ID = subject.JobID(r.Kind, r.Tenant, r.Before.text)
	stored, err := a.queue.Items.Find(ctx, subject.TaskName{Kind: r.Kind, Tenant: r.Tenant, ID: c.ID})
	if errors.Is(err, broker.ErrNoMessage) {
		return a.attach(ctx, r, c)
	}
	if err != nil {
		return joblog.Entry{}, false, unavailable(err)
	}
	item, err := stored.Decode()
	if err != nil {
		return joblog.Entry{}, false, errcode.New(errcode.Internal, "the work item of %s is unreadable: %w", c.ID, err).ForJob(c.ID)
	}
	if err := sameBody(item.GetFingerprint(), c); err != nil {
		return joblog.Entry{}, false, err
	}
	entry, err = a.logFirst(ctx, placed{item: a.queue.Items.LogItem(stored, item)}, c)
	return entry, true, err
}

func sameBody(fingerprint []byte, c Checked) error {
	if string(fingerprint) == string(c.Fingerprint) {
		return nil
	}
	return errcode.New(errcode.IdempotencyKeyReused,
		"the request_id (Idempotency-Key) belongs to job %s, which has another body; use a new one for a new body", c.ID).ForJob(c.ID)
}

func unavailable(err error) error {
	return errcode.New(errcode.BrokerUnavailable, "nothing was accepted: %s", broker.Reason(err)).Because(err).WithRetryAfter(time.Second)
}

// checkCapacity refuses before anything is stored: when the route's queue is full, so
// that one dead route does not fill the work stream, and when the log has no room for the
// whole life of another job. That room is reserved until release is called.
func (a *Admission) checkCapacity(ctx context.Context, r Request, c Checked) (release joblog.Release, err error) {
	if waiting, _ := a.queue.Route(r.Kind, c.Route.Name).Waiting(ctx); waiting >= uint64(c.Route.MaxQueued) {
		return nil, full(c.Route.Name, waiting)
	}
	release, err = a.log.Capacity.ReserveJob(ctx, task.FromWork(a.Item(ctx, r, c)).Job)
	if noRoom, ok := errors.AsType[*joblog.FullError](err); ok {
		return nil, errcode.New(errcode.StorageFull, "nothing was accepted: %s", noRoom).WithRetryAfter(30 * time.Second)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	return release, nil
}

func full(route string, waiting uint64) error {
	return errcode.New(errcode.QueueFull, "route %s has %d jobs waiting; nothing was accepted, try again later", route, waiting).WithRetryAfter(5 * time.Second)
}

// logFirst writes the first event from the stored item. A job that another replica has
// logged, or carried on, is answered as it is. When the log does not answer, a job whose
// id no other request can have is accepted all the same: its item is stored, and its
// event is written when the log answers again, or by the consumer that takes it. Of
// requests with one id and two bodies both may be stored, one ready and one in the
// backlog, and the log alone decides between them.
func (a *Admission) logFirst(ctx context.Context, there placed, c Checked) (joblog.Entry, error) {
	if there.log.Job != nil {
		return there.log, nil
	}
	ctx, cancel := context.WithTimeout(ctx, broker.PublishTimeout)
	defer cancel()
	entry, err := a.queue.Items.Begin(ctx, there.item, there.seen)
	switch {
	case err == nil:
		return entry, sameBody(entry.Job.GetExecution().GetFingerprint(), c)
	case !c.Fresh:
		return joblog.Entry{}, acceptanceFault(c.ID, true, err)
	default:
		entry = joblog.Entry{Event: task.FromWork(there.item.WorkItem)}
		a.queue.LogLater(entry.Name())
		return entry, nil
	}
}

// item is the work item of a request. Others compare its times with their clocks, so a
// wrong clock makes none. A large body goes to the object store first: to an object of
// its own, so that no other send of the same request takes it away.
func (a *Admission) item(ctx context.Context, r Request, c Checked) (*genbusv1.WorkItem, error) {
	now, err := a.b.Clock().Now()
	if err != nil {
		return nil, errcode.New(errcode.ClockWrong, "nothing was accepted: %w", err).WithRetryAfter(time.Second)
	}
	item := &genbusv1.WorkItem{
		Id: c.ID, Kind: string(r.Kind), Tenant: r.Tenant, Route: c.Route.Name, Model: c.Model, Body: c.Body,
		Fingerprint: c.Fingerprint, RequestId: r.RequestID, Labels: r.Labels, RetryOf: r.RetryOf,
		AcceptedAt: timestamppb.New(now), QueueDeadline: timestamppb.New(now.Add(c.Route.Timeouts.Queue)),
		Protocol: c.Route.Protocol, Stream: c.Stream, Trace: telemetry.Inject(ctx), Size: c.Asked.Size, Seconds: c.Asked.Seconds,
	}
	if r.Attached != nil { // it waits for no submission
		item.Attached, item.QueueDeadline = r.Attached.until(now.Add(c.Route.Timeouts.Deadline)), nil
	}
	if archive := c.archives(r); archive {
		item.Archive = &archive
	}
	if !r.ExpiresAt.IsZero() {
		item.ExpiresAt = timestamppb.New(r.ExpiresAt)
	}
	if int64(len(c.Body)) <= int64(a.cfg.Now().Limits.ClaimCheckBytes) {
		return item, nil
	}
	ref, err := a.bodies.PutNew(ctx, r.Tenant, publisher.RequestBody(c.ID), c.Body)
	if errors.Is(err, broker.ErrFull) {
		return nil, errcode.New(errcode.StorageFull, "nothing was accepted: the tenant's object store is full (limits.bodies_bytes), or the disk under it").Because(err).WithRetryAfter(30 * time.Second)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	item.Body, item.BodyRef = nil, publisher.BlobRef(ref)
	return item, nil
}

// archives reports whether the result is to be copied: as the request says, or
// else the route.
func (c Checked) archives(r Request) bool {
	if r.Kind != subject.Video {
		return false
	}
	if r.Archive != nil {
		return *r.Archive
	}
	return c.Route.Archive
}

// Item is the work item of a checked request that is not enqueued: an inline
// chat, or one for which room is looked for first.
func (a *Admission) Item(ctx context.Context, r Request, c Checked) *genbusv1.WorkItem {
	return &genbusv1.WorkItem{
		Id: c.ID, Kind: string(r.Kind), Tenant: r.Tenant, Route: c.Route.Name, Model: c.Model, Body: c.Body,
		Fingerprint: c.Fingerprint, Labels: r.Labels, RetryOf: r.RetryOf, AcceptedAt: timestamppb.Now(),
		Stream: c.Stream, Trace: telemetry.Inject(ctx),
	}
}
