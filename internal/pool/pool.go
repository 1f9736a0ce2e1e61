// Package pool decides which upstream key serves a job, and fails chats over from one key to the
// next. The state of keys and upstreams (limits, pauses, refusals, circuit breakers) is local to
// the process and not persistent. Only the breakers for creates exchange their state with other
// replicas. The pool holds no secrets.
package pool

import (
	"log/slog"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
)

// UpstreamKey names one key of one upstream, as in the configuration.
type UpstreamKey struct {
	Upstream string
	// Key is the key's name, not its secret. It is empty for an upstream's only key.
	Key string
}

// String returns "upstream" or "upstream/key".
func (a UpstreamKey) String() string {
	if a.Key == "" {
		return a.Upstream
	}
	return a.Upstream + "/" + a.Key
}

// Job identifies the job in a report.
type Job struct{ ID, Tenant string }

// Options configures New.
type Options struct {
	Metrics *telemetry.Metrics
	// Logger logs state changes of breakers and keys, and failovers of chats. Default: discard.
	Logger *slog.Logger
	// Retry limits the retries across all upstreams. Default: no limit.
	Retry config.Retry
}

// Pool tracks the state of every upstream key. All routes share one Pool, because they share the
// keys. It is safe for concurrent use.
type Pool struct {
	logger  *slog.Logger
	metrics *telemetry.Metrics
	retry   config.Retry // configuration of budget

	mu         sync.Mutex // guards services, keys, slots and the budget
	services   map[string]*service
	budget     *budget
	generation int // number of the configuration; Reload increments it
	waiters    uint64

	notifications chan peerNotification // to other replicas
}

// New returns a pool of the configured upstreams, all considered healthy.
func New(upstreams config.Upstreams, o Options) *Pool {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{logger: o.Logger, metrics: o.Metrics, services: make(map[string]*service, len(upstreams)), notifications: make(chan peerNotification, maxNotifications)}
	p.Reload(upstreams, o.Retry)
	return p
}

// Resume counts a task that already uses a key, for example one submitted by another replica. It
// never refuses, so limits may be exceeded. A key that is no longer configured is not counted.
func (p *Pool) Resume(a UpstreamKey) *Slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &Slot{pool: p, id: a, service: p.services[a.Upstream]}
	if l.service != nil {
		l.key = l.service.key(a.Key)
	}
	l.count(1)
	return l
}

// TryRetryBudget charges the budget for a retry with the key of the last submission. If the budget
// is used up, it returns false and the time to ask again.
func (p *Pool) TryRetryBudget() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	next, ok := p.budget.retry(now)
	if ok {
		p.budget.spend(now)
	}
	p.metrics.Retry(ok)
	return next, ok
}

// refresh updates the gauge of unusable keys. It runs when a key becomes usable again.
func (p *Pool) refresh(s *service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.countOut(time.Now())
}

func latest(moments ...time.Time) time.Time {
	var last time.Time
	for _, t := range moments {
		if t.After(last) {
			last = t
		}
	}
	return last
}
