// Command client asks for a video with the package client and waits for it; with
// -finished it reads every finished video, and goes on where it stopped.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func main() {
	url := flag.String("nats", nats.DefaultURL, "NATS address")
	tenant := flag.String("tenant", "default", "tenant to submit and read as")
	order := flag.String("request-id", "", "idempotency key; the same key again is the same video")
	finished := flag.Bool("finished", false, "read finished videos instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *url, *tenant, *order, *finished); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1) //nolint:gocritic // stop only undoes the signal handler
	}
}

func run(ctx context.Context, url, tenant, order string, finished bool) error {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1)) // restarts of NATS are waited for
	if err != nil {
		return err
	}
	defer nc.Close()
	c, err := client.New(nc, client.Options{Tenant: tenant})
	if err != nil {
		return err
	}
	if finished {
		return readFinished(ctx, c)
	}
	return makeVideo(ctx, c, order)
}

// makeVideo asks for a video and prints each step of it.
func makeVideo(ctx context.Context, c *client.Client, order string) error {
	task, err := c.SubmitVideo(ctx, &genbusv1.VideoRequest{
		RequestId: order,
		Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{
			Model: "sandbox-video", Prompt: "a paper boat on a quiet lake",
		}},
	})
	if err != nil {
		return err // a *client.Error, with a code
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

// readFinished prints each finished video once, whenever it is started, until ctx ends.
func readFinished(ctx context.Context, c *client.Client) error {
	feed := client.Feed{Durable: "example-client", Kind: client.Video, Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED}
	return c.Subscribe(ctx, feed, func(_ context.Context, job client.Finished) error {
		fmt.Println(job.ID, result(job.Video.GetTask()))
		return nil // an error would bring the job again
	})
}

// result is where a completed video is: the upstream's address, or the path of genbus
// where the upstream has given none.
func result(task *genbusv1.VideoTask) string {
	for _, video := range task.GetVideos() {
		if video.GetUrl() != "" {
			return video.GetUrl()
		}
	}
	return "/v1/videos/" + task.GetId() + "/content"
}
