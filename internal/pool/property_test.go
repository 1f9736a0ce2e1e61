package pool_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

type job struct {
	tried pool.Tried
	round []pool.UpstreamKey // keys of this round
	slot  *pool.Slot         // nil without a slot
}

// model holds the state against which the pool is checked.
type model struct {
	pool    *pool.Pool
	chooser *pool.Chooser
	route   config.Route
	ups     config.Upstreams
	keys    []pool.UpstreamKey
	jobs    []*job
}

func drawModel(t *rapid.T) *model {
	m := &model{route: along(), ups: config.Upstreams{}}
	weighted := rapid.Bool().Draw(t, "weighted")
	for i := range rapid.IntRange(1, 3).Draw(t, "upstreams") {
		name := fmt.Sprint("u", i)
		keys := make([]string, rapid.IntRange(0, 3).Draw(t, "keys"))
		for k := range keys {
			keys[k] = fmt.Sprint("k", k)
		}
		m.ups[name] = with(func(u *config.Upstream) {
			u.MaxConcurrent = rapid.IntRange(0, 3).Draw(t, "most")
			u.RatePerSecond = rapid.SampledFrom([]float64{0, 0.5, 3, 1000}).Draw(t, "rate")
			u.KeyCooldown = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute}).Draw(t, "cooldown")
			u.Breaker.Failures = rapid.IntRange(0, 3).Draw(t, "failures")
		}, keys...)
		target := config.Target{Name: name}
		if weighted {
			target.Weight = rapid.IntRange(0, 3).Draw(t, "weight")
		}
		m.route.Upstreams = append(m.route.Upstreams, target)
		for _, c := range m.ups[name].Credentials() {
			m.keys = append(m.keys, pool.UpstreamKey{Upstream: name, Key: c.Name})
		}
	}
	m.pool = pool.New(m.ups, pool.Options{Metrics: telemetry.NewMetrics("v1")})
	m.chooser = m.pool.Chooser(m.route)
	for range 6 {
		m.jobs = append(m.jobs, new(job))
	}
	return m
}

func (m *model) inUse(a pool.UpstreamKey) int {
	n := 0
	for _, j := range m.jobs {
		if j.slot != nil && j.slot.UpstreamKey() == a {
			n++
		}
	}
	return n
}

// acquire advances a job and checks the pool's rules.
func (m *model) acquire(t *rapid.T, j *job) {
	if j.slot != nil {
		return
	}
	l, err := m.chooser.Acquire(&j.tried)
	var busy *pool.BusyError
	switch {
	case errors.As(err, &busy):
		if !busy.Until.After(time.Now()) {
			t.Fatalf("busy until %v, which is not in the future", busy.Until)
		}
		if len(j.round) == len(m.keys) {
			t.Fatal("busy, but nothing is left to try")
		}
	case errors.Is(err, pool.ErrExhausted):
		if len(j.round) != len(m.keys) {
			t.Fatalf("exhausted after %v of %v", j.round, m.keys)
		}
		*j = job{}
	case err != nil:
		t.Fatalf("unexpected error %v", err)
	default:
		a := l.UpstreamKey()
		if slices.Contains(j.round, a) || !slices.Contains(m.keys, a) {
			t.Fatalf("sent to %v after %v", a, j.round)
		}
		if most := m.ups[a.Upstream].MaxConcurrent; most > 0 && m.inUse(a) >= most {
			t.Fatalf("%v has more than %d jobs", a, most)
		}
		j.slot, j.round = l, append(j.round, a)
	}
}

// drawReport draws the outcome of a call.
func drawReport(t *rapid.T) *upstream.Error {
	answers := []*upstream.Error{nil, &badKey, &slowDown, &noModel, &unavailable, &broken, &noAnswer, &notReached, &badRequest, &notBuilt}
	e := rapid.SampledFrom(answers).Draw(t, "answer")
	after := rapid.SampledFrom([]time.Duration{0, 0, time.Second, time.Minute}).Draw(t, "retry after")
	if e == nil || after == 0 {
		return e
	}
	return asking(*e, after)
}

// releaseAll releases all slots and checks that a new job eventually gets one.
func (m *model) releaseAll(t *rapid.T) {
	for _, j := range m.jobs {
		if j.slot != nil {
			j.slot.Release()
		}
	}
	for range 100 {
		l, err := m.chooser.Acquire(new(pool.Tried))
		if err == nil {
			l.Release()
			return
		}
		var busy *pool.BusyError
		if !errors.As(err, &busy) {
			t.Fatalf("a new job got %v", err)
		}
		pass(time.Until(busy.Until))
	}
	t.Fatal("a new job waits for ever")
}

func TestThePoolKeepsItsRules(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// Wrapped, because rapid would ask t for its deadline, which does not exist in a bubble.
		// Without it, rapid uses a day of the bubble's time, which suffices.
		rapid.Check(struct{ rapid.TB }{t}, func(t *rapid.T) {
			m := drawModel(t)
			draw := func() *job { return rapid.SampledFrom(m.jobs).Draw(t, "job") }
			t.Repeat(map[string]func(*rapid.T){
				"acquire": func(t *rapid.T) { m.acquire(t, draw()) },
				"report": func(t *rapid.T) {
					if j := draw(); j.slot != nil {
						j.slot.Report(m.chooser, aJob, drawReport(t))
					}
				},
				"begun": func(t *rapid.T) {
					if j := draw(); j.slot != nil {
						j.slot.Begun()
					}
				},
				"release": func(t *rapid.T) {
					if j := draw(); j.slot != nil {
						j.slot.Release()
						j.slot = nil
					}
				},
				"resume": func(t *rapid.T) {
					if j := draw(); j.slot == nil {
						j.slot = m.pool.Resume(rapid.SampledFrom(m.keys).Draw(t, "key"))
					}
				},
				"pass": func(t *rapid.T) {
					pass(time.Duration(rapid.Int64Range(1, int64(20*time.Second)).Draw(t, "time")))
				},
			})
			m.releaseAll(t)
		})
	})
}

// TestManyAtOnce proves that concurrent jobs never exceed the slots.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	const most, jobs, rounds = 3, 32, 200
	limit := func(u *config.Upstream) { u.MaxConcurrent = most; u.Breaker.Failures = 0 }
	p := pool.New(config.Upstreams{"a": with(limit, "1", "2"), "b": with(limit)}, pool.Options{Metrics: telemetry.NewMetrics("v1")})
	c := p.Chooser(along("a", "b"))
	var mu sync.Mutex
	inUse := map[pool.UpstreamKey]int{}
	add := func(a pool.UpstreamKey, n int) {
		mu.Lock()
		defer mu.Unlock()
		if inUse[a] += n; inUse[a] > most {
			t.Errorf("%v has %d jobs, want %d at most", a, inUse[a], most)
		}
	}
	var wg sync.WaitGroup
	for i := range jobs {
		wg.Go(func() {
			for n := range rounds {
				l, err := c.Acquire(new(pool.Tried))
				if err != nil {
					continue
				}
				add(l.UpstreamKey(), 1)
				if (i+n)%2 == 0 {
					l.Begun()
					l.Report(c, aJob, &noModel)
				}
				add(l.UpstreamKey(), -1)
				l.Release()
			}
		})
	}
	wg.Wait()
	for a, n := range inUse {
		if n != 0 {
			t.Errorf("%v still has %d jobs", a, n)
		}
	}
	expect(t, round(t, c)[2:], "b")
}

func BenchmarkAcquire(b *testing.B) {
	ups := config.Upstreams{}
	var names []string
	for i := range 4 {
		name := fmt.Sprint("u", i)
		ups[name], names = with(nil, "1", "2", "3", "4"), append(names, name)
	}
	c := pool.New(ups, pool.Options{Metrics: telemetry.NewMetrics("v1")}).Chooser(along(names...))
	b.ReportAllocs()
	for b.Loop() {
		l, err := c.Acquire(new(pool.Tried))
		if err != nil {
			b.Fatal(err)
		}
		l.Report(c, aJob, nil)
		l.Release()
	}
}
