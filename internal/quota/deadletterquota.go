package quota

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// DeadLettersEvery is how long a count of dead letters is valid. deadLettersFar is how long it
	// is valid for a tenant below half of its limit.
	DeadLettersEvery = 2 * time.Second
	deadLettersFar   = 30 * time.Second
	// deadLettersRetry is the Retry-After of a refusal. An operator must act before a retry can
	// succeed.
	deadLettersRetry = time.Minute
	// largestDeadLetter is the size in bytes of a dead letter with the largest inlined body, its
	// work item and its error.
	largestDeadLetter = publisher.ClaimCheck + 16<<10
	// manyCounts is the number of tenants above which counts of idle tenants are removed.
	manyCounts = 10_000
)

// ErrTenantBound reports that a tenant's stored dead letters alone reach its limit. The count is at
// most DeadLettersEvery old.
var ErrTenantBound = errors.New("the tenant's stored dead letters reach its limit")

// errUncounted reports that JetStream did not count the dead letters in time.
var errUncounted = errors.New("the dead letters were not counted in time")

// DeadLetterQuota decides whether there is capacity for the dead letter of another submission,
// which may be charged. If a tenant exceeds limits.tenant.max_dead_letters, only its own
// submissions stop. If GENBUS_DEAD is filled beyond a certain share, all submissions stop. The
// rest, at most half of the stream, is reserved for two dead letters of the largest size for each
// video in flight.
//
// A count combines the state of the stream and this replica's submissions since then. The state is
// at most 2 s old, or 30 s for a tenant below half of its limit. Because of submissions by other
// replicas, a tenant may exceed its limit by at most their videos in flight. The rest of the stream
// has capacity for those.
type DeadLetterQuota struct {
	cfg *config.Live
	// read returns the size of GENBUS_DEAD and the number of a tenant's dead letters, or of all
	// dead letters if tenant is empty. It is called without mu.
	read func(ctx context.Context, tenant string) (deadletter.Size, error)

	mu      sync.Mutex
	all     deadLetterCount
	tenants map[string]*deadLetterCount
}

// deadLetterCount counts the dead letters of one tenant or of all tenants.
type deadLetterCount struct {
	size    deadletter.Size
	at      time.Time     // when size was read; zero means never
	tried   time.Time     // when the last read ended, even if it failed
	err     error         // error of that read
	reading chan struct{} // closed when the running read ends; nil if there is none
	// open counts this replica's submissions that may still leave a dead letter. ended counts the
	// submissions that have ended since size was read.
	open, ended uint64
}

func (c *deadLetterCount) sum() uint64 { return c.size.Count + c.open + c.ended }

// NewDeadLetterQuota returns a quota without counts.
func NewDeadLetterQuota(cfg *config.Live, b *broker.Broker) *DeadLetterQuota {
	return &DeadLetterQuota{cfg: cfg, read: deadletter.Streams{Broker: b}.Count, tenants: map[string]*deadLetterCount{}}
}

// Reserve reserves capacity for a dead letter of a tenant's submission until release is called. It
// returns the same errors as Check. Before it returns ErrTenantBound, it reads the count again,
// because dead letters may have been resolved since the last read.
func (l *DeadLetterQuota) Reserve(ctx context.Context, tenant string) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err = l.check(ctx, tenant, false); errors.Is(err, ErrTenantBound) {
		err = l.check(ctx, tenant, true)
	}
	if err != nil {
		return nil, err
	}
	own := l.of(tenant)
	l.all.open++
	own.open++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range []*deadLetterCount{&l.all, own} {
			c.open--
			c.ended++
		}
		if own.open == 0 && own.tried.IsZero() && own.reading == nil {
			delete(l.tenants, tenant)
		}
	}, nil
}

// of returns the count of a tenant, or of all tenants if tenant is empty. The caller holds mu.
func (l *DeadLetterQuota) of(tenant string) *deadLetterCount {
	if tenant == "" {
		return &l.all
	}
	c := l.tenants[tenant]
	if c == nil {
		c = &deadLetterCount{}
		l.tenants[tenant] = c
	}
	return c
}

// Check refuses a tenant's submission if there is no capacity for its dead letter. The error is an
// *errcode.Error, with the code dead_letters_full if an operator must resolve dead letters first.
// It also wraps ErrTenantBound if the tenant's stored dead letters alone reach its limit.
func (l *DeadLetterQuota) Check(ctx context.Context, tenant string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check(ctx, tenant, false)
}

// check is like Check, but the caller holds mu. recount forces a new count of the tenant's dead
// letters. check releases mu while it waits, but not after its decision.
func (l *DeadLetterQuota) check(ctx context.Context, tenant string, recount bool) error {
	limit := uint64(l.cfg.Now().LimitsOf(tenant).MaxDeadLetters)
	all, err := l.count(ctx, "", limit, false)
	if err != nil {
		return errcode.NotAccepted(broker.Reason(err), err)
	}
	if maxBytes := l.Limit(all.size.MaxBytes); all.size.Bytes >= maxBytes {
		return errcode.New(errcode.DeadLettersFull, "the dead-letter stream has used %d bytes, and genbus submits nothing new from %d on; "+
			"an operator must resolve dead letters (operator dead list) or raise nats.streams.dead.max_bytes", all.size.Bytes, maxBytes).WithRetryAfter(deadLettersRetry)
	}
	if limit == 0 || all.sum() < limit {
		return nil
	}
	own, err := l.count(ctx, tenant, limit, recount)
	if err != nil {
		return errcode.NotAccepted(broker.Reason(err), err)
	}
	if own.sum() < limit {
		return nil
	}
	full := errcode.New(errcode.DeadLettersFull, "the tenant has %d of at most %d dead letters (max_dead_letters), so genbus submits none of its videos; "+
		"an operator must resolve them (operator dead list --tenant %s)", own.sum(), limit, tenant).WithRetryAfter(deadLettersRetry)
	if own.size.Count >= limit && own.err == nil && time.Since(own.at) <= DeadLettersEvery {
		full.Err = ErrTenantBound
	}
	return full
}

// count returns the count of a tenant or of all tenants, and reads it again if it is too old.
// Callers share one read, but each stops waiting when its own ctx ends. While JetStream does not
// answer, the last result applies. The caller holds mu, which is released while waiting.
func (l *DeadLetterQuota) count(ctx context.Context, tenant string, limit uint64, recount bool) (*deadLetterCount, error) {
	c, every := l.of(tenant), DeadLettersEvery
	switch {
	case recount:
		every = 0
	case tenant != "":
		every = c.every(limit)
	}
	if !c.recent(every) {
		if c.reading == nil {
			c.reading = make(chan struct{})
			go l.refresh(context.WithoutCancel(ctx), tenant, c, c.ended)
		}
		read := c.reading
		l.mu.Unlock()
		select {
		case <-read:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	if c.at.IsZero() {
		return nil, cmp.Or(c.err, errUncounted)
	}
	return c, nil
}

// refresh reads a count again. The new size includes the submissions counted by ended.
func (l *DeadLetterQuota) refresh(ctx context.Context, tenant string, c *deadLetterCount, ended uint64) {
	ctx, cancel := context.WithTimeoutCause(ctx, broker.ReadTimeout, errUncounted)
	defer cancel()
	size, err := l.read(ctx, tenant)
	l.mu.Lock()
	defer l.mu.Unlock()
	close(c.reading)
	c.reading, c.tried, c.err = nil, time.Now(), err
	if err == nil {
		c.at, c.size = c.tried, size
		c.ended -= ended
	}
	l.removeIdle()
}

// recent reports whether a count can still be used. every is how long it is valid.
func (c *deadLetterCount) recent(every time.Duration) bool {
	if c.err != nil && time.Since(c.tried) < DeadLettersEvery {
		return true // the last read failed recently
	}
	return !c.at.IsZero() && time.Since(c.at) < every
}

// every returns how long a tenant's count is valid. limit is the tenant's limit.
func (c *deadLetterCount) every(limit uint64) time.Duration {
	switch {
	case c.ended > 0 && c.sum() >= limit:
		return 0 // read again, because most ended submissions left no dead letter
	case c.sum() < limit/2:
		return deadLettersFar
	}
	return DeadLettersEvery
}

// removeIdle removes the counts of tenants without recent submissions. The caller holds mu.
func (l *DeadLetterQuota) removeIdle() {
	if len(l.tenants) < manyCounts {
		return
	}
	for tenant, c := range l.tenants {
		if c.open == 0 && c.reading == nil && time.Since(c.tried) > deadLettersFar {
			delete(l.tenants, tenant)
		}
	}
}

// Limit returns the size of GENBUS_DEAD, in bytes, at which submissions of videos stop.
func (l *DeadLetterQuota) Limit(maxBytes int64) uint64 {
	var inWork int64
	for _, r := range l.cfg.Now().Routes {
		if subject.Kind(r.Kind) == subject.Video {
			inWork += int64(r.MaxInFlight)
		}
	}
	return uint64(maxBytes - min(2*inWork*largestDeadLetter, maxBytes/2))
}
