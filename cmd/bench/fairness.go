package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/genbus/genbus/internal/subject"
)

type fairnessCommand struct {
	common
	Queued   int           `help:"Queued jobs of one tenant when another tenant arrives." default:"10000"`
	InFlight int           `help:"max_in_flight of the route." default:"100"`
	Ready    int           `help:"ready_jobs of the route; 0 for the default." default:"0"`
	Life     time.Duration `help:"Duration of one job at the upstream." default:"1s"`
	Rounds   int           `help:"Tenants that arrive in sequence." default:"10"`
	Hold     time.Duration `help:"Time over which to measure the start rate." default:"10s"`
	Fsync    bool          `help:"Sync every write to disk, as genbus does by default." default:"true" negatable:""`
	Timeout  time.Duration `help:"Time limit of one measurement." default:"20m"`
}

// fairnessResult is the result for one kind of queue. Times are in seconds.
type fairnessResult struct {
	Queue           string `json:"queue"`
	Ready           int    `json:"ready_jobs"`
	OtherTenantJobs int    `json:"queued_by_the_other_tenant"`
	Rounds          int    `json:"rounds"`

	// Before is the number of the busy tenant's jobs started between a newcomer's request and the
	// start of its job.
	Before spread `json:"started_before"`
	Wait   spread `json:"wait"`
	// PerSecond is the rate at which the busy tenant's jobs were started.
	PerSecond float64 `json:"started_per_second"`
	LoadAvg   string  `json:"loadavg"`
}

type fairnessReport struct {
	Machine machine          `json:"machine"`
	Queues  []fairnessResult `json:"queues"`
}

// unlimitedWindow is a ready window that never fills up, so jobs skip the backlog and start in
// order of arrival.
const unlimitedWindow = 1_000_000_000

func (c fairnessCommand) Validate() error {
	switch {
	case c.Queued < 100 || c.Queued > maxTasks:
		return fmt.Errorf("--queued: %d is not between 100 and %d", c.Queued, maxTasks)
	case c.InFlight < 1 || c.InFlight > c.Queued:
		return fmt.Errorf("--in-flight: %d is not between 1 and --queued", c.InFlight)
	case c.Rounds < 1 || c.Life < 10*time.Millisecond || c.Hold < time.Second:
		return errors.New("--rounds needs 1 or more, --life 10ms, --hold 1s")
	}
	return nil
}

func (c fairnessCommand) Run(ctx context.Context) error {
	w, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	report := fairnessReport{Machine: thisMachine()}
	for _, m := range []fairnessResult{
		{Queue: "no one else", Ready: c.Ready, Rounds: c.Rounds},
		{Queue: "in turn by tenant", Ready: c.Ready, OtherTenantJobs: c.Queued, Rounds: c.Rounds},
		{Queue: "in order of arrival", Ready: unlimitedWindow, OtherTenantJobs: c.Queued, Rounds: 1},
	} {
		if err := w.fairness(ctx, c, &m); err != nil {
			return fmt.Errorf("%s: %w", m.Queue, err)
		}
		report.Queues = append(report.Queues, m)
	}
	if c.JSON {
		return printJSON(report)
	}
	return report.print()
}

// fairness queues the jobs of the busy tenant and then measures newcomers.
func (w *workshop) fairness(ctx context.Context, c fairnessCommand, res *fairnessResult) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	progressf("%s, %d jobs queued", res.Queue, res.OtherTenantJobs)
	sandbox, upstream, err := w.startSandbox(ctx)
	if err != nil {
		return err
	}
	defer sandbox.kill()
	name := fmt.Sprintf("fairness-%d-%d", res.Ready, res.OtherTenantJobs)
	svc, err := w.startService(ctx, name, serviceSetup{
		Upstream: upstream, Kind: "video", SyncAlways: c.Fsync, InFlight: c.InFlight, Queued: 2*c.Queued + 1000, Ready: res.Ready,
		Poll: max(c.Life/4, 10*time.Millisecond),
	})
	if err != nil {
		return err
	}
	defer svc.discard()
	pub, err := newPublisher(svc.nats, subject.Video, videoRequest(fmt.Sprintf(`{"sandbox":{"duration_ms":%d,"statuses":["in_progress","completed"]}}`, c.Life.Milliseconds())))
	if err != nil {
		return err
	}
	defer pub.close()
	f := &fairnessRun{cmd: c, svc: svc, pub: pub, res: res}
	if f.starts, err = followStarts(pub.nc); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{f.queue, f.rate, f.rounds} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	res.LoadAvg = loadAverage()
	svc.discard() // before removing its data
	return discardData(w, name)
}

type fairnessRun struct {
	cmd    fairnessCommand
	svc    *service
	pub    *publisher
	starts *starts
	res    *fairnessResult
}

// queue submits the busy tenant's jobs and waits until they are accepted.
func (f *fairnessRun) queue(ctx context.Context) error {
	f.pub.subject = subject.Default().Request(subject.Video, busyTenant)
	if _, err := f.pub.publishAll(ctx, f.res.OtherTenantJobs); err != nil {
		return err
	}
	for {
		m, err := f.svc.metrics(ctx)
		if err != nil {
			return err
		}
		if n := m.sum("genbus_jobs_refused_total") + m.sum("genbus_dead_letters_total"); n > 0 {
			return fmt.Errorf("%.0f jobs were refused: %s", n, f.svc.tail())
		}
		if m.sum("genbus_jobs_accepted_total", "kind", "video") >= float64(f.res.OtherTenantJobs) {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// rate measures the rate of starts while the queue is long.
func (f *fairnessRun) rate(ctx context.Context) error {
	if f.res.OtherTenantJobs == 0 {
		return nil
	}
	begin, before := time.Now(), f.starts.busyOnes()
	if err := pause(ctx, f.cmd.Hold); err != nil {
		return err
	}
	f.res.PerSecond = float64(f.starts.busyOnes()-before) / time.Since(begin).Seconds()
	if left := f.res.OtherTenantJobs - f.starts.busyOnes(); left < f.cmd.InFlight {
		return fmt.Errorf("only %d jobs are left in the queue; raise --queued or --life", left)
	}
	return nil
}

// rounds measures the first job of one newcomer after another.
func (f *fairnessRun) rounds(ctx context.Context) error {
	var before, wait []float64
	for i := range f.res.Rounds {
		tenant := fmt.Sprint("newcomer-", i)
		f.pub.subject = subject.Default().Request(subject.Video, tenant)
		begin, busy := time.Now(), f.starts.busyOnes()
		if _, err := f.pub.publishAll(ctx, 1); err != nil {
			return err
		}
		first, err := f.starts.first(ctx, tenant)
		if err != nil {
			return fmt.Errorf("the first job of %s was not started: %w", tenant, err)
		}
		before, wait = append(before, float64(first.busy-busy)), append(wait, first.at.Sub(begin).Seconds())
		if err := f.svc.alive(); err != nil {
			return err
		}
		if err := pause(ctx, f.cmd.Life); err != nil {
			return err
		}
	}
	f.res.Before, f.res.Wait = spreadOf(before), spreadOf(wait)
	return nil
}

func (r fairnessReport) print() error {
	fmt.Printf("%s, %d cores, %s, load %s\n", r.Machine.CPU, r.Machine.Cores, r.Machine.Go, r.Machine.LoadAvg)
	t := table{title: "The first job of a tenant, while another one has very many queued: median (least-most)"}
	t.add("queue", "queued ahead", "started before it", "wait s", "rounds", "starts/s", "load")
	for _, q := range r.Queues {
		rate := "-"
		if q.OtherTenantJobs > 0 {
			rate = number(q.PerSecond)
		}
		t.add(q.Queue, fmt.Sprint(q.OtherTenantJobs), q.Before.String(), q.Wait.String(), fmt.Sprint(q.Rounds), rate, q.LoadAvg)
	}
	return t.write(os.Stdout)
}
