package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/internal/subject"
)

// flightResult is the result for one number of tasks in flight. Unless the name says otherwise,
// rates are per second, CPU is in cores, sizes are in bytes and times are in seconds.
type flightResult struct {
	Tasks int    `json:"tasks"`
	Fsync string `json:"fsync"`

	PublishedPerSecond float64 `json:"published_per_second"`
	AdmittedPerSecond  float64 `json:"admitted_per_second"`
	SubmittedPerSecond float64 `json:"submitted_per_second"`
	AdmissionServiceMS float64 `json:"admission_service_cpu_ms_per_task"`
	AdmissionSandboxMS float64 `json:"admission_sandbox_cpu_ms_per_task"`

	IdleRSS     int64   `json:"idle_rss"`
	RSS         int64   `json:"rss"`
	RSSPerTask  float64 `json:"rss_per_task"`
	IdleHeap    float64 `json:"idle_heap"`
	Heap        float64 `json:"heap"`
	HeapPerTask float64 `json:"heap_per_task"`

	Window         float64 `json:"window_seconds"`
	ServiceCores   float64 `json:"service_cores"`
	SandboxCores   float64 `json:"sandbox_cores"`
	PollsPerSecond float64 `json:"polls_per_second"`
	PollsFailed    float64 `json:"polls_failed"`
	LateP50        float64 `json:"late_p50"`
	LateP99        float64 `json:"late_p99"`
	LateP99Low     float64 `json:"late_p99_bucket_low"`
	LateP99High    float64 `json:"-"` // may be infinite
	LateUnder100   float64 `json:"late_under_100ms_share"`
	LoadAvg        string  `json:"loadavg"`
}

// neverEnds makes a sandbox video run for a week.
const neverEnds = `{"sandbox":{"duration_ms":604800000,"statuses":["in_progress","completed"]}}`

type flight struct {
	w       *workshop
	cmd     videoCommand
	svc     *service
	sandbox *child
	pub     *publisher
	procs   procs // service, sandbox
	res     flightResult
}

func (w *workshop) flight(ctx context.Context, c videoCommand, n int, sync bool) (flightResult, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	progressf("%d tasks in flight, fsync %s", n, onOff(sync))
	sandbox, upstream, err := w.startSandbox(ctx)
	if err != nil {
		return flightResult{}, err
	}
	defer sandbox.kill()
	name := fmt.Sprintf("flight-%d-%s", n, onOff(sync))
	svc, err := w.startService(ctx, name, serviceSetup{
		Upstream: upstream, Kind: "video", SyncAlways: sync, InFlight: min(max(n+n/5, 1000), maxInFlight), Queued: 2*n + 100_000, Poll: c.Poll, Jitter: 0.1, AckWait: c.AckWait,
	})
	if err != nil {
		return flightResult{}, err
	}
	defer svc.discard()
	pub, err := newPublisher(svc.nats, subject.Video, videoRequest(neverEnds))
	if err != nil {
		return flightResult{}, err
	}
	defer pub.close()
	f := &flight{w: w, cmd: c, svc: svc, sandbox: sandbox, pub: pub, procs: procs{svc.pid(), sandbox.pid()}}
	f.res.Tasks, f.res.Fsync = n, onOff(sync)
	for _, step := range []func(context.Context) error{f.idle, f.admit, f.awaitFirstPolls, f.hold} {
		if err := step(ctx); err != nil {
			return flightResult{}, err
		}
	}
	svc.discard() // before removing its data
	return f.res, discardData(w, name)
}

// discardData frees the disk for the next measurement.
func discardData(w *workshop, name string) error {
	if w.Keep {
		return nil
	}
	return os.RemoveAll(filepath.Join(w.dir, name, "data"))
}

// footprint returns the final resident size and the smallest heap over d. The smallest heap is what
// remains after garbage collection.
func (f *flight) footprint(ctx context.Context, d time.Duration) (rss int64, heap float64, err error) {
	heap = math.Inf(1)
	for end := time.Now().Add(d); ; {
		m, err := f.svc.metrics(ctx)
		if err != nil {
			return 0, 0, err
		}
		heap = min(heap, m.sum("go_memstats_heap_alloc_bytes"))
		if time.Now().After(end) {
			break
		}
		if err := pause(ctx, time.Second); err != nil {
			return 0, 0, err
		}
	}
	p, err := readProc(f.svc.pid())
	return p.RSS, heap, err
}

func (f *flight) idle(ctx context.Context) (err error) {
	f.res.IdleRSS, f.res.IdleHeap, err = f.footprint(ctx, 2*time.Second)
	return err
}

// admit publishes all requests and waits until each is submitted.
func (f *flight) admit(ctx context.Context) error {
	before, err := f.procs.read()
	if err != nil {
		return err
	}
	begin := time.Now()
	group, gctx := errgroup.WithContext(ctx)
	var published, admitted, submitted time.Duration
	group.Go(func() (err error) {
		published, err = f.pub.publishAll(gctx, f.res.Tasks)
		return err
	})
	group.Go(func() (err error) {
		admitted, submitted, err = f.watchAdmission(gctx, begin)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	after, err := f.procs.read()
	if err != nil {
		return err
	}
	n := float64(f.res.Tasks)
	f.res.PublishedPerSecond, f.res.AdmittedPerSecond, f.res.SubmittedPerSecond = n/published.Seconds(), n/admitted.Seconds(), n/submitted.Seconds()
	f.res.AdmissionServiceMS = perUnitMS(after[0].CPU-before[0].CPU, n)
	f.res.AdmissionSandboxMS = perUnitMS(after[1].CPU-before[1].CPU, n)
	return f.checkStored(ctx)
}

func perUnitMS(cpu time.Duration, n float64) float64 {
	return float64(cpu) / float64(time.Millisecond) / n
}

// watchAdmission polls the service's counters until every task is admitted and submitted.
func (f *flight) watchAdmission(ctx context.Context, begin time.Time) (admitted, submitted time.Duration, err error) {
	said := time.Now()
	for {
		m, err := f.svc.metrics(ctx)
		if err != nil {
			return 0, 0, err
		}
		// Refusals while the broker does not answer do not count, because the request is read from
		// the inbox again.
		if bad := m.sum("genbus_jobs_finished_total") + m.sum("genbus_dead_letters_total"); bad > 0 {
			return 0, 0, fmt.Errorf("%.0f tasks ended while they were admitted: %s", bad, f.svc.tail())
		}
		accepted, sent := m.sum("genbus_jobs_accepted_total", "kind", "video"), m.sum("genbus_job_transitions_total", "kind", "video", "phase", "submitted")
		if admitted == 0 && accepted >= float64(f.res.Tasks) {
			admitted = time.Since(begin)
		}
		if admitted != 0 && sent >= float64(f.res.Tasks) {
			return admitted, time.Since(begin), nil
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			progressf("  admitted %.0f, submitted %.0f after %s", accepted, sent, time.Since(begin).Round(time.Second))
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, 0, fmt.Errorf("admitted %.0f, submitted %.0f of %d: %w", accepted, sent, f.res.Tasks, err)
		}
	}
}

// checkStored checks independently of the service that the broker holds a work item for each task.
func (f *flight) checkStored(ctx context.Context) error {
	n, err := f.pub.messages(ctx, subject.Default().Work())
	if err != nil {
		return err
	}
	if n != uint64(f.res.Tasks) {
		return fmt.Errorf("the broker holds %d work items, not %d", n, f.res.Tasks)
	}
	return nil
}

// awaitFirstPolls waits until every task has had its first poll, whose event belongs to the
// admission.
func (f *flight) awaitFirstPolls(ctx context.Context) error {
	return pause(ctx, f.cmd.Poll+f.cmd.Poll/5+2*time.Second)
}

func (f *flight) hold(ctx context.Context) error {
	before, err := f.snapshot(ctx)
	if err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		f.res.RSS, f.res.Heap, err = f.footprint(gctx, f.cmd.Hold)
		return err
	})
	group.Go(func() error {
		return f.w.profile(gctx, f.svc, fmt.Sprintf("flight-%d-fsync-%s", f.res.Tasks, f.res.Fsync), f.cmd.Hold)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	after, err := f.snapshot(ctx)
	if err != nil {
		return err
	}
	f.res.LoadAvg = loadAverage()
	return f.res.compare(before, after)
}

// snapshot holds all values whose differences are measured.
type snapshot struct {
	at      time.Time
	procs   []procStat
	metrics metrics
}

func (f *flight) snapshot(ctx context.Context) (snapshot, error) {
	m, err := f.svc.metrics(ctx)
	if err != nil {
		return snapshot{}, err
	}
	p, err := f.procs.read()
	return snapshot{at: time.Now(), procs: p, metrics: m}, err
}

func (r *flightResult) compare(before, after snapshot) error {
	late, err := after.metrics.histogram("genbus_poll_lateness_seconds")
	if err != nil {
		return err
	}
	earlier, err := before.metrics.histogram("genbus_poll_lateness_seconds")
	if err != nil {
		return err
	}
	if late, err = late.since(earlier); err != nil {
		return err
	}
	r.Window = after.at.Sub(before.at).Seconds()
	r.ServiceCores = (after.procs[0].CPU - before.procs[0].CPU).Seconds() / r.Window
	r.SandboxCores = (after.procs[1].CPU - before.procs[1].CPU).Seconds() / r.Window
	r.PollsPerSecond = late.total() / r.Window
	r.PollsFailed = after.metrics.sum("genbus_polls_total", "outcome", "failed") - before.metrics.sum("genbus_polls_total", "outcome", "failed")
	r.LateP50, _, _ = late.quantile(0.5)
	r.LateP99, r.LateP99Low, r.LateP99High = late.quantile(0.99)
	r.LateUnder100 = late.below(aimLateness)
	n := float64(r.Tasks)
	r.RSSPerTask = float64(r.RSS-r.IdleRSS) / n
	r.HeapPerTask = (r.Heap - r.IdleHeap) / n
	if math.IsNaN(r.LateP99) {
		return fmt.Errorf("no poll was seen in %.0f s; raise --hold or --tasks", r.Window)
	}
	return nil
}
