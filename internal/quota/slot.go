package quota

import (
	"context"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/errcode"
)

const (
	// slotWait is what a tenant without a slot is told to wait. When a job of it ends is
	// not known.
	slotWait = 5 * time.Second
	// countFresh is how long a count is good for the credit that it gives.
	countFresh = time.Second
	// creditShare is the part of a tenant's free slots that one replica may take before it
	// asks again how many there are: the others do not see that before they ask.
	creditShare = 32
	// forgetAfter is how long a tenant is bounded by the last count and by what this replica
	// took since, where nothing can say how many jobs it has. Then it begins with none.
	forgetAfter = time.Minute
	// sweepAbove is how many tenants are kept until those are looked for that need it no more.
	sweepAbove = 1000
)

// slots bounds the unfinished jobs of tenants. Which of them are stored, on all replicas, is
// asked for; this replica adds what it has taken since the question.
type slots struct {
	unfinished func(ctx context.Context, tenant string) (n int, known bool)

	mu      sync.Mutex
	tenants map[string]*tenantSlots
	swept   time.Time // when they were looked through last
}

// tenantSlots are those of one tenant.
type tenantSlots struct {
	held    int       // taken and not released
	count   int       // unfinished jobs, by the last answer
	asked   time.Time // when that was asked for; zero: never
	known   bool      // whether that was answered
	from    time.Time // when the count was asked for; where no answer came, when it was begun
	before  int       // held when it was asked for: the count may have them, or not
	since   int       // taken since then, and perhaps released
	pending *question // in flight; nil for none
}

// question is one in flight, for all who wait for it.
type question struct {
	asked         time.Time
	before, since int
	done          chan struct{}
}

// Acquire takes a slot for a job that is being accepted, or for a chat that runs
// on its caller's connection, until release is called: not before a job's first event is
// stored. A tenant that has as many unfinished jobs and taken slots as it may have is refused
// with tenant_full. A job counts twice from the question in whose answer it is until it is
// released, so that of many at once the last may be refused early, but never one too many is
// taken on one replica.
//
// Where nothing can say how many jobs there are, the last count holds for a minute, with what
// this replica takes meanwhile, and then each minute begins with none.
func (q *Quota) Acquire(ctx context.Context, tenant string) (release func(), err error) {
	most := q.o.Limits(tenant).MaxJobs
	if most == 0 {
		return func() {}, nil
	}
	return q.slots.acquire(ctx, tenant, most)
}

func (s *slots) acquire(ctx context.Context, tenant string, most int) (release func(), err error) {
	came := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		t := s.of(tenant)
		switch t.judge(came, most) {
		case granted:
			t.take()
			return func() { s.release(tenant) }, nil
		case refused:
			return nil, errcode.New(errcode.TenantFull, "the tenant has %d unfinished jobs of at most %d; nothing was accepted", t.has(), most).WithRetryAfter(slotWait)
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

// ask asks how many jobs a tenant has. s.mu is held, and not while the answer is waited for.
func (s *slots) ask(ctx context.Context, tenant string, t *tenantSlots) {
	p := &question{asked: time.Now(), before: t.held, done: make(chan struct{})}
	t.pending = p
	s.mu.Unlock()
	// The answer is for all who wait for it, and does not end with the one that asks.
	n, known := s.unfinished(context.WithoutCancel(ctx), tenant)
	s.mu.Lock()
	t.pending = nil
	t.answer(p, n, known)
	close(p.done)
}

// of needs the lock.
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

// sweep drops the tenants that have no slots, where the next question is answered with all
// that counts, or nothing can be said that is not a minute old: every publisher can make up
// tenants. It needs the lock.
func (s *slots) sweep(now time.Time) {
	s.swept = now
	for name, t := range s.tenants {
		if t.idle() && (t.known && now.Sub(t.asked) > countFresh || now.Sub(t.from) > forgetAfter) {
			delete(s.tenants, name)
		}
	}
}

func (t *tenantSlots) idle() bool { return t.held == 0 && t.pending == nil }

// has is what counts against the limit.
func (t *tenantSlots) has() int { return t.count + t.before + t.since }

type verdict int

const (
	unknown verdict = iota
	granted
	refused
)

// judge says whether one who came then gets a slot. A count that was asked for after that is
// good for all free slots, and an older one for a small part of them.
func (t *tenantSlots) judge(came time.Time, most int) verdict {
	free := most - t.count - t.before
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

// answer takes the answer to a question. One that is not known lets the last count hold, as
// long as it is not too old.
func (t *tenantSlots) answer(p *question, n int, known bool) {
	if !known {
		n = 0
	}
	if known || p.asked.Sub(t.from) > forgetAfter {
		t.count, t.before, t.since, t.from = n, p.before, p.since, p.asked
	}
	t.asked, t.known = p.asked, known
}
