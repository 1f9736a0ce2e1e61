// Command first is the example in the README. It requests a video and prints its URL.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func main() {
	url := nats.DefaultURL
	if len(os.Args) > 1 {
		url = os.Args[1]
	}
	if err := run(context.Background(), url); err != nil {
		fmt.Fprintln(os.Stderr, "first:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string) error {
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	c, err := client.New(nc, client.Options{Tenant: "default"})
	if err != nil {
		return err
	}
	return makeVideo(ctx, c)
}

func makeVideo(ctx context.Context, c *client.Client) error {
	request := &genbusv1.VideoGeneration{Model: "sandbox-video", Prompt: "a paper boat"}
	task, err := c.SubmitVideo(ctx, &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: request}})
	if err != nil {
		return err // the job was not accepted, or the error says that this is unknown
	}
	for event, err := range c.FollowVideo(ctx, task.GetId(), 0) {
		if err != nil {
			return err
		}
		task = event.GetTask() // one event per change; the last one is terminal
	}
	fmt.Println(task.GetStatus(), task.GetVideos(), task.GetError())
	return nil
}
