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
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// checkOrphans refuses to start while accepted jobs stand on routes that are not
// configured any more: nobody would ever take them.
func (c *Consumer) checkOrphans(ctx context.Context) error {
	orphans, err := c.orphanedSubjects(ctx)
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

// orphanedSubjects groups the work items without a route.
func (c *Consumer) orphanedSubjects(ctx context.Context) ([]orphan, error) {
	names := c.Broker.Names()
	s, err := c.Broker.JetStream().Stream(ctx, names.Work())
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", names.Work(), err)
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(names.WorkPattern()))
	if err != nil {
		return nil, fmt.Errorf("subjects of %s: %w", names.Work(), err)
	}
	found := map[string]int{}
	var out []orphan
	for subj := range info.State.Subjects {
		n, err := names.ParseWorkItem(subj)
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
	return out, nil
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
	cons, err := c.Broker.JetStream().Consumer(c.fetching, c.Broker.Names().Work(), durable)
	if err != nil {
		return durableState{}, 0, err
	}
	i := cons.CachedInfo()
	return durableState{i.NumWaiting, i.NumAckPending, i.Delivered.Consumer, i.AckFloor.Stream}, i.Config.AckWait, nil
}

// adoptOrphan ends one job, or moves it to the route that serves its model now.
// A job that the upstream has is never moved.
func (c *Consumer) adoptOrphan(ctx context.Context, subj string) error {
	stored, err := c.Broker.Last(ctx, c.Broker.Names().Work(), subj)
	if errors.Is(err, broker.ErrNoMessage) {
		return nil
	}
	if err != nil {
		return err
	}
	item := &genbusv1.WorkItem{}
	if err := proto.Unmarshal(stored.Data, item); err != nil {
		return fmt.Errorf("unreadable work item: %w", err)
	}
	current, err := c.Log.Get(ctx, nameOf(item))
	if err != nil && !errors.Is(err, tasklog.ErrNotFound) {
		return err
	}
	fresh := current.Job == nil || current.Job.GetExecution().GetPhase() == genbusv1.JobPhase_JOB_PHASE_QUEUED && !current.Job.GetExecution().GetBound()
	route, ok := c.Config.Route(item.GetKind(), item.GetModel())
	// The body is written in the protocol of the route that is gone.
	if ok && fresh && route.Protocol == item.GetProtocol() && c.Config.Orphans == config.OrphansReroute {
		err = c.reroute(ctx, item, route)
	} else {
		err = c.endOrphan(ctx, current, item)
	}
	if err != nil {
		return err
	}
	s, err := c.Broker.JetStream().Stream(ctx, c.Broker.Names().Work())
	if err != nil {
		return err
	}
	return s.DeleteMsg(ctx, stored.Seq)
}

// endOrphan ends a job whose route is gone. The request of one that may have been
// submitted is kept.
func (c *Consumer) endOrphan(ctx context.Context, current tasklog.Entry, item *genbusv1.WorkItem) error {
	f := orphanFault(current, item)
	if f.Code == fault.SubmissionUnknown {
		if err := c.dead.Put(ctx, deadItem(item, f), item.GetId(), "orphan"); err != nil {
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

// reroute stores the item under its new route before the old one is deleted: a
// crash in between leaves two items of one job, and the log lets one submit.
func (c *Consumer) reroute(ctx context.Context, item *genbusv1.WorkItem, route config.Route) error {
	item.Route = route.Name
	data, err := proto.Marshal(item)
	if err != nil {
		return err
	}
	m := nats.NewMsg(c.Broker.Names().WorkItem(subject.Kind(item.GetKind()), route.Name, item.GetTenant(), item.GetId()))
	m.Data = data
	_, err = c.Broker.Publish(ctx, m)
	if errors.Is(err, broker.ErrFull) { // of this job's item, from an earlier try, or of others
		_, err = c.Broker.Last(ctx, c.Broker.Names().Work(), m.Subject)
	}
	return err
}
