package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/subject"
)

type jobsCommand struct {
	common
	Kind       []subject.Kind `help:"Jobs: ${enum}. A chat is short and not streamed; a video completes at its first poll." enum:"video,chat" default:"chat,video"`
	Fsync      []string       `help:"Sync every write to disk: ${enum}." enum:"on,off" default:"off,on"`
	Nodes      []int          `help:"NATS servers: 1 embedded, or 3 external with three copies of each stream." default:"1,3"`
	Jobs       int            `help:"Jobs per measurement of the service; the faster floor gets five times as many." default:"5000"`
	Tenants    int            `help:"Tenants of the jobs." default:"16"`
	InFlight   int            `help:"max_in_flight of the route, and the jobs that the floor holds." default:"512"`
	Preloaded  bool           `help:"Also measure with a prefilled inbox." default:"true" negatable:""`
	Rate       float64        `help:"Jobs published a second, to measure the latency of one." default:"200"`
	PacedFor   time.Duration  `help:"Time to publish jobs at that rate; 0s skips this." default:"15s"`
	Poll       time.Duration  `help:"Time between two polls of a video." default:"100ms"`
	ProfileFor time.Duration  `help:"Duration of the CPU profile of --profile, from the start of a measurement." default:"5s"`
	Timeout    time.Duration  `help:"Time limit of one measurement." default:"20m"`
}

// The compared targets, and how their inboxes are filled.
const (
	targetGenbus = "genbus"
	targetFloor  = "floor"
	inboxLive    = "live"
	inboxFull    = "full"
)

type jobsCase struct {
	Target string `json:"target"`
	Kind   string `json:"kind"`
	Nodes  int    `json:"nodes"`
	Fsync  string `json:"fsync"`
	Inbox  string `json:"inbox"` // live: filled during the measurement; full: filled before it
}

func (k jobsCase) String() string {
	return fmt.Sprintf("%s-%s-nodes-%d-fsync-%s-inbox-%s", k.Target, k.Kind, k.Nodes, k.Fsync, k.Inbox)
}

// jobsResult is the rate of jobs from the inbox to the feed. CPU is in milliseconds per job. The
// service's CPU includes an embedded broker.
type jobsResult struct {
	jobsCase
	Jobs       int     `json:"jobs"`
	Window     float64 `json:"window_seconds"`
	PerSecond  float64 `json:"jobs_per_second"`
	ServiceMS  float64 `json:"service_cpu_ms_per_job"`
	NATSMS     float64 `json:"nats_cpu_ms_per_job"` // of all external servers
	UpstreamMS float64 `json:"upstream_cpu_ms_per_job"`
	ClientMS   float64 `json:"client_cpu_ms_per_job"`
	// ToServer and FromServer are messages on the service's connection to an external server.
	ToServer   float64 `json:"to_nats_per_job,omitzero"`
	FromServer float64 `json:"from_nats_per_job,omitzero"`
	// Stored is the number of messages per job that each stream stored.
	Stored map[string]float64 `json:"stored_per_job"`
	// Ratio is relative to the floor in the same case, and RatioNoFsync is relative to the floor
	// without fsync.
	Ratio        float64 `json:"ratio_to_floor,omitzero"`
	RatioNoFsync float64 `json:"ratio_to_floor_without_fsync,omitzero"`
	LoadAvg      string  `json:"loadavg"`
}

// jobsPaced holds the delays from the publish of a job's request to the arrival of its end at the
// feed's client, at a fixed rate. Times are in seconds.
type jobsPaced struct {
	jobsCase
	Jobs          int     `json:"jobs"`
	PublishedRate float64 `json:"published_per_second"`
	P50           float64 `json:"p50"`
	P99           float64 `json:"p99"`
	// Delivery is the part after the server stamped the feed message. It consists of the synced
	// write and the delivery to the client.
	DeliveryP50 float64 `json:"delivery_p50"`
	DeliveryP99 float64 `json:"delivery_p99"`
	LoadAvg     string  `json:"loadavg"`
}

type jobsReport struct {
	Machine machine      `json:"machine"`
	Rate    float64      `json:"paced_rate"`
	Rates   []jobsResult `json:"rates"`
	Paced   []jobsPaced  `json:"paced,omitempty"`
}

func (c jobsCommand) Validate() error {
	for _, n := range c.Nodes {
		if n != 1 && n != 3 {
			return fmt.Errorf("--nodes: %d is not 1 or 3", n)
		}
	}
	switch {
	case c.Jobs < 100 || c.Jobs > maxTasks/floorTimes:
		return fmt.Errorf("--jobs: %d is not between 100 and %d", c.Jobs, maxTasks/floorTimes)
	case c.Tenants < 1 || c.Tenants > c.Jobs:
		return errors.New("--tenants: not between 1 and --jobs")
	case c.InFlight < 1 || c.InFlight > 10_000:
		return errors.New("--in-flight: not between 1 and 10000")
	case c.Rate < 1 || c.Rate > 10_000:
		return errors.New("--rate: not between 1 and 10000")
	case c.PacedFor != 0 && c.PacedFor < time.Second || c.ProfileFor < time.Second:
		return errors.New("--paced-for needs 0s, or 1s or more, and --profile-for 1s or more")
	case c.Poll < 10*time.Millisecond:
		return errors.New("--poll needs 10ms or more")
	}
	return nil
}

// cases returns all measurements. The floor comes directly before the service that it is compared
// with.
func (c jobsCommand) cases() (all []jobsCase) {
	inboxes := []string{inboxLive}
	if c.Preloaded {
		inboxes = append(inboxes, inboxFull)
	}
	for _, nodes := range c.Nodes {
		for _, kind := range c.Kind {
			for _, fsync := range c.Fsync {
				for _, inbox := range inboxes {
					for _, target := range []string{targetFloor, targetGenbus} {
						all = append(all, jobsCase{Target: target, Kind: string(kind), Nodes: nodes, Fsync: fsync, Inbox: inbox})
					}
				}
			}
		}
	}
	return all
}

func (c jobsCommand) Run(ctx context.Context) error {
	w, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	report := jobsReport{Machine: thisMachine(), Rate: c.Rate}
	for _, k := range c.cases() {
		progressf("%s", k)
		r, err := w.jobs(ctx, c, k)
		if err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
		report.Rates = append(report.Rates, r.rate)
		if r.paced != nil {
			report.Paced = append(report.Paced, *r.paced)
		}
	}
	compareJobs(report.Rates)
	if c.JSON {
		return printJSON(report)
	}
	return report.print()
}

// floorTimes multiplies the jobs of the floor, so that its window is long enough for a rate.
const floorTimes = 5

// jobs performs one measurement with its own processes and streams.
func (w *workshop) jobs(ctx context.Context, c jobsCommand, k jobsCase) (r *jobsRun, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if k.Target == targetFloor {
		c.Jobs *= floorTimes
	}
	r = &jobsRun{w: w, cmd: c, jobsCase: k}
	defer func() { err = errors.Join(err, r.discard()) }()
	steps := []func(context.Context) error{r.startNeighbours, r.start, r.connect, r.warmUp, r.measure, r.pace}
	if k.Inbox == inboxFull {
		steps = []func(context.Context) error{r.startNeighbours, r.preload, r.start, r.connect, r.measure}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}
