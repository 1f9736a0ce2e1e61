package pool

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/genbus/genbus/internal/config"
)

// budget bounds what retries add to the traffic of this process, over all
// upstreams: in an outage each job would otherwise be sent again and again, and
// to every upstream in turn. First tries are never held back; each of them earns
// a share of a retry. The pool's mutex guards it.
type budget struct {
	share  float64
	credit float64
	most   float64       // of credit
	floor  *rate.Limiter // retries that need no credit
}

// budgetSeconds is how many seconds of the floor may be saved up, as credit too.
const budgetSeconds = 10

// newBudget makes a budget; nil, which allows everything, for the zero
// configuration.
func newBudget(c config.Retry) *budget {
	if c == (config.Retry{}) {
		return nil
	}
	most := max(1, math.Ceil(c.PerSecond*budgetSeconds))
	return &budget{share: c.Share, most: most, floor: rate.NewLimiter(rate.Limit(c.PerSecond), int(most))}
}

// first counts a first try.
func (b *budget) first() {
	if b != nil {
		b.credit = min(b.credit+b.share, b.most)
	}
}

// retry reports whether a retry may go now, and otherwise when to ask again. It
// takes nothing; spend does.
func (b *budget) retry(now time.Time) (next time.Time, ok bool) {
	if b == nil || b.credit >= 1 {
		return now, true
	}
	missing := 1 - b.floor.TokensAt(now)
	if missing <= 0 {
		return now, true
	}
	if b.floor.Limit() <= 0 {
		return now.Add(recheckAfter), false
	}
	return now.Add(time.Duration(math.Ceil(missing / float64(b.floor.Limit()) * float64(time.Second)))), false
}

// spend takes what one retry costs.
func (b *budget) spend(now time.Time) {
	switch {
	case b == nil:
	case b.credit >= 1:
		b.credit--
	default:
		b.floor.AllowN(now, 1)
	}
}
