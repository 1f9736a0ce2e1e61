package pool

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/genbus/genbus/internal/config"
)

// budget limits the retries of this process across all upstreams. Without it, each job would be
// resent again and again during an outage, to one upstream after another. First tries are never
// held back, and each earns a share of a retry. Pool.mu guards it.
type budget struct {
	share     float64
	credit    float64
	maxCredit float64       // limit of credit
	floor     *rate.Limiter // retries without credit
}

// budgetSeconds is how many seconds' worth of the floor may accumulate. It also limits the credit.
const budgetSeconds = 10

// newBudget returns a budget, or nil for the zero configuration. A nil budget allows every retry.
func newBudget(c config.Retry) *budget {
	if c == (config.Retry{}) {
		return nil
	}
	maxCredit := max(1, math.Ceil(c.PerSecond*budgetSeconds))
	return &budget{share: c.Share, maxCredit: maxCredit, floor: rate.NewLimiter(rate.Limit(c.PerSecond), int(maxCredit))}
}

func (b *budget) first() {
	if b != nil {
		b.credit = min(b.credit+b.share, b.maxCredit)
	}
}

// retry reports whether a retry is allowed now. If not, next is when to ask again. Call spend to
// use the retry.
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

// spend charges one retry.
func (b *budget) spend(now time.Time) {
	switch {
	case b == nil:
	case b.credit >= 1:
		b.credit--
	default:
		b.floor.AllowN(now, 1)
	}
}
