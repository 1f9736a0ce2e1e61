package jobindex

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// avoidFor is how long a slow replica is asked only after the others. askFor is how long a
	// replica is still asked after its last claim. maxAsked bounds the number of replicas that
	// ready returns.
	avoidFor = 5 * time.Second
	askFor   = time.Minute
	maxAsked = 2
	// hedgeAfter is the wait for an answer before another replica is asked as well.
	// maxAskedPerQuestion bounds the replicas asked per question.
	hedgeAfter          = 300 * time.Millisecond
	maxAskedPerQuestion = 8
	// keeperPatience bounds a search's wait for one replica's answer.
	keeperPatience = 2 * time.Second
)

// peers queries the other replicas that keep the index according to the leases. A nil *peers has no
// other replicas.
type peers struct {
	b      *broker.Broker
	self   string
	logger *slog.Logger
	leases map[string]*fleet.Lease

	mu      sync.Mutex
	had     map[string]time.Time // when each replica last claimed that its index is ready
	avoided map[string]time.Time // until when to avoid each replica
}

func newPeers(o Options, leases map[string]*fleet.Lease) *peers {
	return &peers{b: o.Broker, self: o.Log.Writer(), logger: o.Logger, leases: leases, had: map[string]time.Time{}, avoided: map[string]time.Time{}}
}

// ready returns up to maxAsked other replicas that have claimed within askFor that their index is
// ready. They may be stopping, because a stopping replica answers until it exits. Avoided replicas
// come last, and the most recent claims first.
func (p *peers) ready(now time.Time) (replicas []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keepers {
		if replica, ready, held := p.leases[key].Holder(now); held && ready && replica != p.self {
			p.had[replica] = now
		}
		if replica, ready := p.leases[key].Failing(now); ready {
			p.had[replica] = now
		}
	}
	for replica, at := range p.had {
		if now.Sub(at) > askFor {
			delete(p.had, replica)
			delete(p.avoided, replica)
			continue
		}
		replicas = append(replicas, replica)
	}
	late := func(replica string) time.Time {
		if until := p.avoided[replica]; now.Before(until) {
			return until
		}
		return time.Time{}
	}
	slices.SortFunc(replicas, func(a, b string) int {
		return cmp.Or(late(a).Compare(late(b)), p.had[b].Compare(p.had[a]), cmp.Compare(a, b))
	})
	return replicas[:min(len(replicas), maxAsked)]
}

// avoid makes questions go to other replicas first, for avoidFor.
func (p *peers) avoid(replica string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.avoided[replica] = now.Add(avoidFor)
}

// failed avoids a replica that did not answer. It drops the replica if its last claim is old.
func (p *peers) failed(replica string, now time.Time) {
	p.avoid(replica, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.had[replica]) > time.Second { // no longer claims to keep the index
		delete(p.had, replica)
	}
}

// request asks one replica. If there is no answer, the returned answer's Error is the reason.
func (p *peers) request(ctx context.Context, replica string, data []byte) (a answer) {
	m, err := p.b.Conn().RequestWithContext(ctx, p.b.Names().Index(replica), data)
	if err == nil {
		err = json.Unmarshal(m.Data, &a)
	}
	if err != nil {
		a.Error = err.Error()
	}
	a.replica = replica
	return a
}

// ask asks a replica whose index is ready. If no answer arrives within hedgeAfter, it asks another
// one as well. It returns the first answer. If current is set, it discards answers older than
// q.Upto. ask returns ErrCatchingUp if the index is not ready on any other replica. If there is no
// answer within timeout, it returns the cause of ctx or broker.ErrNoAnswer.
func (p *peers) ask(ctx context.Context, q question, current bool, timeout time.Duration) (answer, error) {
	if p == nil {
		return answer{}, ErrCatchingUp
	}
	if err := p.b.Trouble(); err != nil {
		return answer{}, err
	}
	replicas := p.ready(time.Now())
	if len(replicas) == 0 {
		return answer{}, ErrCatchingUp
	}
	data, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	asking, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answers := make(chan answer, maxAskedPerQuestion)
	hedge := time.NewTicker(hedgeAfter)
	defer hedge.Stop()
	for asked, open := 0, 0; asked < len(replicas) || open > 0; {
		if asked < len(replicas) {
			replica := replicas[asked]
			asked, open = asked+1, open+1
			go func() { answers <- p.request(asking, replica, data) }()
		}
		select {
		case a := <-answers:
			open--
			switch {
			case a.Error == "" && (!current || a.AsOf >= q.Upto):
				return a, nil
			case a.Error != "" && asking.Err() == nil: // a request cut off by the deadline says nothing about the replica
				p.logger.Debug("could not query job index of replica", "replica", a.replica, "error", a.Error)
				p.failed(a.replica, time.Now())
			}
		case <-hedge.C:
			p.avoid(replicas[0], time.Now())
			for _, replica := range p.ready(time.Now()) {
				if !slices.Contains(replicas, replica) && len(replicas) < maxAskedPerQuestion {
					replicas = append(replicas, replica)
				}
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return answer{}, context.Cause(ctx)
	case asking.Err() == nil: // the replicas have stopped or are no longer ready
		return answer{}, ErrCatchingUp
	}
	return answer{}, fmt.Errorf("query the job index of other replicas: %w", broker.ErrNoAnswer)
}

// search asks a replica whose index is ready. It asks the next one only if the first one cannot
// answer. It never asks two at once, because searches are the most expensive questions.
func (p *peers) search(ctx context.Context, s jobtable.Search) (jobtable.Found, error) {
	if p == nil {
		return jobtable.Found{}, ErrCatchingUp
	}
	if err := p.b.Trouble(); err != nil {
		return jobtable.Found{}, err
	}
	data, err := json.Marshal(question{Search: &s})
	if err != nil {
		return jobtable.Found{}, err
	}
	err = ErrCatchingUp
	for _, replica := range p.ready(time.Now()) {
		asking, cancel := context.WithTimeout(ctx, keeperPatience)
		a := p.request(asking, replica, data)
		silent := asking.Err() != nil
		cancel()
		switch {
		case a.Error == "" && a.Found != nil:
			return *a.Found, nil
		case ctx.Err() != nil:
			return jobtable.Found{}, context.Cause(ctx)
		case a.Error == tooMany:
			err = ErrBusy
		case a.Error != notReady:
			err = broker.ErrNoAnswer
		}
		if silent {
			p.failed(replica, time.Now())
		}
	}
	return jobtable.Found{}, err
}

// remove tells all replicas to remove a job.
func (p *peers) remove(g removal) {
	if p == nil {
		return
	}
	data, err := json.Marshal(question{Upto: g.Seq, Remove: &g})
	if err != nil {
		return
	}
	_ = p.b.Conn().Publish(p.b.Names().Index(subject.AnyWriter), data)
}
