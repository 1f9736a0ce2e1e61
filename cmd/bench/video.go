package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type videoCommand struct {
	common
	Tasks              []int         `help:"Task counts in flight, one measurement each; 0 skips this." default:"1000,10000,100000"`
	Poll               time.Duration `help:"Time between two polls of a task in flight." default:"10s"`
	AckWait            time.Duration `help:"ack_wait of the route of tasks in flight, which the service extends every third of it and at least once a minute." default:"60s"`
	Hold               time.Duration `help:"Duration of each measurement." default:"30s"`
	Fsync              string        `help:"Sync every write to disk: on (the default of genbus), off, or both in sequence." enum:"on,off,both" default:"both"`
	Lifecycles         int           `help:"Maximum full lives in one measurement; 0 skips this." default:"200000" name:"lives"`
	LifecyclePoll      time.Duration `help:"Time between two polls of a task whose full life is measured." default:"1s" name:"lives-poll"`
	LifecyclesInFlight int           `help:"Tasks in flight while measuring full lives." default:"4000" name:"lives-in-flight"`
	Timeout            time.Duration `help:"Time limit of one measurement." default:"20m"`
}

type videoReport struct {
	Machine    machine           `json:"machine"`
	Flights    []flightResult    `json:"in_flight,omitempty"`
	Lifecycles []lifecycleResult `json:"lives,omitempty"`
}

const (
	// maxTasks limits the values of flags. The sandbox stores at most 1,048,576 tasks.
	maxTasks = 1_000_000
	// maxInFlight is the largest max_in_flight that the service accepts.
	maxInFlight = 1_000_000
)

func (c videoCommand) Validate() error {
	for _, n := range c.Tasks {
		if n < 0 || n > maxTasks {
			return fmt.Errorf("--tasks: %d is not between 0 and %d", n, maxTasks)
		}
	}
	switch {
	case c.Lifecycles < 0 || c.Lifecycles > maxTasks:
		return fmt.Errorf("--lives: %d is not between 0 and %d", c.Lifecycles, maxTasks)
	case c.Lifecycles > 0 && c.Lifecycles < 4*c.LifecyclesInFlight:
		return fmt.Errorf("--lives: %d is not enough to keep %d tasks in flight; want four times as many or more", c.Lifecycles, c.LifecyclesInFlight)
	case c.LifecyclesInFlight < 1 || c.LifecyclesInFlight > 120_000:
		return fmt.Errorf("--lives-in-flight: %d is not between 1 and 120000", c.LifecyclesInFlight)
	case c.Hold < time.Second || c.Poll < 100*time.Millisecond || c.LifecyclePoll < 100*time.Millisecond:
		return errors.New("--hold needs 1s or more, --poll and --lives-poll 100ms or more")
	case c.AckWait < 3*time.Second || c.AckWait > time.Hour:
		return fmt.Errorf("--ack-wait: %s is not between 3s and 1h", c.AckWait)
	}
	return nil
}

func (c videoCommand) Run(ctx context.Context) error {
	w, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	report := videoReport{Machine: thisMachine()}
	for _, sync := range c.fsyncModes() {
		for _, n := range c.Tasks {
			if n == 0 {
				continue
			}
			r, err := w.flight(ctx, c, n, sync)
			if err != nil {
				return fmt.Errorf("%d tasks in flight, fsync %s: %w", n, onOff(sync), err)
			}
			report.Flights = append(report.Flights, r)
		}
		if c.Lifecycles > 0 {
			r, err := w.lifecycles(ctx, c, sync)
			if err != nil {
				return fmt.Errorf("full lives, fsync %s: %w", onOff(sync), err)
			}
			report.Lifecycles = append(report.Lifecycles, r)
		}
	}
	if c.JSON {
		return printJSON(report)
	}
	return report.print()
}

func (c videoCommand) fsyncModes() []bool {
	switch c.Fsync {
	case "on":
		return []bool{true}
	case "off":
		return []bool{false}
	default:
		return []bool{true, false}
	}
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// Design goals for a machine with two cores.
const (
	aimLateness            = 0.1     // seconds, p99
	aimTaskBytes           = 4 << 10 // per task in flight
	aimLifecyclesPerSecond = 1000    // without fsync
	aimLifecyclesFsync     = 0.7     // lifecycles with fsync, relative to lifecycles without fsync
	aimCreateMS            = 0.25    // service CPU per task admitted and submitted, without fsync
)

func (r videoReport) print() error { return printTables(r.Machine, r.tables()) }

func (r videoReport) tables() []table {
	admission := table{title: "Admission over NATS: publish, work item, queued event; the upstream is called at the same time"}
	admission.add("tasks", "fsync", "published/s", "admitted/s", "submitted/s", "service CPU ms/task", fmt.Sprintf("aim %g (off)", aimCreateMS), "sandbox CPU ms/task")
	memory := table{title: "Memory in flight, after admission"}
	memory.add("tasks", "fsync", "idle RSS MiB", "RSS MiB", "RSS bytes/task", "live heap bytes/task", "aim 4 KiB (RSS)")
	polls := table{title: "Polling in flight"}
	polls.add("tasks", "fsync", "polls/s", "failed", "late p50 ms", "late p99 ms (its bucket)", "under 100 ms", "aim p99 < 100 ms",
		"service cores", "sandbox cores", "load")
	for _, f := range r.Flights {
		n := fmt.Sprint(f.Tasks)
		admission.add(n, f.Fsync, number(f.PublishedPerSecond), number(f.AdmittedPerSecond), number(f.SubmittedPerSecond),
			number(f.AdmissionServiceMS), aimWithout(f.Fsync, f.AdmissionServiceMS <= aimCreateMS), number(f.AdmissionSandboxMS))
		memory.add(n, f.Fsync, number(mib(f.IdleRSS)), number(mib(f.RSS)), number(f.RSSPerTask), number(f.HeapPerTask), aim(f.RSSPerTask < aimTaskBytes))
		polls.add(n, f.Fsync, number(f.PollsPerSecond), number(f.PollsFailed), number(f.LateP50*1000),
			fmt.Sprintf("%s (%s-%s)", number(f.LateP99*1000), number(f.LateP99Low*1000), number(f.LateP99High*1000)),
			fmt.Sprintf("%.2f %%", f.LateUnder100*100), aim(f.LateP99 < aimLateness), number(f.ServiceCores), number(f.SandboxCores), f.LoadAvg)
	}
	lifecycles := table{title: "Full lives: NATS publish, admission, create, two polls, all events, the feed, ack"}
	lifecycles.add("fsync", "lives/s", "aim 1,000 (off)", "on to off", fmt.Sprintf("aim %g", aimLifecyclesFsync), "service CPU ms/life", "sandbox CPU ms/life", "client CPU ms/life", "polls/life", "failed", "load")
	fsync, fsyncVerdict := r.lifecyclesFsync()
	for _, l := range r.Lifecycles {
		verdict := aimWithout(l.Fsync, l.PerSecond >= aimLifecyclesPerSecond)
		toOff, fsyncAim := "-", "-"
		if l.Fsync == onOff(true) {
			toOff, fsyncAim = ratio(fsync), fsyncVerdict
		}
		lifecycles.add(l.Fsync, number(l.PerSecond), verdict, toOff, fsyncAim, number(l.ServiceMS), number(l.SandboxMS), number(l.ClientMS), number(l.PollsPerLife),
			fmt.Sprint(l.Failed), l.LoadAvg)
	}
	return []table{admission, memory, polls, lifecycles}
}

// aimWithout returns the verdict on a design goal that applies only without fsync.
func aimWithout(fsync string, met bool) string {
	if fsync == onOff(true) {
		return "-"
	}
	return aim(met)
}

// lifecyclesFsync compares lifecycles with fsync to lifecycles without, if both were measured.
func (r videoReport) lifecyclesFsync() (toOff float64, verdict string) {
	rates := map[string]float64{}
	for _, l := range r.Lifecycles {
		rates[l.Fsync] = l.PerSecond
	}
	on, off := rates[onOff(true)], rates[onOff(false)]
	if on == 0 || off == 0 {
		return 0, "-"
	}
	return on / off, aim(on/off >= aimLifecyclesFsync)
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
