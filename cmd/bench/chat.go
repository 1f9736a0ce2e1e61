package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/internal/config"
)

type chatCommand struct {
	common
	Rounds       int           `help:"Rounds; each runs every scenario against every target in turn." default:"5"`
	Requests     int           `help:"JSON requests per round with one caller; with 64 callers four times as many." default:"2000"`
	Paced        int           `help:"Paced streams per round with one caller." default:"4"`
	BackToBack   int           `help:"Back-to-back streams per round with one caller." default:"20"`
	PacedPause   time.Duration `help:"Time between two chunks of a paced stream." default:"5ms"`
	PacedChunks  int           `help:"Chunks of a paced stream." default:"100"`
	UnpacedCount int           `help:"Chunks of a back-to-back stream." default:"500" name:"chunks"`
	Fsync        bool          `help:"Sync every write of the service's embedded broker, as it does by default." default:"true" negatable:""`
	Timeout      time.Duration `help:"Time limit of the whole run." default:"30m"`
}

func (c chatCommand) Validate() error {
	for _, f := range []struct {
		name      string
		value, to int
	}{
		{"rounds", c.Rounds, 100}, {"requests", c.Requests, 1_000_000}, {"paced", c.Paced, 1000}, {"back-to-back", c.BackToBack, 10_000},
		{"paced-chunks", c.PacedChunks, 10_000}, {"chunks", c.UnpacedCount, 100_000},
	} {
		if f.value < 1 || f.value > f.to {
			return fmt.Errorf("--%s: %d is not between 1 and %d", f.name, f.value, f.to)
		}
	}
	if c.PacedPause < 100*time.Microsecond || c.PacedPause > time.Second {
		return errors.New("--paced-pause: not between 100us and 1s")
	}
	return nil
}

func (c chatCommand) scenarios() []scenario {
	const many, paced, fast = 64, 64, 16
	return []scenario{
		{Name: "JSON, 1 caller", Callers: 1, Requests: c.Requests},
		{Name: "JSON, 64 callers", Callers: many, Requests: 4 * c.Requests},
		{Name: fmt.Sprintf("SSE paced, %d x %d chunks, %s apart", paced, c.PacedChunks, c.PacedPause), Callers: paced,
			Requests: paced * c.Paced, Chunks: c.PacedChunks, Interval: c.PacedPause},
		{Name: fmt.Sprintf("SSE back to back, %d x %d chunks", fast, c.UnpacedCount), Callers: fast, Requests: fast * c.BackToBack, Chunks: c.UnpacedCount},
	}
}

type target struct {
	name string
	url  string
	pid  int
	svc  *service // nil for the proxy
}

const proxyTarget = 0 // index of the baseline

type chatRun struct {
	w       *workshop
	cmd     chatCommand
	targets []target
	client  *http.Client
	took    map[string][][]observation // by scenario: round, target
}

// observation is the result of one scenario, target and round. CPU is in microseconds per request
// or chunk. Latencies are in seconds.
type observation struct {
	CPU      float64 `json:"cpu_us_per_unit"`
	FirstP50 float64 `json:"first_p50"`
	FirstP99 float64 `json:"first_p99"`
	DelayP50 float64 `json:"delay_p50"`
	DelayP99 float64 `json:"delay_p99"`
	// Stored counts chunk events stored by the broker. Lost counts dropped events of any kind.
	Stored float64 `json:"chunk_events_stored"`
	Lost   float64 `json:"events_dropped"`
}

func (c chatCommand) Run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	w, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	r := &chatRun{w: w, cmd: c, client: newClient(256), took: map[string][][]observation{}}
	stop, err := r.start(ctx)
	defer stop()
	if err != nil {
		return err
	}
	report := chatReport{Machine: thisMachine()}
	if err := r.measure(ctx); err != nil {
		return err
	}
	report.Scenarios = r.results()
	report.LoadAtEnd = loadAverage()
	if err := r.profiles(ctx); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(report)
	}
	return report.print()
}

// start starts the upstream, the proxy, and the service with and without events.
func (r *chatRun) start(ctx context.Context) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	self, err := os.Executable()
	if err != nil {
		return stop, err
	}
	up, addr, err := r.w.startUpstream(ctx)
	if err != nil {
		return stop, err
	}
	stops = append(stops, up.kill)
	proxy, proxyAddr, err := startChild(ctx, r.w.dir, "proxy", []string{self, "proxy", "--upstream", addr}, childEnv(), bannerAddr)
	if err != nil {
		return stop, err
	}
	stops = append(stops, proxy.kill)
	r.targets = []target{{name: "proxy", url: proxyAddr[0], pid: proxy.pid()}}
	for _, events := range []string{config.InlineEventsOff, config.InlineEventsOn} {
		name := "events-" + events
		svc, err := r.w.startService(ctx, name, serviceSetup{
			Upstream: addr, Kind: "chat", SyncAlways: r.cmd.Fsync, InFlight: 256, Queued: 100_000, InlineEvents: events,
		})
		if err != nil {
			return stop, err
		}
		stops = append(stops, svc.discard)
		r.targets = append(r.targets, target{name: "genbus, events " + events, url: svc.url, pid: svc.pid(), svc: svc})
	}
	return stop, nil
}

// measure runs all rounds. It discards round 0 as a warm-up and rotates the order of the targets.
func (r *chatRun) measure(ctx context.Context) error {
	for round := range r.cmd.Rounds + 1 {
		progressf("round %d of %d", round, r.cmd.Rounds)
		for _, s := range r.cmd.scenarios() {
			row := make([]observation, len(r.targets))
			for i := range r.targets {
				at := (i + round) % len(r.targets)
				o, err := r.observe(ctx, s, r.targets[at])
				if err != nil {
					return fmt.Errorf("%s: %w", r.targets[at].name, err)
				}
				row[at] = o
			}
			if round > 0 {
				r.took[s.Name] = append(r.took[s.Name], row)
			}
		}
	}
	return nil
}

func (r *chatRun) observe(ctx context.Context, s scenario, t target) (observation, error) {
	storedBefore, lostBefore, err := t.events(ctx)
	if err != nil {
		return observation{}, err
	}
	before, err := readProc(t.pid)
	if err != nil {
		return observation{}, err
	}
	took, err := s.load(ctx, r.client, t.url)
	if err != nil {
		return observation{}, err
	}
	after, err := quiet(ctx, t.pid)
	if err != nil {
		return observation{}, err
	}
	stored, lost, err := t.events(ctx)
	return observation{
		CPU:      float64(after.CPU-before.CPU) / float64(time.Microsecond) / s.units(),
		FirstP50: rank(took.first, 0.5), FirstP99: rank(took.first, 0.99),
		DelayP50: rank(took.delay, 0.5), DelayP99: rank(took.delay, 0.99),
		Stored: stored - storedBefore, Lost: lost - lostBefore,
	}, err
}

// quiet waits until a process has finished the work left by the last load, such as publishing
// events, so that this work is counted too.
func quiet(ctx context.Context, pid int) (procStat, error) {
	const window, atMost = 100 * time.Millisecond, 100
	last, err := readProc(pid)
	for range atMost {
		if err != nil {
			return last, err
		}
		if err := pause(ctx, window); err != nil {
			return last, err
		}
		now, err := readProc(pid)
		if err != nil || now.CPU == last.CPU {
			return now, err
		}
		last = now
	}
	return last, err
}

// events returns the counters of inline chat events. A chunk event contains the chunks that arrived
// while the previous event was being stored.
func (t target) events(ctx context.Context) (stored, lost float64, err error) {
	if t.svc == nil {
		return 0, 0, nil
	}
	m, err := t.svc.metrics(ctx)
	return m.sum("genbus_chunk_events_published_total"),
		m.sum("genbus_inline_events_dropped_total") + m.sum("genbus_chunk_events_dropped_total"), err
}

// profiles repeats each scenario for each service while taking a profile. It does not affect the
// results.
func (r *chatRun) profiles(ctx context.Context) error {
	if r.w.Profile == "" {
		return nil
	}
	const length = 5 * time.Second
	for _, t := range r.targets[1:] {
		for i, s := range r.cmd.scenarios() {
			group, gctx := errgroup.WithContext(ctx)
			loading, stop := context.WithCancel(gctx)
			group.Go(func() error {
				defer stop()
				return r.w.profile(gctx, t.svc, fmt.Sprintf("chat-%s-%d", t.svc.name, i+1), length)
			})
			group.Go(func() error {
				for loading.Err() == nil {
					if _, err := s.load(gctx, r.client, t.url); err != nil {
						return err
					}
				}
				return nil
			})
			if err := group.Wait(); err != nil {
				return err
			}
		}
	}
	return nil
}

// comparison holds the results of one scenario for all targets. It also compares the services with
// the proxy, round by round.
type comparison struct {
	scenario
	Targets []comparedTarget `json:"targets"`
}

type comparedTarget struct {
	Name       string `json:"name"`
	CPU        spread `json:"cpu_us_per_unit"`
	First      spread `json:"first_p50_us"`
	FirstP99   spread `json:"first_p99_us"`
	Delay      spread `json:"delay_p50_us"`
	DelayP99   spread `json:"delay_p99_us"`
	CPURatio   spread `json:"cpu_ratio"`
	FirstRatio spread `json:"first_p50_ratio"`
	DelayRatio spread `json:"delay_p50_ratio"`
	Stored     spread `json:"chunk_events_stored_per_chunk"`
	Lost       spread `json:"events_dropped_per_request"`
}

func (r *chatRun) results() []comparison {
	var out []comparison
	for _, s := range r.cmd.scenarios() {
		c := comparison{scenario: s}
		for i, t := range r.targets {
			c.Targets = append(c.Targets, compareTarget(s, t.name, r.took[s.Name], i))
		}
		out = append(out, c)
	}
	return out
}

// compareTarget summarizes one column of the rounds.
func compareTarget(s scenario, name string, rounds [][]observation, i int) comparedTarget {
	each := func(f func(observation) float64, scale float64) spread {
		var v []float64
		for _, row := range rounds {
			v = append(v, f(row[i])*scale)
		}
		return spreadOf(v)
	}
	ratio := func(f func(observation) float64) spread {
		var v []float64
		for _, row := range rounds {
			if base := f(row[proxyTarget]); base > 0 {
				v = append(v, f(row[i])/base)
			}
		}
		return spreadOf(v)
	}
	cpu := func(o observation) float64 { return o.CPU }
	first := func(o observation) float64 { return o.FirstP50 }
	delay := func(o observation) float64 { return o.DelayP50 }
	return comparedTarget{
		Name: name, CPU: each(cpu, 1), First: each(first, 1e6), Delay: each(delay, 1e6),
		FirstP99: each(func(o observation) float64 { return o.FirstP99 }, 1e6),
		DelayP99: each(func(o observation) float64 { return o.DelayP99 }, 1e6),
		CPURatio: ratio(cpu), FirstRatio: ratio(first), DelayRatio: ratio(delay),
		Stored: each(func(o observation) float64 { return o.Stored }, 1/s.units()),
		Lost:   each(func(o observation) float64 { return o.Lost }, 1/float64(s.Requests)),
	}
}

type chatReport struct {
	Machine   machine      `json:"machine"`
	LoadAtEnd string       `json:"loadavg_at_end"`
	Scenarios []comparison `json:"scenarios"`
}

func (r chatReport) print() error {
	fmt.Printf("%s, %d cores, %s, load %s before and %s after; median (least-greatest) over rounds\n",
		r.Machine.CPU, r.Machine.Cores, r.Machine.Go, r.Machine.LoadAvg, r.LoadAtEnd)
	for _, c := range r.Scenarios {
		t := c.table()
		if err := t.write(os.Stdout); err != nil {
			return err
		}
	}
	return nil
}

func (c comparison) table() table {
	t := table{title: c.Name}
	if c.Chunks == 0 {
		t.add("target", "CPU us/request", "ratio", "answer p50 us", "ratio", "answer p99 us", "events dropped/request")
	} else {
		t.add("target", "CPU us/chunk", "ratio", "first chunk p50 us", "ratio", "first p99 us", "delay p50 us", "ratio", "delay p99 us", "chunk events/chunk", "events dropped/request")
	}
	for _, x := range c.Targets {
		row := []string{x.Name, x.CPU.String(), x.CPURatio.String(), x.First.String(), x.FirstRatio.String(), number(x.FirstP99.Median)}
		if c.Chunks > 0 {
			row = append(row, x.Delay.String(), x.DelayRatio.String(), number(x.DelayP99.Median), number(x.Stored.Median))
		}
		t.add(append(row, number(x.Lost.Median))...)
	}
	return t
}
