// Command soak runs genbus under faults and load, and then checks the answers of clients against
// the streams and the upstreams. It exits with status 1 if a promise was broken. It does not
// simulate power loss.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

type cli struct {
	Duration     time.Duration `default:"10m" help:"Duration of load and faults; healing takes some minutes more."`
	Seed         uint64        `help:"Seed of the faults and the load. Default: a new one, which is printed."`
	Cluster      bool          `help:"Three broker nodes and several replicas, instead of one replica with an embedded broker."`
	Replicas     int           `default:"2" help:"Replicas of the service, with --cluster."`
	Rate         float64       `default:"10" help:"Requests started per second."`
	Kills        int           `help:"Kill replicas this often at random moments, instead of following the fault plan."`
	Jobs         int           `help:"With --kills: number of queued jobs, besides inline chats. Default: 10 per kill."`
	SmallLog     bool          `help:"Use a small task log, which the fill step fills with jobs."`
	SmallDisk    bool          `help:"Put the embedded broker's data on a 1 GiB memory file system, which the full-disk step fills. Linux only."`
	SmallPayload bool          `help:"With --cluster: limit NATS messages to 512 KiB, which many replies exceed."`
	Only         []string      `help:"Steps to draw the plan from, such as node-kill. Default: all."`
	Plan         bool          `help:"Print the fault plan and exit."`
	History      string        `type:"path" help:"Check a kept history without a run."`
	Markdown     bool          `help:"Write the result as a page section."`
	Service      string        `type:"path" help:"Service binary to run. Default: build it from this module."`
	UpgradeFrom  string        `placeholder:"COMMIT" help:"Begin with the service of this commit, and replace it with this version and back, by SIGTERM and by SIGKILL."`
	Race         bool          `help:"Build the service with the race detector."`
	Keep         bool          `help:"Keep the directory with configurations, logs, data and history. It is always kept after a broken promise."`
}

// errBroken reports a run in which a promise was broken. The report contains the details.
var errBroken = errors.New("a promise was broken")

func main() {
	faultinject.MaybeServeNode()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	k := kong.Parse(&c, kong.Name("soak"), kong.UsageOnError(),
		kong.Description("Runs genbus under faults and load, and checks its promises. Power loss is not simulated."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	if err := k.Run(&c); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1) //nolint:gocritic // stop only removes the signal handler
	}
}

func (c *cli) Run(ctx context.Context) error {
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	o := c.options()
	if err := o.check(); err != nil {
		return err
	}
	if c.SmallDisk && !c.Plan && !ownsMounts() {
		return runWithMounts(ctx)
	}
	if c.Plan {
		fmt.Print(o.plan())
		return nil
	}
	r, err := c.result(ctx, o)
	if err != nil {
		return err
	}
	if c.Markdown {
		fmt.Print(r.markdown())
	} else {
		fmt.Print(r.text())
	}
	if len(r.Violations) > 0 {
		return errBroken
	}
	return nil
}

// result returns the result of a new run or of a stored history.
func (c *cli) result(ctx context.Context, o options) (result, error) {
	if c.History == "" {
		return soak(ctx, o)
	}
	h, err := kept(c.History)
	if err != nil {
		return result{}, err
	}
	r := result{options: o, End: h.Finished, Faults: h.Faults}
	r.Violations, r.Counts = check.Run(h)
	return r, nil
}

func (c *cli) options() options {
	o := options{
		Duration: c.Duration, Seed: c.Seed, Cluster: c.Cluster, Replicas: c.Replicas, Rate: c.Rate,
		SmallLog: c.SmallLog, SmallDisk: c.SmallDisk, SmallPayload: c.SmallPayload, Only: c.Only, Kills: c.Kills, Jobs: c.Jobs, Service: c.Service, UpgradeFrom: c.UpgradeFrom, Race: c.Race, Keep: c.Keep,
	}
	if !c.Cluster {
		o.Replicas = 1 // an embedded broker has a single replica
	}
	if o.Kills > 0 && o.Jobs == 0 {
		o.Jobs = 10 * o.Kills
	}
	return o
}

// progressf reports progress on stderr. Only the result goes to stdout.
func progressf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().UTC().Format("15:04:05 ")+format+"\n", args...)
}
