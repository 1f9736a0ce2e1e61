// Package pool decides which upstream, and which key of it, a job goes to, and
// lets chats fail over from one to the next. What it knows of them (limits,
// waits, refused keys, circuit breakers) holds for this process and is lost with
// it. It keeps no secrets, and retries and queues nothing.
package pool

import (
	"log/slog"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
)

// UpstreamKey is one key of one upstream, by their names in the configuration.
type UpstreamKey struct {
	Upstream string
	// Key is the key's name, never the key itself; empty for an only key.
	Key string
}

// String gives "upstream", or "upstream/key".
func (a UpstreamKey) String() string {
	if a.Key == "" {
		return a.Upstream
	}
	return a.Upstream + "/" + a.Key
}

// Job is whose call a report is about.
type Job struct{ ID, Tenant string }

// Options are what a pool reports to.
type Options struct {
	Metrics *telemetry.Metrics
	// Logger hears of breakers and keys that change, and of chats that fail over.
	// Default: discards.
	Logger *slog.Logger
	// Retry bounds the retries of all upstreams together. Default: no bound.
	Retry config.Retry
}

// Pool knows the state of every key. All routes share one, because they
// share the keys. It is safe for concurrent use.
type Pool struct {
	logger  *slog.Logger
	metrics *telemetry.Metrics
	retry   config.Retry // that of the budget

	mu         sync.Mutex // guards all services and keys, every slot, and the budget
	services   map[string]*service
	budget     *budget
	generation int // of the configuration; each has the number after the one before it
	waiters    uint64

	notifications chan peerNotification // to other replicas
}

// New makes a pool of the configured upstreams, all of them in good health.
func New(upstreams config.Upstreams, o Options) *Pool {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{logger: o.Logger, metrics: o.Metrics, services: make(map[string]*service, len(upstreams)), notifications: make(chan peerNotification, maxNotifications)}
	p.Reload(upstreams, o.Retry)
	return p
}

// Resume counts a task that already uses a key, such as one that another
// replica submitted. It never refuses, so a limit may be exceeded for as long
// as the task lives. A key that the configuration no longer has is legal;
// nothing is counted then.
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

// TryRetryBudget takes what a job costs that is sent again with the key of its last
// submission. It is false when there have been too many retries, with the time to
// ask again.
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

// refresh sets the gauge of keys that are out. It runs when one comes back.
func (p *Pool) refresh(s *service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.countOut(time.Now())
}

// latest gives the last of some moments.
func latest(moments ...time.Time) time.Time {
	var last time.Time
	for _, t := range moments {
		if t.After(last) {
			last = t
		}
	}
	return last
}
