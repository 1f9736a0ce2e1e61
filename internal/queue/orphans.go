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

// OrphanedRoute is a route that has jobs and is not configured.
type OrphanedRoute struct {
	Kind    subject.Kind
	Name    string
	Ready   uint64 // jobs in GENBUS_WORK, those that a replica holds included
	Waiting uint64 // jobs in the backlog
	Oldest  time.Time
}

// orphansWithin bounds one look for orphaned routes.
const orphansWithin = time.Minute

// Orphans returns the routes that have jobs and are not configured, by kind and name.
func (q *Queue) Orphans(ctx context.Context) ([]OrphanedRoute, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, orphansWithin, fmt.Errorf("listing jobs of unconfigured routes took longer than %s", orphansWithin))
	defer cancel()
	found, err := q.readyOrphans(ctx)
	if err != nil {
		return nil, err
	}
	if err := q.waitingOrphans(ctx, found); err != nil {
		return nil, err
	}
	var out []OrphanedRoute
	for r, ready := range found {
		o := OrphanedRoute{Kind: r.kind, Name: r.name, Ready: ready}
		if o.Waiting, err = r.countBacklog(ctx); err != nil {
			return nil, err
		}
		if o.Ready+o.Waiting == 0 {
			continue
		}
		if o.Oldest, err = r.acceptedFrom(ctx, 1, true); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b OrphanedRoute) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return out, nil
}

// readyOrphans counts the jobs in GENBUS_WORK of routes that are not configured.
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

// waitingOrphans adds the routes that have a backlog.
func (q *Queue) waitingOrphans(ctx context.Context, found map[*Route]uint64) error {
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

// jobsOf are those that a route's durable consumer has: each message of the stream that it
// has not delivered, or that was not acknowledged.
func jobsOf(c *jetstream.ConsumerInfo) uint64 { return c.NumPending + uint64(max(c.NumAckPending, 0)) }

// countTries is how often the consumers of a stream are counted until they account for all of
// its messages: jobs come and go meanwhile.
const countTries = 3

const (
	// cheapSubjects is up to how many messages their subjects are listed where the consumers do
	// not account for exactly all of them.
	cheapSubjects = 20_000
	// lagOf is the part of a larger stream, a hundredth, for which the consumers need not account:
	// one learns of a message a moment after it is stored, and the list of subjects would hold up
	// the stream for seconds each minute. That many jobs of a route whose consumer is gone may be
	// missed until the stream is smaller.
	lagOf = 100
)

// accounted reports whether the consumers of a stream have the jobs that it had before and after
// they were listed.
func accounted(jobs, before, after uint64) bool {
	if before+after < 2*cheapSubjects {
		return jobs >= max(before, after)
	}
	least := min(before, after)
	return jobs >= least-least/lagOf
}

// byConsumers tells add of the routes that have jobs in a stream and are not configured. Each
// route has a durable consumer, which outlives it and says how many jobs it has. counted is
// false where these do not account for the messages (accounted), as the consumer of a route is
// gone, or where they may not be listed. After another error, which passes, the caller looks again later.
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
		var gone []*jetstream.ConsumerInfo
		for _, c := range consumers {
			kind, name, ok := subject.ParseWorkDurable(c.Config.Durable)
			switch {
			case !ok || jobsOf(c) == 0:
				continue
			case !q.Configured(kind, name):
				gone = append(gone, c)
			}
			jobs += jobsOf(c)
		}
		if !accounted(jobs, before, after) {
			continue
		}
		for _, c := range gone {
			kind, name, _ := subject.ParseWorkDurable(c.Config.Durable)
			add(q.Route(kind, name), c)
		}
		return true, nil
	}
	return false, nil
}

// messages is how many a stream has.
func (q *Queue) messages(ctx context.Context, stream string) (uint64, error) {
	s, err := q.b.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	return s.CachedInfo().State.Msgs, nil
}

// bySubjects tells add of each subject of a stream, and of its messages. It takes the broker
// a second for each 15,000 of them or so, and holds up its writers.
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

// countBacklog is the size of the backlog of a route that may have no durable consumer:
// what the broker says to one that reads nothing. On three nodes that consumer may be on one
// that has not stored the latest jobs yet, and the next count has them.
func (r *Route) countBacklog(ctx context.Context) (uint64, error) {
	return countFrom(ctx, r.b, r.b.Names().WaitRoutePattern(r.kind, r.name), 1)
}

// countFrom counts the items of the backlog on a pattern that have a sequence or a later one.
func countFrom(ctx context.Context, b *broker.Broker, pattern string, seq uint64) (uint64, error) {
	names, js := b.Names(), b.JetStream()
	c, err := js.CreateConsumer(ctx, names.Wait(), jetstream.ConsumerConfig{
		FilterSubject: pattern, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq,
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true, MemoryStorage: true, Replicas: 1, InactiveThreshold: orphansWithin,
	})
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", names.Wait(), err)
	}
	_ = js.DeleteConsumer(ctx, names.Wait(), c.CachedInfo().Name) // one that stays is forgotten by the server
	return c.CachedInfo().NumPending, nil
}

// ErrPageToken says that a token is not one that Page returned.
var ErrPageToken = errors.New("the page token does not belong to this list")

// Page returns up to size items of a route, first the ready ones, from where token says:
// "" for the first page, or what the page before returned as next. next is "" after the
// last item.
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
