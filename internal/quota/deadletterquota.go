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
	// LettersEvery is how long a count of dead letters is used, and lettersFar how long for a
	// tenant below half of its limit.
	LettersEvery = 2 * time.Second
	lettersFar   = 30 * time.Second
	// lettersRetry is the Retry-After of a refusal: an operator has to act first.
	lettersRetry = time.Minute
	// largestLetter is the size in bytes of a dead letter with the largest inlined body, its work
	// item and its error.
	largestLetter = publisher.ClaimCheck + 16<<10
	// manyCounts bounds the tenants whose counts are kept.
	manyCounts = 10_000
)

// ErrTenantBound reports that a tenant's stored dead letters alone reach its limit, as counted
// within the last LettersEvery.
var ErrTenantBound = errors.New("the tenant's stored dead letters reach its limit")

// errUncounted reports that JetStream did not count the dead letters in time.
var errUncounted = errors.New("the dead letters were not counted in time")

// DeadLetterQuota decides whether there is capacity for the dead letter of another submission,
// which may be charged. A tenant above limits.tenant.max_dead_letters stops only its own
// submissions. Above a share of GENBUS_DEAD all submissions stop: the rest, at most half of the
// stream, is kept for two dead letters of the largest size for each video in flight.
//
// Counts combine the stream, up to 2 s old, and this replica's submissions since. Submissions of
// other replicas may exceed a tenant's limit by at most their videos in flight, for which the rest
// of the stream has capacity.
type DeadLetterQuota struct {
	cfg *config.Live
	// read reads the size of GENBUS_DEAD, and the count of a tenant's dead letters or of all. It is
	// called without mu.
	read func(ctx context.Context, tenant string) (deadletter.Size, error)

	mu      sync.Mutex
	all     letterCount
	tenants map[string]*letterCount
}

// letterCount counts the dead letters of a tenant, or of all.
type letterCount struct {
	size    deadletter.Size
	at      time.Time     // when size was read; zero: never
	tried   time.Time     // the last read, which may have failed
	err     error         // error of that read
	reading chan struct{} // closed when the running read ends; nil without one
	// open counts this replica's submissions that may still leave a dead letter, ended the
	// submissions that ended since size was read.
	open, ended uint64
}

func (c *letterCount) sum() uint64 { return c.size.Letters + c.open + c.ended }

// NewDeadLetterQuota returns a quota without counts.
func NewDeadLetterQuota(cfg *config.Live, b *broker.Broker) *DeadLetterQuota {
	return &DeadLetterQuota{cfg: cfg, read: deadletter.Streams{Broker: b}.Count, tenants: map[string]*letterCount{}}
}

// Reserve makes sure that a submission of a tenant's video may leave a dead letter, until release
// is called. Errors are as for Check. It reads the count again before it returns ErrTenantBound,
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
		for _, c := range []*letterCount{&l.all, own} {
			c.open--
			c.ended++
		}
		if own.open == 0 && own.tried.IsZero() && own.reading == nil {
			delete(l.tenants, tenant)
		}
	}, nil
}

// of returns the count of a tenant, or of all if tenant is empty. The caller holds mu.
func (l *DeadLetterQuota) of(tenant string) *letterCount {
	if tenant == "" {
		return &l.all
	}
	c := l.tenants[tenant]
	if c == nil {
		c = &letterCount{}
		l.tenants[tenant] = c
	}
	return c
}

// Check refuses a tenant's submission without capacity for its dead letter. The error is an
// *errcode.Error: dead_letters_full if an operator must resolve dead letters first. It also wraps
// ErrTenantBound if the tenant's stored dead letters alone reach its limit.
func (l *DeadLetterQuota) Check(ctx context.Context, tenant string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check(ctx, tenant, false)
}

// check is Check. anew forces a new count of the tenant's dead letters. The caller holds mu, which
// is released while waiting, but not after the decision.
func (l *DeadLetterQuota) check(ctx context.Context, tenant string, anew bool) error {
	most := uint64(l.cfg.Now().LimitsOf(tenant).MaxDeadLetters)
	all, err := l.count(ctx, "", most, false)
	if err != nil {
		return errcode.NotAccepted(broker.Reason(err), err)
	}
	if limit := l.limit(all.size.MaxBytes); all.size.Bytes >= limit {
		return errcode.New(errcode.DeadLettersFull, "the dead-letter stream has used %d bytes, and genbus submits nothing new from %d on; "+
			"an operator must resolve dead letters (operator dead list) or raise nats.streams.dead.max_bytes", all.size.Bytes, limit).WithRetryAfter(lettersRetry)
	}
	if most == 0 || all.sum() < most {
		return nil
	}
	own, err := l.count(ctx, tenant, most, anew)
	if err != nil {
		return errcode.NotAccepted(broker.Reason(err), err)
	}
	if own.sum() < most {
		return nil
	}
	full := errcode.New(errcode.DeadLettersFull, "the tenant has %d of at most %d dead letters (max_dead_letters), so genbus submits none of its videos; "+
		"an operator must resolve them (operator dead list --tenant %s)", own.sum(), most, tenant).WithRetryAfter(lettersRetry)
	if own.size.Letters >= most && own.err == nil && time.Since(own.at) <= LettersEvery {
		full.Err = ErrTenantBound
	}
	return full
}

// count returns the count of a tenant, or of all, and reads it again if it is too old. Callers
// share one read, each within its own ctx. While JetStream does not answer, the last result
// applies. The caller holds mu, which is released while waiting.
func (l *DeadLetterQuota) count(ctx context.Context, tenant string, most uint64, anew bool) (*letterCount, error) {
	c, every := l.of(tenant), LettersEvery
	switch {
	case anew:
		every = 0
	case tenant != "":
		every = c.every(most)
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

// refresh reads a count again. The first ended of its submissions are included in the new size.
func (l *DeadLetterQuota) refresh(ctx context.Context, tenant string, c *letterCount, ended uint64) {
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
	l.forgetOld()
}

// recent reports whether a count that is valid for every can still be used.
func (c *letterCount) recent(every time.Duration) bool {
	if c.err != nil && time.Since(c.tried) < LettersEvery {
		return true // JetStream does not answer, or has just failed to
	}
	return !c.at.IsZero() && time.Since(c.at) < every
}

// every returns how long a tenant's count is valid. most is the tenant's limit.
func (c *letterCount) every(most uint64) time.Duration {
	switch {
	case c.ended > 0 && c.sum() >= most:
		return 0 // most ended submissions left no dead letter
	case c.sum() < most/2:
		return lettersFar
	}
	return LettersEvery
}

// forgetOld removes the counts of tenants without recent submissions. The caller holds mu.
func (l *DeadLetterQuota) forgetOld() {
	if len(l.tenants) < manyCounts {
		return
	}
	for tenant, c := range l.tenants {
		if c.open == 0 && c.reading == nil && time.Since(c.tried) > lettersFar {
			delete(l.tenants, tenant)
		}
	}
}

// limit returns the bytes of GENBUS_DEAD above which no video is submitted.
func (l *DeadLetterQuota) limit(maxBytes int64) uint64 {
	var inWork int64
	for _, r := range l.cfg.Now().Routes {
		if subject.Kind(r.Kind) == subject.Video {
			inWork += int64(r.MaxInFlight)
		}
	}
	return uint64(maxBytes - min(2*inWork*largestLetter, maxBytes/2))
}
