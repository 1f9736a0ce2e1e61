package jobindex

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/fleet"
)

const (
	// avoidFor is how long one that is slow is asked after the others, askFor how
	// long one is asked after its last claim, and mostAsked how many are asked one question.
	avoidFor  = 5 * time.Second
	askFor    = time.Minute
	mostAsked = 2
)

// peers are the other replicas that keep the index, as the leases say.
type peers struct {
	b      *broker.Broker
	self   string
	leases map[string]*fleet.Lease

	mu      sync.Mutex
	had     map[string]time.Time // the replicas that claimed last to have the index ready, and when
	avoided map[string]time.Time // until when
}

// ready are the other replicas that have the index ready, those first that have answered, and
// then those that had it and stop: they have it until their end.
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

// avoid has a replica that is slow asked after the others for a while.
func (p *peers) avoid(replica string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.avoided[replica] = now.Add(avoidFor)
}

// failed is avoid for one that has not answered: where it stops, it is asked no more.
func (p *peers) failed(replica string, now time.Time) {
	p.avoid(replica, now)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.had[replica]) > time.Second { // it does not claim to keep it any more
		delete(p.had, replica)
	}
}

// request asks one replica. Without an answer the answer says why.
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
