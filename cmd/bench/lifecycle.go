package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/internal/subject"
)

// lifecycleResult is the rate of full lifecycles from request to end. CPU is in milliseconds per
// lifecycle.
type lifecycleResult struct {
	Fsync        string  `json:"fsync"`
	InFlight     int     `json:"max_in_flight"`
	Window       float64 `json:"window_seconds"`
	Lifecycles   uint64  `json:"lives"`
	PerSecond    float64 `json:"lives_per_second"`
	ServiceMS    float64 `json:"service_cpu_ms_per_life"`
	SandboxMS    float64 `json:"sandbox_cpu_ms_per_life"`
	ClientMS     float64 `json:"client_cpu_ms_per_life"`
	PollsPerLife float64 `json:"polls_per_life"`
	Failed       uint64  `json:"failed"`
	LoadAvg      string  `json:"loadavg"`
}

type lifecycleRun struct {
	w     *workshop
	cmd   videoCommand
	svc   *service
	pub   *publisher
	procs procs // service, sandbox, client

	published atomic.Int64
	done      atomic.Int64
	news      chan struct{} // has a token when done has grown
}

// lifecycles keeps the queue from running empty and counts the ends in the feed. A video completes
// after 1.9 poll intervals, so its second poll sees the end unless the first poll is more than 0.9
// intervals late. PollsPerLife shows whether that happened.
func (w *workshop) lifecycles(ctx context.Context, c videoCommand, sync bool) (lifecycleResult, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	progressf("full lives, fsync %s", onOff(sync))
	sandbox, upstream, err := w.startSandbox(ctx)
	if err != nil {
		return lifecycleResult{}, err
	}
	defer sandbox.kill()
	name := "lives-" + onOff(sync)
	svc, err := w.startService(ctx, name, serviceSetup{
		Upstream: upstream, Kind: "video", SyncAlways: sync, InFlight: c.LifecyclesInFlight, Queued: 1_000_000, Poll: c.LifecyclePoll,
	})
	if err != nil {
		return lifecycleResult{}, err
	}
	defer svc.discard()
	metadata := fmt.Sprintf(`{"sandbox":{"duration_ms":%d,"statuses":["in_progress","completed"]}}`, (c.LifecyclePoll * 19 / 10).Milliseconds())
	pub, err := newPublisher(svc.nats, subject.Video, videoRequest(metadata))
	if err != nil {
		return lifecycleResult{}, err
	}
	defer pub.close()
	r := &lifecycleRun{w: w, cmd: c, svc: svc, pub: pub, procs: procs{svc.pid(), sandbox.pid(), os.Getpid()}, news: make(chan struct{}, 1)}
	res, err := r.run(ctx)
	if err != nil {
		return lifecycleResult{}, err
	}
	res.Fsync, res.InFlight = onOff(sync), c.LifecyclesInFlight
	svc.discard() // before removing its data
	return res, discardData(w, name)
}

func (r *lifecycleRun) run(ctx context.Context) (lifecycleResult, error) {
	if err := r.follow(); err != nil {
		return lifecycleResult{}, err
	}
	group, gctx := errgroup.WithContext(ctx)
	feeding, stop := context.WithCancel(gctx)
	defer stop()
	group.Go(func() error { return r.feed(feeding) })
	var res lifecycleResult
	group.Go(func() (err error) {
		defer stop()
		if err = r.warmUp(gctx); err != nil {
			return err
		}
		res, err = r.measure(gctx)
		return err
	})
	err := group.Wait()
	return res, err
}

// follow counts ends to pace the requests. The result itself is counted in the stream.
func (r *lifecycleRun) follow() error {
	sub, err := r.pub.nc.Subscribe(subject.Default().DonePattern(), func(*nats.Msg) {
		r.done.Add(1)
		select {
		case r.news <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	return sub.SetPendingLimits(-1, -1)
}

// feed keeps the queue short but never empty, until ctx ends or all lifecycles have begun.
func (r *lifecycleRun) feed(ctx context.Context) error {
	target := int64(r.cmd.LifecyclesInFlight + r.cmd.LifecyclesInFlight/2)
	for r.published.Load() < int64(r.cmd.Lifecycles) {
		if r.published.Load()-r.done.Load() >= target {
			select {
			case <-r.news:
			case <-ctx.Done():
				return nil
			}
			continue
		}
		if ended(ctx) {
			return nil
		}
		if err := r.pub.publish(ctx); err != nil && !ended(ctx) {
			return fmt.Errorf("publish: %w", err)
		}
		r.published.Add(1)
	}
	return nil
}

func ended(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// warmUp waits until the first tasks have been replaced, or a quarter of all lifecycles has ended.
func (r *lifecycleRun) warmUp(ctx context.Context) error {
	enough := int64(min(r.cmd.LifecyclesInFlight+r.cmd.LifecyclesInFlight/2, r.cmd.Lifecycles/4))
	for r.done.Load() < enough {
		if err := r.svc.alive(); err != nil {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d lives ended, %d are wanted before the measurement: %w", r.done.Load(), enough, err)
		}
	}
	return nil
}

// count holds all values whose differences are measured.
type count struct {
	at           time.Time
	done, failed uint64
	polls        float64
	procs        []procStat
}

func (r *lifecycleRun) count(ctx context.Context) (c count, err error) {
	names := subject.Default()
	m, err := r.svc.metrics(ctx)
	if err != nil {
		return c, err
	}
	c.polls = m.sum("genbus_polls_total")
	if c.procs, err = r.procs.read(); err != nil {
		return c, err
	}
	c.at = time.Now()
	if c.done, err = r.pub.stored(ctx, names.Tasks(), names.DonePattern()); err != nil {
		return c, err
	}
	c.failed, err = r.pub.stored(ctx, names.Tasks(), names.Done(subject.Video, tenant, "failed", "*"))
	return c, err
}

func (r *lifecycleRun) measure(ctx context.Context) (lifecycleResult, error) {
	before, err := r.count(ctx)
	if err != nil {
		return lifecycleResult{}, err
	}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.untilEnough(gctx) })
	if r.svc.pprof != "" {
		group.Go(func() error { return r.w.profile(gctx, r.svc, r.svc.name, r.cmd.Hold) })
	}
	if err := group.Wait(); err != nil {
		return lifecycleResult{}, err
	}
	after, err := r.count(ctx)
	if err != nil {
		return lifecycleResult{}, err
	}
	return result(before, after)
}

// untilEnough waits for the hold time, or until no requests are left to publish.
func (r *lifecycleRun) untilEnough(ctx context.Context) error {
	for end := time.Now().Add(r.cmd.Hold); time.Now().Before(end); {
		if r.published.Load() >= int64(r.cmd.Lifecycles) {
			return nil
		}
		if err := r.svc.alive(); err != nil {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// leastWindow is the shortest window for a rate.
const leastWindow = 500 * time.Millisecond

func result(before, after count) (lifecycleResult, error) {
	r := lifecycleResult{Window: after.at.Sub(before.at).Seconds(), Lifecycles: after.done - before.done, Failed: after.failed - before.failed, LoadAvg: loadAverage()}
	if r.Lifecycles == 0 || r.Window < leastWindow.Seconds() {
		return r, fmt.Errorf("%d lives ended in %.2f s, which says nothing; raise --lives", r.Lifecycles, r.Window)
	}
	n := float64(r.Lifecycles)
	r.PerSecond, r.PollsPerLife = n/r.Window, (after.polls-before.polls)/n
	r.ServiceMS = perUnitMS(after.procs[0].CPU-before.procs[0].CPU, n)
	r.SandboxMS = perUnitMS(after.procs[1].CPU-before.procs[1].CPU, n)
	r.ClientMS = perUnitMS(after.procs[2].CPU-before.procs[2].CPU, n)
	return r, nil
}
