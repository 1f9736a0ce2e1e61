// Command bench measures a genbus service from the outside: video tasks, waits behind other
// tenants, result files, queued jobs against a plain consumer, replicas on one NATS server, and
// chats against a reverse proxy. It measures followers of jobs within its own process. It prints
// the results even if they miss the design goals.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type cli struct {
	Video     videoCommand     `cmd:"" help:"Measure video tasks: admission, many in flight, full lives."`
	Chat      chatCommand      `cmd:"" help:"Compare the chat path with httputil.ReverseProxy in front of the same upstream."`
	Content   contentCommand   `cmd:"" help:"Measure result files through the service: memory, speed and CPU."`
	Fairness  fairnessCommand  `cmd:"" help:"Measure how long a tenant's first job waits behind another tenant's long queue."`
	Fleet     fleetCommand     `cmd:"" help:"Measure replicas on one external NATS server: many idle routes, and the cost of a job on more replicas."`
	Followers followersCommand `cmd:"" help:"Measure followers of running chats: latency from publish to follower, and their cost for the broker."`
	Jobs      jobsCommand      `cmd:"" help:"Measure queued chats and short videos from inbox to feed, compared with a plain consumer."`
	Floor     floorCommand     `cmd:"" hidden:"" help:"Run the plain consumer that jobs compares with."`
	NATS      natsCommand      `cmd:"" name:"nats" hidden:"" help:"Run an external NATS server with monitoring."`
	Proxy     proxyCommand     `cmd:"" hidden:"" help:"Run the reverse proxy that chat compares with."`
	Upstream  upstreamCommand  `cmd:"" hidden:"" help:"Run the upstream for chat: no latency, and only the requested pacing."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	k := kong.Parse(&c, kong.Name("bench"), kong.UsageOnError(),
		kong.Description("Measures genbus. Everything runs on this machine, on free ports and in a temporary directory."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	err := k.Run()
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1) //nolint:gocritic // stop only removes the signal handler
	}
}

// common contains the flags of every measurement.
type common struct {
	Service string `help:"Service binary to measure. Default: build it from this module." type:"path"`
	JSON    bool   `help:"Print the results as JSON instead of tables." name:"json"`
	Profile string `help:"Directory for CPU and heap profiles of the service. It then runs with an extra profiling listener." type:"path"`
	Keep    bool   `help:"Keep the temporary directory with configurations and logs."`
}

// progressf reports progress on stderr. Only the results go to stdout.
func progressf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
