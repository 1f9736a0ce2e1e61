package pool

import (
	"slices"
	"time"

	"github.com/genbus/genbus/internal/config"
)

// Reload applies the upstreams, keys and limits of a new configuration. Keys that remain keep their
// pause, cooldown and slots. Slots of removed keys remain valid but are no longer counted. Renewed
// keys have new secrets, so they are tried at once, and reports by clients of earlier
// configurations do not affect them. A breaker whose configuration changed starts closed.
func (p *Pool) Reload(upstreams config.Upstreams, retry config.Retry, renewed ...UpstreamKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation++
	if p.retry != retry {
		p.retry, p.budget = retry, newBudget(retry)
	}
	for name, u := range upstreams {
		if s := p.services[name]; s != nil {
			s.reload(u, p.generation, renewed)
			continue
		}
		p.services[name] = newService(name, u, p.generation, Options{Metrics: p.metrics, Logger: p.logger}, p.announce)
	}
}

func (s *service) reload(u config.Upstream, generation int, renewed []UpstreamKey) {
	s.usage = usageUnknown // the upstream may be another one now
	if s.breaks != u.Breaker {
		s.breaker, s.breaks = newBreaker(s, u.Breaker), u.Breaker
		s.creates.apply(peerNotification{})
		s.showBreaker()
	}
	var keys []*key
	for i, c := range u.Credentials() {
		k := s.key(c.Name)
		if k == nil {
			k = newKey(s, i, c.Name, u, generation)
		}
		k.index = i
		k.limit(u)
		k.grant()
		if slices.Contains(renewed, k.id) {
			k.renew(generation)
		}
		keys = append(keys, k)
	}
	before := s.keys
	s.keys = keys
	added := slices.ContainsFunc(keys, func(k *key) bool { return !slices.Contains(before, k) })
	for _, k := range before {
		if added || !slices.Contains(keys, k) {
			k.dismiss()
		}
	}
	s.countOut(time.Now())
}

// renew resets the key's pause and cooldown. From then on, reports by clients of earlier
// generations are ignored.
func (k *key) renew(generation int) {
	k.since = generation
	k.coolingUntil, k.waitUntil, k.why, k.waits = time.Time{}, time.Time{}, nil, 0
}
