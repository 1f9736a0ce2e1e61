// Command client requests a video with package client and waits for it. With -finished it prints
// every finished video, and continues where the last run stopped.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/client"
	"github.com/genbus/genbus/client/clientotel"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func main() {
	url := flag.String("nats", nats.DefaultURL, "NATS address")
	tenant := flag.String("tenant", "default", "tenant to submit and read as")
	order := flag.String("request-id", "", "idempotency key; reusing it attaches to the first video")
	finished := flag.Bool("finished", false, "read finished videos instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, *tenant, *order, *finished); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1) //nolint:gocritic // stop only removes the signal handler
	}
}

func run(ctx context.Context, url, tenant, order string, finished bool) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1)) // keep reconnecting while NATS is down
	if err != nil {
		return err
	}
	defer nc.Close()
	// With a propagator (otel.SetTextMapPropagator), jobs belong to the traces of their requests.
	c, err := client.New(nc, client.Options{Tenant: tenant, Header: clientotel.Propagate})
	if err != nil {
		return err
	}
	if finished {
		return readFinished(ctx, c)
	}
	return makeVideo(ctx, c, order)
}

// makeVideo submits a video and prints its progress.
func makeVideo(ctx context.Context, c *client.Client, order string) error {
	task, err := c.SubmitVideo(ctx, &genbusv1.VideoRequest{
		RequestId: order,
		Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{
			Model: "sandbox-video", Prompt: "a paper boat on a quiet lake",
		}},
	})
	if err != nil {
		return err // a *client.Error with a code
	}
	for event, err := range c.FollowVideo(ctx, task.GetId(), 0) {
		if err != nil {
			return err
		}
		task = event.GetTask()
		fmt.Printf("%s  v%d  %s  %d %%\n", task.GetId(), event.GetVersion(), task.GetStatus(), task.GetProgress())
	}
	if err := client.ErrorOf(task.GetError(), task.GetId()); err != nil {
		return err
	}
	fmt.Println(result(task))
	return nil
}

// readFinished prints each finished video until ctx ends. A restart continues after the last video.
func readFinished(ctx context.Context, c *client.Client) error {
	feed := client.Feed{Durable: "example-client", Kind: client.Video, Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED}
	return c.Subscribe(ctx, feed, func(_ context.Context, job client.Finished) error {
		fmt.Println(job.ID, result(job.Video.GetTask()))
		return nil // returning an error redelivers the job
	})
}

// result returns the upstream's URL of a completed video, or the path under which genbus serves it
// if the upstream has none.
func result(task *genbusv1.VideoTask) string {
	for _, video := range task.GetVideos() {
		if video.GetUrl() != "" {
			return video.GetUrl()
		}
	}
	return "/v1/videos/" + task.GetId() + "/content"
}
