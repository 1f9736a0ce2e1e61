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

// errUncounted says that JetStream did not say how many letters there are.
var errUncounted = errors.New("the dead letters were not counted in time")

// Letters says whether there is room for the dead letter of one more submission, which
// may be paid for. A tenant has limits.tenant.max_dead_letters; above that only its own
// submissions stop. Above a share of GENBUS_DEAD all do: the rest is for two letters of
// each video that may be in work, of the largest size, but at most half of the stream.
//
// Counts are those of the stream, up to 2 s old, and the submissions of this replica
// since. What other replicas add meanwhile exceeds a tenant's bound, by no more than
// their videos in work; the rest of the stream has room for it.
type Letters struct {
	cfg     *config.Live
	streams deadletter.Streams

	// read reads the count of a tenant, or of all, again. The lock is not held meanwhile.
	read func(ctx context.Context, tenant string, c letterCount, most uint64) (letterCount, error)

	mu      sync.Mutex
	all     letterCount
	tenants map[string]*letterCount
}

// letterCount is what is known of the letters of a tenant, or of all.
type letterCount struct {
	at            time.Time     // zero: nothing was read
	tried         time.Time     // the last read, which may have failed
	err           error         // of that read
	reading       chan struct{} // closed when the read under way is over; nil for none
	stored, bytes uint64
	limit         uint64 // in bytes, from which on nothing is submitted; of all only
	// open are the submissions of this replica that may end with a letter, and ended
	// those that have since the count was read.
	open, ended uint64
	scanned     uint64 // the letters up to here are none of rejected requests any more
}

func (c *letterCount) sum() uint64 { return c.stored + c.open + c.ended }

// NewLetters returns letters of which none is counted yet.
func NewLetters(cfg *config.Live, b *broker.Broker) *Letters {
	l := &Letters{cfg: cfg, streams: deadletter.Streams{Broker: b}, tenants: map[string]*letterCount{}}
	l.read = l.readStream
	return l
}

// Reserve makes sure that a submission of a tenant's video may leave a dead letter,
// until release is called. The error is that of Check.
func (l *Letters) Reserve(ctx context.Context, tenant string) (release func(), err error) {
	if err := l.Check(ctx, tenant); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
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
func (l *Letters) of(tenant string) *letterCount {
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
// a *errcode.Error, dead_letters_full where an operator has to resolve letters first.
func (l *Letters) Check(ctx context.Context, tenant string) error {
	most := uint64(l.cfg.Now().LimitsOf(tenant).MaxDeadLetters)
	all, err := l.count(ctx, "", most)
	if err != nil {
		return errcode.NotAccepted(broker.Reason(err), err)
	}
	if all.bytes >= all.limit {
		return errcode.New(errcode.DeadLettersFull, "the stream of dead letters has used %d of the %d bytes from which on nothing new is submitted; "+
			"an operator resolves letters (operator dead list), or raises nats.streams.dead.max_bytes", all.bytes, all.limit).WithRetryAfter(lettersRetry)
	}
	if most == 0 || all.sum() < most {
		return nil
	}
	own, err := l.count(ctx, tenant, most)
	if err != nil {
		return errcode.NotAccepted(broker.Reason(err), err)
	}
	if own.sum() < most {
		return nil
	}
	return errcode.New(errcode.DeadLettersFull, "the tenant has %d dead letters of the %d that it may have (max_dead_letters), so none of its videos is submitted; "+
		"an operator resolves them (operator dead list --tenant %s)", own.sum(), most, tenant).WithRetryAfter(lettersRetry)
}

// count is that of a tenant, or of all, read again where it is old. All who ask wait for
// one read, each within its own ctx. While JetStream does not answer, what was read last
// is used.
func (l *Letters) count(ctx context.Context, tenant string, most uint64) (letterCount, error) {
	c, reading := l.known(ctx, tenant, most)
	if reading != nil {
		select {
		case <-reading:
		case <-ctx.Done():
			return letterCount{}, context.Cause(ctx)
		}
		l.mu.Lock()
		c = *l.of(tenant)
		l.mu.Unlock()
	}
	if c.at.IsZero() {
		return c, cmp.Or(c.err, errUncounted)
	}
	return c, nil
}

// known is what is known of a tenant, or of all; where that is old, reading is the read
// that is under way.
func (l *Letters) known(ctx context.Context, tenant string, most uint64) (c letterCount, reading <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of(tenant)
	if of.recent(most) {
		return *of, nil
	}
	if of.reading == nil {
		of.reading = make(chan struct{})
		go l.refresh(context.WithoutCancel(ctx), of, tenant, *of, most)
	}
	return *of, of.reading
}

// refresh reads a count again, which was c before.
func (l *Letters) refresh(ctx context.Context, of *letterCount, tenant string, c letterCount, most uint64) {
	ctx, cancel := context.WithTimeoutCause(ctx, broker.ReadTimeout, errUncounted)
	defer cancel()
	read, err := l.read(ctx, tenant, c, most)
	l.mu.Lock()
	defer l.mu.Unlock()
	close(of.reading)
	of.reading, of.tried, of.err = nil, time.Now(), err
	if err == nil {
		of.at, of.stored, of.bytes, of.limit, of.scanned = of.tried, read.stored, read.bytes, read.limit, read.scanned
		of.ended -= min(c.ended, of.ended) // they are counted now
	}
	l.forgetOld()
}

func (c letterCount) recent(most uint64) bool {
	if c.err != nil && time.Since(c.tried) < LettersEvery {
		return true // JetStream does not answer, or has just not answered
	}
	if c.limit == 0 && c.ended > 0 && c.sum() >= most {
		return false // most of what has ended left no letter
	}
	every := LettersEvery
	if c.limit == 0 && c.sum() < most/2 {
		every = lettersFar
	}
	return !c.at.IsZero() && time.Since(c.at) < every
}

// forgetOld drops the counts of tenants that submit nothing. It needs the lock.
func (l *Letters) forgetOld() {
	if len(l.tenants) < manyCounts {
		return
	}
	for tenant, c := range l.tenants {
		if c.open == 0 && c.reading == nil && time.Since(c.tried) > lettersFar {
			delete(l.tenants, tenant)
		}
	}
}

// readStream counts letters, and makes room where there is none.
func (l *Letters) readStream(ctx context.Context, tenant string, c letterCount, most uint64) (letterCount, error) {
	size, err := l.streams.Count(ctx, tenant)
	if err != nil {
		return c, err
	}
	tooMany := func() bool { return size.Letters >= most }
	if tenant == "" {
		c.limit = l.limit(size.MaxBytes)
		tooMany = func() bool { return size.Bytes >= c.limit }
	}
	c.scanned = l.streams.DropRejected(ctx, tenant, &size, c.scanned, tooMany)
	c.stored, c.bytes = size.Letters, size.Bytes
	return c, nil
}

// limit is how many bytes of GENBUS_DEAD may be used when a video is submitted.
func (l *Letters) limit(maxBytes int64) uint64 {
	var inWork int64
	for _, r := range l.cfg.Now().Routes {
		if subject.Kind(r.Kind) == subject.Video {
			inWork += int64(r.MaxInFlight)
		}
	}
	return uint64(maxBytes - min(2*inWork*largestLetter, maxBytes/2))
}
