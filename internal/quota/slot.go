package quota

import (
	"context"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/errcode"
)

const (
	// slotWait is the Retry-After if no slot is free. It is unknown when a job of the tenant will
	// end.
	slotWait = 5 * time.Second
	// countFresh is how long a count allows taking slots on credit.
	countFresh = time.Second
	// creditShare is the divisor for the share of a tenant's free slots that one replica may take
	// before it counts again. The other replicas do not see these slots until they count.
	creditShare = 32
	// expireAfter is how long the last count, plus the slots taken since, applies to a tenant whose
	// jobs cannot be counted. After that, counting starts at zero.
	expireAfter = time.Minute
	// sweepAbove is the number of tenants above which idle ones are removed.
	sweepAbove = 1000
)

// slots bounds the unfinished jobs of tenants. It asks for the number of stored jobs on all
// replicas and adds the slots taken since then.
type slots struct {
	unfinished func(ctx context.Context, tenant string) (n int, known bool)

	mu      sync.Mutex
	tenants map[string]*tenantSlots
	swept   time.Time // last sweep
}

// tenantSlots holds the slots of one tenant.
type tenantSlots struct {
	held    int       // taken and not released
	count   int       // unfinished jobs in the last answer
	asked   time.Time // when that was asked; zero means never
	known   bool      // whether it was answered
	from    time.Time // when the count was asked for or, without an answer, reset
	before  int       // held when it was asked; the count may include these slots
	since   int       // taken since then, including released slots
	pending *question // in flight, or nil
}

// question is a question in flight, shared by all callers that wait for it.
type question struct {
	asked         time.Time
	before, since int
	done          chan struct{}
}

// Acquire takes a slot for a job that is being accepted or for an inline chat. The slot stays taken
// until release is called. Release a job's slot only after the job's first event is stored. If the
// tenant's unfinished jobs and taken slots reach its limit, the error is tenant_full. A job counts
// twice from the first count that includes it until its slot is released. The last of many
// concurrent calls may therefore be refused early, but one replica never exceeds the limit.
//
// If jobs cannot be counted, the last count plus the slots taken since applies for a minute. After
// that, counting starts at zero each minute.
func (q *Quota) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	limit := q.o.Limits(tenant).MaxJobs
	if limit == 0 {
		return func() {}, nil
	}
	return q.slots.acquire(ctx, tenant, limit)
}

func (s *slots) acquire(ctx context.Context, tenant string, limit int) (release func(), err error) {
	came := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		t := s.of(tenant)
		switch t.judge(came, limit) {
		case granted:
			t.take()
			return func() { s.release(tenant) }, nil
		case refused:
			return nil, errcode.New(errcode.TenantFull, "the tenant has %d unfinished jobs of at most %d; nothing was accepted", t.has(), limit).WithRetryAfter(slotWait)
		case unknown:
		}
		if t.pending == nil {
			s.ask(ctx, tenant, t)
			continue
		}
		answered := t.pending.done
		s.mu.Unlock()
		select {
		case <-answered:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// ask counts a tenant's jobs. The caller holds s.mu, which is released while waiting.
func (s *slots) ask(ctx context.Context, tenant string, t *tenantSlots) {
	p := &question{asked: time.Now(), before: t.held, done: make(chan struct{})}
	t.pending = p
	s.mu.Unlock()
	// Other callers share the answer, so asking must not end with this caller's context.
	n, known := s.unfinished(context.WithoutCancel(ctx), tenant)
	s.mu.Lock()
	t.pending = nil
	t.answer(p, n, known)
	close(p.done)
}

// of returns the slots of a tenant. The caller holds mu.
func (s *slots) of(tenant string) *tenantSlots {
	t := s.tenants[tenant]
	if t == nil {
		if now := time.Now(); len(s.tenants) >= sweepAbove && now.Sub(s.swept) > countFresh {
			s.sweep(now)
		}
		t = &tenantSlots{}
		s.tenants[tenant] = t
	}
	return t
}

func (s *slots) release(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tenants[tenant].held--
}

// sweep removes tenants that hold no slots and whose last count no longer matters. Either the next
// call would count again, or the count is more than a minute old. Without sweep, publishers could
// fill the memory by inventing tenants. The caller holds mu.
func (s *slots) sweep(now time.Time) {
	s.swept = now
	for name, t := range s.tenants {
		if t.idle() && (t.known && now.Sub(t.asked) > countFresh || now.Sub(t.from) > expireAfter) {
			delete(s.tenants, name)
		}
	}
}

func (t *tenantSlots) idle() bool { return t.held == 0 && t.pending == nil }

// has returns the number that counts against the limit.
func (t *tenantSlots) has() int { return t.count + t.before + t.since }

type verdict int

const (
	unknown verdict = iota
	granted
	refused
)

// judge decides whether a caller that arrived at came gets a slot. A count that was asked for since
// then allows taking all free slots. An older one allows only a small share.
func (t *tenantSlots) judge(came time.Time, limit int) verdict {
	free := limit - t.count - t.before
	switch {
	case !t.asked.IsZero() && !t.asked.Before(came):
		if t.since < free {
			return granted
		}
		return refused
	case came.Sub(t.asked) <= countFresh && t.since < free/creditShare:
		return granted
	}
	return unknown
}

func (t *tenantSlots) take() {
	t.held++
	t.since++
	if t.pending != nil {
		t.pending.since++
	}
}

// answer stores an answer. If the count is unknown, the last one still applies unless it is too
// old.
func (t *tenantSlots) answer(p *question, n int, known bool) {
	if !known {
		n = 0
	}
	if known || p.asked.Sub(t.from) > expireAfter {
		t.count, t.before, t.since, t.from = n, p.before, p.since, p.asked
	}
	t.asked, t.known = p.asked, known
}
