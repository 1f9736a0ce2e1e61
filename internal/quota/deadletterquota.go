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
	// LettersEvery is how long a count of letters is used, and lettersFar how long that
	// of a tenant that has less than half of those that it may have.
	LettersEvery = 2 * time.Second
	lettersFar   = 30 * time.Second
	// lettersRetry is when a refused caller may ask again: an operator has to act first.
	lettersRetry = time.Minute
	// largestLetter is a letter with the largest body that does not go to the object
	// store, its work item and its error, in bytes.
	largestLetter = publisher.ClaimCheck + 16<<10
	// manyCounts is how many tenants' counts are kept.
	manyCounts = 10_000
)

// ErrTenantBound says that a tenant's stored dead letters alone reach its bound, as counted within
// the last LettersEvery.
var ErrTenantBound = errors.New("the tenant's stored dead letters reach its limit")

// errUncounted says that JetStream did not say how many letters there are.
var errUncounted = errors.New("the dead letters were not counted in time")

// DeadLetterQuota says whether there is room for the dead letter of one more submission, which
// may be paid for. A tenant has limits.tenant.max_dead_letters; above that only its own
// submissions stop. Above a share of GENBUS_DEAD all do: the rest is for two letters of
// each video that may be in work, of the largest size, but at most half of the stream.
//
// Counts are those of the stream, up to 2 s old, and the submissions of this replica
// since. What other replicas add meanwhile exceeds a tenant's bound, by no more than
// their videos in work; the rest of the stream has room for it.
type DeadLetterQuota struct {
	cfg *config.Live
	// read reads the size of GENBUS_DEAD with the letters of a tenant, or of all, again. The
	// lock is not held meanwhile.
	read func(ctx context.Context, tenant string) (deadletter.Size, error)

	mu      sync.Mutex
	all     letterCount
	tenants map[string]*letterCount
}

// letterCount is what is known of the letters of a tenant, or of all.
type letterCount struct {
	size    deadletter.Size
	at      time.Time     // of the size; zero: nothing was read
	tried   time.Time     // the last read, which may have failed
	err     error         // of that read
	reading chan struct{} // closed when the read under way is over; nil for none
	// open are the submissions of this replica that may end with a letter, and ended
	// those that have since the size was read.
	open, ended uint64
}

func (c *letterCount) sum() uint64 { return c.size.Letters + c.open + c.ended }

// NewDeadLetterQuota returns a quota of which nothing is counted yet.
func NewDeadLetterQuota(cfg *config.Live, b *broker.Broker) *DeadLetterQuota {
	return &DeadLetterQuota{cfg: cfg, read: deadletter.Streams{Broker: b}.Count, tenants: map[string]*letterCount{}}
}

// Reserve makes sure that a submission of a tenant's video may leave a dead letter,
// until release is called. The error is that of Check, and ErrTenantBound only by a count that
// was read for this call: letters may have been resolved since the last one.
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

// of is the count of a tenant, or of all for none. It needs the lock.
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

// Check refuses a submission of a tenant for whose letter there is no room. The error is
// a *errcode.Error, dead_letters_full where an operator has to resolve letters first. It is also
// ErrTenantBound if the stored letters of the tenant alone reach its bound.
func (l *DeadLetterQuota) Check(ctx context.Context, tenant string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check(ctx, tenant, false)
}

// check is Check; anew has the tenant's letters counted again. It needs the lock, and lets it go
// only before it judges, to wait.
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

// count is that of a tenant, or of all, read again where it is old. All who ask wait for
// one read, each within its own ctx. While JetStream does not answer, what was read last
// is used. It needs the lock, and lets it go while it waits.
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

// refresh reads a count again. ended of its submissions had ended before that, and are in it.
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

// recent reports whether a count is used as it is that is read again after every.
func (c *letterCount) recent(every time.Duration) bool {
	if c.err != nil && time.Since(c.tried) < LettersEvery {
		return true // JetStream does not answer, or has just not answered
	}
	return !c.at.IsZero() && time.Since(c.at) < every
}

// every is how long the count of a tenant is used, which may have most letters.
func (c *letterCount) every(most uint64) time.Duration {
	switch {
	case c.ended > 0 && c.sum() >= most:
		return 0 // most of what has ended left no letter
	case c.sum() < most/2:
		return lettersFar
	}
	return LettersEvery
}

// forgetOld drops the counts of tenants that submit nothing. It needs the lock.
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

// limit is how many bytes of GENBUS_DEAD may be used when a video is submitted.
func (l *DeadLetterQuota) limit(maxBytes int64) uint64 {
	var inWork int64
	for _, r := range l.cfg.Now().Routes {
		if subject.Kind(r.Kind) == subject.Video {
			inWork += int64(r.MaxInFlight)
		}
	}
	return uint64(maxBytes - min(2*inWork*largestLetter, maxBytes/2))
}
