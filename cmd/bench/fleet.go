package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/genbus/genbus/internal/subject"
)

type fleetCommand struct {
	common
	Routes        int           `help:"Routes of the single idle replica; 0 skips this." default:"1000"`
	Warmup        time.Duration `help:"Warm-up time of that replica." default:"5m" name:"settle"`
	Hold          time.Duration `help:"Measurement time of that replica." default:"2m"`
	Replicas      []int         `help:"Replica counts, one measurement each, and one of a single replica with its share of the jobs of the largest. 0 skips this." default:"1,4,8,16"`
	Kind          subject.Kind  `help:"Jobs of the replicas: ${enum}. A chat is short and not streamed." enum:"video,chat" default:"video"`
	Rate          float64       `help:"Jobs published in a second." default:"20"`
	JobsFor       time.Duration `help:"Time to publish jobs." default:"30s"`
	ReplicaWarmup time.Duration `help:"Idle time of replicas before the measurement." default:"10s" name:"replica-settle"`
	ReplicaHold   time.Duration `help:"Measurement time of idle replicas." default:"10s"`
	Timeout       time.Duration `help:"Time limit of one measurement." default:"20m"`
}

// idleResult is the result for one replica without jobs. Rates are per second.
type idleResult struct {
	Routes int     `json:"routes"`
	Warmup float64 `json:"settle_seconds"`
	Window float64 `json:"window_seconds"`
	Cores  float64 `json:"cores"`
	// ToServer and FromServer are messages on the replica's connection.
	ToServer    float64 `json:"to_nats_per_second"`
	FromServer  float64 `json:"from_nats_per_second"`
	ServerCores float64 `json:"nats_cores"`
	LoadAvg     string  `json:"loadavg"`
}

// replicasResult is the combined result for several replicas. Values per job exclude what idle
// replicas would have used in the same time.
type replicasResult struct {
	Kind     string `json:"kind"`
	Replicas int    `json:"replicas"`
	// ShareOf is set if one replica ran its share of the jobs of that many replicas.
	ShareOf   int     `json:"share_of,omitzero"`
	Jobs      int     `json:"jobs"`
	IdleCores float64 `json:"idle_cores"`
	// IdleMessages are messages per second in both directions.
	IdleMessages float64 `json:"idle_messages_per_second"`
	Window       float64 `json:"window_seconds"`
	CPU          float64 `json:"cpu_ms_per_job"`
	ToServer     float64 `json:"to_nats_per_job"`
	FromServer   float64 `json:"from_nats_per_job"`
	ServerCPU    float64 `json:"nats_cpu_ms_per_job"`
	// CPURatio and MessagesRatio are relative to one replica, or 0 if that was not measured.
	CPURatio      float64 `json:"cpu_ratio,omitzero"`
	MessagesRatio float64 `json:"messages_ratio,omitzero"`
	LoadAvg       string  `json:"loadavg"`
}

type fleetReport struct {
	Machine  machine          `json:"machine"`
	Idle     *idleResult      `json:"idle_routes,omitempty"`
	Replicas []replicasResult `json:"replicas,omitempty"`
}

// Design goals for an idle replica, and for the largest number of replicas relative to one replica.
const (
	aimIdleCores    = 0.02
	aimIdleMessages = 50 // per second, both directions together
	aimFleetRatio   = 1.2
)

const (
	maxRoutes   = 10_000
	maxReplicas = 64
)

func (c fleetCommand) Validate() error {
	for _, n := range c.Replicas {
		if n < 0 || n > maxReplicas {
			return fmt.Errorf("--replicas: %d is not between 0 and %d", n, maxReplicas)
		}
	}
	switch {
	case c.Routes < 0 || c.Routes > maxRoutes:
		return fmt.Errorf("--routes: %d is not between 0 and %d", c.Routes, maxRoutes)
	case c.Rate < 1 || c.Rate > 1000:
		return errors.New("--rate: not between 1 and 1000")
	case c.Warmup < 0 || c.ReplicaWarmup < 0:
		return errors.New("--settle and --replica-settle need 0s or more")
	case c.Hold < time.Second || c.ReplicaHold < time.Second || c.JobsFor < time.Second:
		return errors.New("--hold, --replica-hold and --jobs-for need 1s or more")
	}
	return nil
}

func (c fleetCommand) Run(ctx context.Context) error {
	w, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	report := fleetReport{Machine: thisMachine()}
	if c.Routes > 0 {
		r, err := w.idleRoutes(ctx, c)
		if err != nil {
			return fmt.Errorf("idle routes: %w", err)
		}
		report.Idle = &r
	}
	for _, n := range c.Replicas {
		if n == 0 {
			continue
		}
		r, err := w.replicas(ctx, c, n)
		if err != nil {
			return fmt.Errorf("%d replicas: %w", n, err)
		}
		report.Replicas = append(report.Replicas, r)
	}
	if most := slices.Max(append([]int{0}, c.Replicas...)); most > 1 {
		r, err := w.share(ctx, c, most)
		if err != nil {
			return fmt.Errorf("one replica with its share of the jobs: %w", err)
		}
		report.Replicas = append(report.Replicas, r)
	}
	compareReplicas(report.Replicas)
	if c.JSON {
		return printJSON(report)
	}
	return report.print()
}

// idleRoutes measures one replica with many routes and no jobs.
func (w *workshop) idleRoutes(ctx context.Context, c fleetCommand) (idleResult, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	progressf("one replica with %d routes and no job", c.Routes)
	f, err := w.startFleet(ctx, "routes", 1, serviceSetup{Kind: "video", Routes: c.Routes, InFlight: 4, Queued: 1000, Poll: time.Second})
	if err != nil {
		return idleResult{}, err
	}
	defer f.discard()
	if err := f.wait(ctx, c.Warmup); err != nil {
		return idleResult{}, err
	}
	used, err := f.measure(ctx, func() error { return w.profile(ctx, f.services[0], "routes", c.Hold) })
	if err != nil {
		return idleResult{}, err
	}
	return idleResult{
		Routes: c.Routes, Warmup: c.Warmup.Seconds(), Window: used.seconds, Cores: used.cpu.Seconds() / used.seconds,
		ToServer: float64(used.messages.In) / used.seconds, FromServer: float64(used.messages.Out) / used.seconds,
		ServerCores: used.serverCPU.Seconds() / used.seconds, LoadAvg: loadAverage(),
	}, nil
}

// A video's second poll finds it completed.
const (
	fleetPoll = 250 * time.Millisecond
	fleetLife = fleetPoll * 19 / 10
)

func (w *workshop) replicas(ctx context.Context, c fleetCommand, n int) (replicasResult, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	progressf("replicas: %d, with %g jobs (%s) a second", n, c.Rate, c.Kind)
	f, err := w.startFleet(ctx, fmt.Sprint("replicas-", n), n, serviceSetup{
		Kind: string(c.Kind), InFlight: max(100, int(4*c.Rate)), Queued: 100_000, Poll: fleetPoll,
	})
	if err != nil {
		return replicasResult{}, err
	}
	defer f.discard()
	jobs, err := newFleetJobs(f, c.Kind)
	if err != nil {
		return replicasResult{}, err
	}
	defer jobs.close()
	// Exclude the one-time work for a replica's first jobs.
	if err := jobs.run(ctx, warmUpJobs*n, c.Rate); err != nil {
		return replicasResult{}, err
	}
	if err := f.wait(ctx, c.ReplicaWarmup); err != nil {
		return replicasResult{}, err
	}
	idle, err := f.measure(ctx, func() error { return f.wait(ctx, c.ReplicaHold) })
	if err != nil {
		return replicasResult{}, err
	}
	count := max(1, int(c.Rate*c.JobsFor.Seconds()))
	busy, err := f.measure(ctx, func() error { return jobs.run(ctx, count, c.Rate) })
	if err != nil {
		return replicasResult{}, err
	}
	r := perJob(n, count, idle, busy)
	r.Kind = string(c.Kind)
	return r, nil
}

// share measures one replica with the number of jobs that each of n replicas gets. A mostly idle
// process uses more CPU per job, so only the difference from this result is the cost of n replicas.
func (w *workshop) share(ctx context.Context, c fleetCommand, n int) (replicasResult, error) {
	c.Rate /= float64(n)
	c.JobsFor = max(c.JobsFor, shareFor)
	r, err := w.replicas(ctx, c, 1)
	r.ShareOf = n
	return r, err
}

// shareFor is the minimum duration of a share, which has few jobs.
const shareFor = time.Minute

const warmUpJobs = 5

// perJob returns the usage per job, without the usage of idle replicas in the same time.
func perJob(replicas, jobs int, idle, busy usage) replicasResult {
	n, times := float64(jobs), busy.seconds/idle.seconds
	beyond := func(busy, idle int64) float64 { return (float64(busy) - times*float64(idle)) / n }
	milliseconds := float64(time.Millisecond)
	return replicasResult{
		Replicas: replicas, Jobs: jobs, Window: busy.seconds, LoadAvg: loadAverage(),
		IdleCores:    idle.cpu.Seconds() / idle.seconds,
		IdleMessages: float64(idle.messages.In+idle.messages.Out) / idle.seconds,
		CPU:          beyond(int64(busy.cpu), int64(idle.cpu)) / milliseconds,
		ToServer:     beyond(busy.messages.In, idle.messages.In),
		FromServer:   beyond(busy.messages.Out, idle.messages.Out),
		ServerCPU:    beyond(int64(busy.serverCPU), int64(idle.serverCPU)) / milliseconds,
	}
}

func (r replicasResult) messages() float64 { return r.ToServer + r.FromServer }

// compareReplicas sets the ratios to one replica, if that was measured.
func compareReplicas(all []replicasResult) {
	one := slices.IndexFunc(all, func(r replicasResult) bool { return r.Replicas == 1 && r.ShareOf == 0 })
	if one < 0 {
		return
	}
	base := all[one]
	for i := range all {
		if base.CPU > 0 {
			all[i].CPURatio = all[i].CPU / base.CPU
		}
		if base.messages() > 0 {
			all[i].MessagesRatio = all[i].messages() / base.messages()
		}
	}
}

func (r fleetReport) print() error { return printTables(r.Machine, r.tables()) }

func (r fleetReport) tables() []table {
	idle := table{title: "One replica without jobs, on an external NATS server"}
	idle.add("routes", "after s", "over s", "cores", fmt.Sprintf("aim %g cores", aimIdleCores), "to NATS/s", "from NATS/s", "both/s",
		fmt.Sprintf("aim %d/s", aimIdleMessages), "NATS cores", "load")
	if i := r.Idle; i != nil {
		both := i.ToServer + i.FromServer
		idle.add(fmt.Sprint(i.Routes), number(i.Warmup), number(i.Window), number(i.Cores), aim(i.Cores <= aimIdleCores), number(i.ToServer), number(i.FromServer),
			number(both), aim(both <= aimIdleMessages), number(i.ServerCores), i.LoadAvg)
	}
	replicas := table{title: "The same jobs on more replicas, all together: for each job beyond what idle replicas use"}
	replicas.add("replicas", "kind", "jobs", "idle cores", "idle messages/s", "CPU ms/job", "ratio to 1", "to NATS/job", "from NATS/job", "ratio to 1",
		fmt.Sprintf("aim %g (both)", aimFleetRatio), "NATS CPU ms/job", "load")
	most := 0
	for _, m := range r.Replicas {
		most = max(most, m.Replicas)
	}
	for _, m := range r.Replicas {
		verdict := "-"
		if m.Replicas == most && most > 1 && m.CPURatio > 0 && m.MessagesRatio > 0 {
			verdict = aim(m.CPURatio <= aimFleetRatio && m.MessagesRatio <= aimFleetRatio)
		}
		name := fmt.Sprint(m.Replicas)
		if m.ShareOf > 0 {
			name += fmt.Sprintf(", with 1/%d of the jobs", m.ShareOf)
		}
		replicas.add(name, m.Kind, fmt.Sprint(m.Jobs), number(m.IdleCores), number(m.IdleMessages), number(m.CPU), ratio(m.CPURatio),
			number(m.ToServer), number(m.FromServer), ratio(m.MessagesRatio), verdict, number(m.ServerCPU), m.LoadAvg)
	}
	return []table{idle, replicas}
}

// ratio formats a ratio, or a dash for 0.
func ratio(v float64) string {
	if v == 0 {
		return "-"
	}
	return number(v)
}
