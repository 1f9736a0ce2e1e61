package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// OrphanedRoute is an unconfigured route that has jobs.
type OrphanedRoute struct {
	Kind    subject.Kind
	Name    string
	Ready   uint64 // jobs in GENBUS_WORK, including held ones
	Backlog uint64 // jobs in the backlog
	Oldest  time.Time
}

const orphansWithin = time.Minute

// Orphans returns the unconfigured routes that have jobs, sorted by kind and name.
func (q *Queue) Orphans(ctx context.Context) ([]OrphanedRoute, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, orphansWithin, fmt.Errorf("listing jobs of unconfigured routes took longer than %s", orphansWithin))
	defer cancel()
	found, err := q.readyOrphans(ctx)
	if err != nil {
		return nil, err
	}
	if err := q.backlogOrphans(ctx, found); err != nil {
		return nil, err
	}
	var out []OrphanedRoute
	for r, ready := range found {
		o := OrphanedRoute{Kind: r.kind, Name: r.name, Ready: ready}
		if o.Backlog, err = r.countBacklog(ctx); err != nil {
			return nil, err
		}
		if o.Ready+o.Backlog == 0 {
			continue
		}
		if o.Oldest, err = r.acceptedFrom(ctx, 1, true); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b OrphanedRoute) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	q.orphans.Store(&out)
	return out, nil
}

// LatestOrphans returns the result of the latest successful call of Orphans, which may be expensive
// and which every replica calls each minute. known is false before the first one.
func (q *Queue) LatestOrphans() (found []OrphanedRoute, known bool) {
	if latest := q.orphans.Load(); latest != nil {
		return *latest, true
	}
	return nil, false
}

// readyOrphans counts the jobs of unconfigured routes in GENBUS_WORK.
func (q *Queue) readyOrphans(ctx context.Context) (map[*Route]uint64, error) {
	names := q.b.Names()
	found := map[*Route]uint64{}
	counted, err := q.byConsumers(ctx, names.Work(), func(r *Route, c *jetstream.ConsumerInfo) { found[r] += jobsOf(c) })
	if err != nil || counted {
		return found, err
	}
	clear(found)
	return found, q.bySubjects(ctx, names.Work(), names.WorkPattern(), func(subj string, jobs uint64) {
		if n, err := names.ParseWorkItem(subj); err == nil && !q.Configured(n.Kind, n.Route) {
			found[q.Route(n.Kind, n.Route)] += jobs
		}
	})
}

// backlogOrphans adds the unconfigured routes that have a backlog, without counting it.
func (q *Queue) backlogOrphans(ctx context.Context, found map[*Route]uint64) error {
	names := q.b.Names()
	counted, err := q.byConsumers(ctx, names.Wait(), func(r *Route, _ *jetstream.ConsumerInfo) { found[r] += 0 })
	if err != nil || counted {
		return err
	}
	return q.bySubjects(ctx, names.Wait(), names.WaitPattern(), func(subj string, _ uint64) {
		if n, err := names.ParseWaitItem(subj); err == nil && !q.Configured(n.Kind, n.Route) {
			found[q.Route(n.Kind, n.Route)] += 0
		}
	})
}

// Configured reports whether a route is configured.
func (q *Queue) Configured(kind subject.Kind, name string) bool {
	_, ok := q.cfg.Now().RouteNamed(string(kind), name)
	return ok
}

// jobsOf returns the number of messages that a route's durable consumer has not delivered or whose
// delivery has not been acknowledged.
func jobsOf(c *jetstream.ConsumerInfo) uint64 { return c.NumPending + uint64(max(c.NumAckPending, 0)) }

// countTries is how many times byConsumers tries to count. A count may differ from the stream,
// because jobs come and go in the meantime.
const countTries = 3

const (
	// cheapSubjects is the number of messages up to which it is cheap to list a stream's subjects.
	// In such a stream, the consumers must account for every message.
	cheapSubjects = 20_000
	// lagOf defines the tolerance for a larger stream, in which the consumers may miss one message
	// in a hundred. A consumer learns of a message shortly after it is stored, and listing the
	// subjects every minute would block the stream for seconds. If a route's consumer is gone, the
	// route's jobs are missed as long as they are within this tolerance.
	lagOf = 100
)

// accounted reports whether the consumers' jobs account for the messages in the stream. before and
// after are the numbers of messages before and after the consumers were listed.
func accounted(jobs, before, after uint64) bool {
	if before+after < 2*cheapSubjects {
		return jobs >= max(before, after)
	}
	least := min(before, after)
	return jobs >= least-least/lagOf
}

// byConsumers calls add for each unconfigured route that has jobs in a stream. A route's durable
// consumer outlives the route's configuration and knows its jobs. counted is false if the consumers
// cannot be listed, or if they do not account for all messages because one is missing. Errors are
// temporary.
func (q *Queue) byConsumers(ctx context.Context, stream string, add func(*Route, *jetstream.ConsumerInfo)) (counted bool, err error) {
	for range countTries {
		before, err := q.messages(ctx, stream)
		if err != nil {
			return false, err
		}
		consumers, err := q.b.Consumers(ctx, stream)
		if q.unanswered(ctx, err) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		after, err := q.messages(ctx, stream)
		if err != nil {
			return false, err
		}
		var jobs uint64
		var unconfigured []*jetstream.ConsumerInfo
		for _, c := range consumers {
			kind, name, ok := subject.ParseWorkDurable(c.Config.Durable)
			switch {
			case !ok || jobsOf(c) == 0:
				continue
			case !q.Configured(kind, name):
				unconfigured = append(unconfigured, c)
			}
			jobs += jobsOf(c)
		}
		if !accounted(jobs, before, after) {
			continue
		}
		for _, c := range unconfigured {
			kind, name, _ := subject.ParseWorkDurable(c.Config.Durable)
			add(q.Route(kind, name), c)
		}
		return true, nil
	}
	return false, nil
}

func (q *Queue) messages(ctx context.Context, stream string) (uint64, error) {
	s, err := q.b.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.Msgs, nil
}

// bySubjects calls add for each subject of a stream that matches pattern, with its number of
// messages. The broker needs about a second for 15,000 subjects and blocks writers during that
// time.
func (q *Queue) bySubjects(ctx context.Context, stream, pattern string, add func(subj string, jobs uint64)) error {
	s, err := q.b.Stream(ctx, stream)
	if err != nil {
		return err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(pattern))
	if err != nil {
		return fmt.Errorf("subjects of %s: %w", stream, err)
	}
	for subj, jobs := range info.State.Subjects {
		add(subj, jobs)
	}
	return nil
}

// countBacklog returns the size of the backlog. It creates a temporary consumer, because the
// durable one may be missing. In a cluster, the count may miss the latest jobs.
func (r *Route) countBacklog(ctx context.Context) (uint64, error) {
	return countFrom(ctx, r.b, r.b.Names().WaitRoutePattern(r.kind, r.name), 1)
}

// countFrom counts the backlog items that match pattern and whose sequence is at least seq.
func countFrom(ctx context.Context, b *broker.Broker, pattern string, seq uint64) (uint64, error) {
	names, js := b.Names(), b.JetStream()
	c, err := js.CreateConsumer(ctx, names.Wait(), jetstream.ConsumerConfig{
		FilterSubject: pattern, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq,
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true, MemoryStorage: true, Replicas: 1, InactiveThreshold: orphansWithin,
	})
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", names.Wait(), err)
	}
	_ = js.DeleteConsumer(ctx, names.Wait(), c.CachedInfo().Name) // on failure, InactiveThreshold removes it
	return c.CachedInfo().NumPending, nil
}

// ErrPageToken means that a token did not come from Page.
var ErrPageToken = errors.New("the page token does not belong to this list")

// Page returns up to size items of a route, ready ones first. token is "" for the first page, and
// the next returned with the previous page for any other page. next is "" after the last item.
func (r *Route) Page(ctx context.Context, token string, size int) (items []Item, next string, err error) {
	names := r.b.Names()
	streams := []struct{ word, stream, pattern string }{
		{"ready", names.Work(), names.WorkRoutePattern(r.kind, r.name)},
		{"backlog", names.Wait(), names.WaitRoutePattern(r.kind, r.name)},
	}
	seq := uint64(1)
	if token != "" {
		word, rest, _ := strings.Cut(token, ".")
		if seq, err = strconv.ParseUint(rest, 10, 64); err != nil || word != "ready" && word != "backlog" {
			return nil, "", ErrPageToken
		}
		if word == "backlog" {
			streams = streams[1:]
		}
	}
	for len(streams) > 0 {
		from := streams[0]
		m, err := r.b.Next(ctx, from.stream, from.pattern, seq)
		switch {
		case errors.Is(err, broker.ErrNoMessage):
			streams, seq = streams[1:], 1
			continue
		case err != nil:
			return nil, "", err
		case len(items) == size:
			return items, fmt.Sprintf("%s.%d", from.word, m.Seq), nil
		}
		items, seq = append(items, Item{Stream: from.stream, Stored: m}), m.Seq+1
	}
	return items, "", nil
}
