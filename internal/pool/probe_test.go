package pool_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// oneUpstream returns a chooser of one key whose breaker opens at the first failure.
func oneUpstream(change func(*config.Upstream)) *pool.Chooser {
	u := config.NewUpstream("http://a")
	u.Breaker = config.Breaker{Failures: 1, OpenFor: time.Minute}
	if change != nil {
		change(&u)
	}
	r := config.NewRoute("r", config.KindVideo, "a", "*")
	return pool.New(config.Upstreams{"a": u}, pool.Options{Metrics: telemetry.NewMetrics("v1")}).Chooser(r)
}

func acquire(c *pool.Chooser) *pool.Slot {
	slot, err := c.Acquire(new(pool.Tried))
	if err != nil {
		return nil
	}
	return slot
}

// TestAProbeThatHangsDoesNotKeepOthersAway proves that another job may probe if the first probe has
// no outcome after openFor.
func TestAProbeThatHangsDoesNotKeepOthersAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := oneUpstream(nil)
		acquire(c).Report(c, aJob, &upstream.Error{Scope: upstream.ScopeUpstream, Written: true})
		time.Sleep(time.Minute + time.Second) //nolint:forbidigo // clock of the bubble
		probe := acquire(c)
		if probe == nil || acquire(c) != nil {
			t.Fatal("not exactly one probe was let through")
		}
		time.Sleep(time.Minute + time.Second) //nolint:forbidigo // clock of the bubble
		next := acquire(c)
		if next == nil {
			t.Fatal("a hanging probe keeps everybody away")
		}
		next.Report(c, aJob, nil)
		if acquire(c) == nil {
			t.Error("the breaker is not closed by the second probe")
		}
		probe.Report(c, aJob, &upstream.Error{Scope: upstream.ScopeUpstream, Written: true})
		if acquire(c) == nil {
			t.Error("the first probe opens the breaker long after its time")
		}
	})
}
