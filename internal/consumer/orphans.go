package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// checkOrphans refuses to start while accepted jobs stand on routes that are not
// configured any more: nobody would ever take them.
func (c *Consumer) checkOrphans(ctx context.Context) error {
	var orphans []orphan
	err := c.Broker.Patiently(ctx, "look for jobs without a route", func(ctx context.Context) (err error) {
		orphans, err = c.orphanedSubjects(ctx)
		return err
	})
	if err != nil || len(orphans) == 0 {
		return err
	}
	switch c.Config.Orphans {
	case config.OrphansReroute, config.OrphansFail:
		for _, o := range orphans {
			c.loops.Go(func() { c.adoptOrphans(o) })
		}
		return nil
	}
	var routes []string
	for _, o := range orphans {
		routes = append(routes, fmt.Sprintf("%s route %q (%d jobs)", o.kind, o.route, o.jobs))
	}
	return fmt.Errorf("accepted jobs stand on routes that are not configured: %s; configure the routes again (start with --sandbox where they are the sandbox's), or set orphans to %q or %q",
		strings.Join(routes, ", "), config.OrphansReroute, config.OrphansFail)
}

// orphanedSubjects groups the work items without a route, in line and behind it.
func (c *Consumer) orphanedSubjects(ctx context.Context) ([]orphan, error) {
	names := c.Broker.Names()
	found := map[string]int{}
	var out []orphan
	for _, at := range []struct{ stream, pattern string }{{names.Work(), names.WorkPattern()}, {names.Wait(), names.WaitPattern()}} {
		s, err := c.Broker.Stream(ctx, at.stream)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", at.stream, err)
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(at.pattern))
		if err != nil {
			return nil, fmt.Errorf("subjects of %s: %w", at.stream, err)
		}
		for subj := range info.State.Subjects {
			n, _, err := c.parseItem(subj)
			if err != nil || c.Routes.Has(n.Kind, n.Route) {
				continue
			}
			key := string(n.Kind) + " " + n.Route
			at, seen := found[key]
			if !seen {
				at = len(out)
				found[key] = at
				out = append(out, orphan{kind: n.Kind, route: n.Route})
			}
			out[at].jobs++
			out[at].subjects = append(out[at].subjects, subj)
		}
	}
	return out, nil
}

// parseItem reads the subject of a work item in line or behind it, and gives the
// stream that it is of.
func (c *Consumer) parseItem(subj string) (n subject.WorkName, stream string, err error) {
	names := c.Broker.Names()
	if n, err = names.ParseWaitItem(subj); err == nil {
		return n, names.Wait(), nil
	}
	n, err = names.ParseWorkItem(subj)
	return n, names.Work(), err
}

// orphan is a route that is gone and the jobs that it left.
type orphan struct {
	kind     subject.Kind
	route    string
	jobs     int
	subjects []string
}

// adoptOrphans waits until nobody works on the orphans any more, then ends or
// moves them.
func (c *Consumer) adoptOrphans(o orphan) {
	for !c.abandoned(o) {
		if c.fetching.Err() != nil {
			return
		}
	}
	for _, subj := range o.subjects {
		if err := c.adoptOrphan(c.working, subj); err != nil {
			c.Logger.Error("an orphaned job could not be adopted", "subject", subj, "error", err)
		}
		if c.fetching.Err() != nil {
			return
		}
	}
}

// abandoned watches the route's durable for two AckWaits: a replica of an older
// configuration may still hold its jobs. False means that something moved.
func (c *Consumer) abandoned(o orphan) bool {
	durable := subject.WorkDurable(o.kind, o.route)
	before, wait, err := c.durableState(durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return true
	}
	if broker.Wait(c.fetching, max(2*wait, time.Second)) != nil || err != nil {
		return false
	}
	after, _, err := c.durableState(durable)
	return err == nil && after == before && after.waiting == 0
}

type durableState struct {
	waiting, pending   int
	delivered, ackedTo uint64
}

func (c *Consumer) durableState(durable string) (durableState, time.Duration, error) {
	cons, err := c.Broker.Consumer(c.fetching, c.Broker.Names().Work(), durable)
	if err != nil {
		return durableState{}, 0, err
	}
	i := cons.CachedInfo()
	return durableState{i.NumWaiting, i.NumAckPending, i.Delivered.Consumer, i.AckFloor.Stream}, i.Config.AckWait, nil
}

// adoptOrphan ends one job, or moves it to the route that serves its model now.
// A job that the upstream has is moved only to be asked for there: its account is
// in its log, and any route can read it.
func (c *Consumer) adoptOrphan(ctx context.Context, subj string) error {
	_, stream, err := c.parseItem(subj)
	if err != nil {
		return err
	}
	stored, err := c.Broker.Last(ctx, stream, subj)
	if errors.Is(err, broker.ErrNoMessage) {
		return nil
	}
	if err != nil {
		return err
	}
	orphan := admission.Item{Stream: stream, Stored: stored}
	item, err := orphan.Decode()
	if err != nil {
		return err
	}
	current, err := c.Log.Get(ctx, nameOf(item))
	if err != nil && !errors.Is(err, tasklog.ErrNotFound) {
		return err
	}
	stands, err := c.standsElsewhere(ctx, item, current)
	if err != nil {
		return err
	}
	route, ok := c.Config.Route(item.GetKind(), item.GetModel())
	// The body is written in the protocol of the route that is gone.
	switch {
	case stands:
	case ok && (fresh(current, item) || c.readable(current)) && route.Protocol == item.GetProtocol() && c.Config.Orphans == config.OrphansReroute:
		err = c.reroute(ctx, item, route)
	default:
		err = c.endOrphan(ctx, current, item)
	}
	if err != nil {
		return err
	}
	return c.Admission.Remove(ctx, orphan)
}

// standsElsewhere reports whether a job goes on without its orphaned item: the item
// is of another request than the job, or its request has one on a route that there
// is.
func (c *Consumer) standsElsewhere(ctx context.Context, item *genbusv1.WorkItem, current tasklog.Entry) (bool, error) {
	if current.Job != nil && !sameRequest(item, current) {
		return true, nil
	}
	items, err := c.Admission.Items(ctx, nameOf(item))
	for _, i := range items {
		n, _, err := c.parseItem(i.Subject)
		if err != nil || !c.Routes.Has(n.Kind, n.Route) {
			continue
		}
		if other, err := i.Decode(); err == nil && string(other.GetFingerprint()) == string(item.GetFingerprint()) {
			return true, nil
		}
	}
	return false, err
}

// fresh reports whether nothing of a job can be at an upstream.
func fresh(current tasklog.Entry, item *genbusv1.WorkItem) bool {
	if current.Job == nil {
		return item.GetAttached() == nil
	}
	x := current.Job.GetExecution()
	return x.GetPhase() == genbusv1.JobPhase_JOB_PHASE_QUEUED && !x.GetBound()
}

// readable reports whether a job runs at an upstream where it can still be asked
// for, whichever route does so.
func (c *Consumer) readable(current tasklog.Entry) bool {
	v, ok := current.Job.(*genbusv1.VideoTask)
	if !ok || current.Terminal() || v.GetUpstreamTaskId() == "" {
		return false
	}
	_, ok = c.Routes.Client(v)
	return ok
}

// endOrphan ends a job whose route is gone. The request of one that may have been
// submitted, or was, is kept.
func (c *Consumer) endOrphan(ctx context.Context, current tasklog.Entry, item *genbusv1.WorkItem) error {
	f := orphanFault(current, item)
	letter := deadItem(item, current.Job, f)
	ended := current.Job != nil && current.Terminal()
	if !ended && (f.Code == fault.SubmissionUnknown || letter.GetUpstreamTaskId() != "") {
		if err := c.dead.Put(ctx, letter, item.GetId(), "orphan"); err != nil {
			return err
		}
	}
	return c.failItem(ctx, item, f)
}

func orphanFault(current tasklog.Entry, item *genbusv1.WorkItem) *fault.Error {
	x := current.Job
	if x != nil && (x.GetExecution().GetBound() || x.GetExecution().GetPhase() == genbusv1.JobPhase_JOB_PHASE_SUBMITTING) {
		return fault.New(fault.SubmissionUnknown, "job %s was being submitted when route %s was removed", item.GetId(), item.GetRoute())
	}
	return fault.New(fault.UpstreamRemoved, "route %s of job %s is not configured any more", item.GetRoute(), item.GetId())
}

// reroute lets the job wait for its new route, where its turn comes as anybody's,
// before the old item is deleted: a crash in between leaves two items of one job,
// and the log lets one submit.
func (c *Consumer) reroute(ctx context.Context, item *genbusv1.WorkItem, route config.Route) error {
	item.Route = route.Name
	data, err := proto.Marshal(item)
	if err != nil {
		return err
	}
	m := nats.NewMsg(c.Broker.Names().WaitItem(subject.Kind(item.GetKind()), route.Name, item.GetTenant(), item.GetId()))
	m.Data = data
	_, err = c.Broker.Publish(ctx, m)
	if errors.Is(err, broker.ErrFull) { // of this job's item, from an earlier try, or of others
		_, err = c.Broker.Last(ctx, c.Broker.Names().Wait(), m.Subject)
	}
	return err
}
