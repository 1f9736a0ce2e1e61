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
	// avoidFor is how long a slow replica is asked after the others. askFor is how long a replica
	// is asked after its last claim. mostAsked bounds the replicas that a question starts with.
	avoidFor  = 5 * time.Second
	askFor    = time.Minute
	mostAsked = 2
	// hedgeAfter is the wait before another replica is asked too. mostAskedAtAll bounds the
	// replicas asked per question.
	hedgeAfter     = 300 * time.Millisecond
	mostAskedAtAll = 8
	// keeperPatience bounds the wait of a search for one replica's answer.
	keeperPatience = 2 * time.Second
)

// peers asks the other replicas that keep the index, according to the leases. A nil *peers knows
// none.
type peers struct {
	b      *broker.Broker
	self   string
	logger *slog.Logger
	leases map[string]*fleet.Lease

	mu      sync.Mutex
	had     map[string]time.Time // when each replica last claimed to have the index ready
	avoided map[string]time.Time // end of each replica's avoidance
}

func newPeers(o Options, leases map[string]*fleet.Lease) *peers {
	return &peers{b: o.Broker, self: o.Log.Writer(), logger: o.Logger, leases: leases, had: map[string]time.Time{}, avoided: map[string]time.Time{}}
}

// ready returns up to mostAsked other replicas that have the index ready, or had it and are
// stopping: those keep it until they end. Avoided replicas come last, and recent claims first.
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
	return replicas[:min(len(replicas), mostAsked)]
}

// avoid makes questions go to other replicas before a slow one, for avoidFor.
func (p *peers) avoid(replica string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.avoided[replica] = now.Add(avoidFor)
}

// failed avoids a replica that did not answer, and drops it if it no longer claims the index.
func (p *peers) failed(replica string, now time.Time) {
	p.avoid(replica, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.had[replica]) > time.Second { // no longer claims to keep the index
		delete(p.had, replica)
	}
}

// request asks one replica. If no answer arrives, Error of the returned answer says why.
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

// ask asks a replica that has the index ready, and after hedgeAfter another one too. The first
// answer counts. If current is set, answers older than q.Upto are discarded. Without an answer
// within most, it returns ErrCatchingUp if no replica has the index ready, the cause of ctx, or
// broker.ErrNoAnswer.
func (p *peers) ask(ctx context.Context, q question, current bool, most time.Duration) (answer, error) {
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
	asking, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	answers := make(chan answer, mostAskedAtAll)
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
				if !slices.Contains(replicas, replica) && len(replicas) < mostAskedAtAll {
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

// search asks one replica that has the index ready, and the next one only if it does not answer. It
// never asks two at once, because searches are the most expensive questions.
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

// tell tells all replicas about a removed job.
func (p *peers) tell(g gone) {
	if p == nil {
		return
	}
	data, err := json.Marshal(question{Upto: g.Seq, Gone: &g})
	if err != nil {
		return
	}
	_ = p.b.Conn().Publish(p.b.Names().Index(subject.AnyWriter), data)
}
