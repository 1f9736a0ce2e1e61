package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service/servicetest"
)

// run runs an example with a client of a real service in this process.
func run(example func(ctx context.Context, c *client.Client) error) {
	dir, err := os.MkdirTemp("", "genbus-example-")
	if err != nil {
		log.Fatal(err)
	}
	service, err := servicetest.Start(servicetest.Options{
		DataDir: dir, Sandbox: sandbox.Options{VideoDuration: 100 * time.Millisecond, ChunkInterval: time.Millisecond},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := call(service.NATSURL(), example); err != nil {
		log.Fatal(err)
	}
	stopping.Go(func() error { return errors.Join(service.Stop(), os.RemoveAll(dir)) })
}

// stopping stops the services of finished examples while the next examples run.
var stopping errgroup.Group

func call(url string, example func(ctx context.Context, c *client.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	defer nc.Close()
	c, err := client.New(nc, client.Options{})
	if err != nil {
		return err
	}
	return example(ctx, c)
}

// Request a video and wait for it. The same RequestId always returns the same task.
func Example() {
	run(func(ctx context.Context, c *client.Client) error {
		task, err := c.SubmitVideo(ctx, &genbusv1.VideoRequest{
			RequestId: "go-7",
			Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{
				Model: "sandbox-video", Prompt: "a paper boat on a quiet lake",
			}},
		})
		if err != nil {
			return err
		}
		done, err := c.WaitVideo(ctx, task.GetId())
		if err != nil {
			return err // an *Error if the task failed
		}
		fmt.Println(done.GetStatus(), len(done.GetVideos()), "video")
		return nil
	})
	// Output: JOB_STATUS_COMPLETED 1 video
}

// Follow a task. To resume later, pass the version of the last event instead of 0.
func ExampleClient_FollowVideo() {
	run(func(ctx context.Context, c *client.Client) error {
		id, err := c.PublishVideo(ctx, &genbusv1.VideoRequest{
			Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(`{"model":"sandbox-video","prompt":"a cat"}`)},
		})
		if err != nil {
			return err
		}

		for event, err := range c.FollowVideo(ctx, id, 0) {
			if err != nil {
				return err
			}
			switch task := event.GetTask(); task.GetStatus() {
			case genbusv1.JobStatus_JOB_STATUS_COMPLETED:
				fmt.Println("completed at version", event.GetVersion() == task.GetVersion())
			case genbusv1.JobStatus_JOB_STATUS_QUEUED:
				if event.GetVersion() == 1 {
					fmt.Println("accepted")
				}
			default: // in progress, failed or cancelled
			}
		}
		return nil
	})
	// Output:
	// accepted
	// completed at version true
}

// Print a chat's reply as it grows.
func ExampleClient_FollowChat() {
	run(func(ctx context.Context, c *client.Client) error {
		stream := true
		chat, err := c.SubmitChat(ctx, &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
			Model: "sandbox-chat", Stream: &stream,
			Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Text{Text: "hello"}}},
		}}})
		if err != nil {
			return err
		}

		var text string
		for item, err := range c.FollowChat(ctx, chat.GetId()) {
			if err != nil {
				return err
			}
			text += item.Text()
		}
		fmt.Println(text)
		return nil
	})
	// Output: You wrote 1 word in 5 characters. The sandbox goes on for as long as it is asked. The sandbox
}

// Read every finished video, and resume after the last one when the program restarts.
func ExampleClient_Subscribe() {
	run(func(ctx context.Context, c *client.Client) error {
		if _, err := c.PublishVideo(ctx, &genbusv1.VideoRequest{
			Labels: map[string]string{"order": "7"},
			Body:   &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-video", Prompt: "a cat"}},
		}); err != nil {
			return err
		}

		ctx, stop := context.WithCancel(ctx)
		defer stop()
		feed := client.Feed{Durable: "delivery", Kind: client.Video, Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED}
		return c.Subscribe(ctx, feed, func(_ context.Context, job client.Finished) error {
			task := job.Video.GetTask()
			fmt.Printf("order %s: %d video\n", task.GetLabels()["order"], len(task.GetVideos()))
			stop()     // a real program would continue
			return nil // acks the video; an error would redeliver it
		})
	})
	// Output: order 7: 1 video
}

// Store a request even while genbus is down. Its job has this ID from the start.
func ExampleClient_PublishVideo() {
	run(func(ctx context.Context, c *client.Client) error {
		id, err := c.PublishVideo(ctx, &genbusv1.VideoRequest{
			RequestId: "go-8",
			Body:      &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-video", Prompt: "a cat"}},
		})
		if err != nil {
			return err
		}
		fmt.Println(id == c.JobID(client.Video, "go-8"))
		_, err = c.WaitVideo(ctx, id)
		return err
	})
	// Output: true
}

// Download the first file of a video.
func ExampleClient_Content() {
	run(func(ctx context.Context, c *client.Client) error {
		task, err := c.SubmitVideo(ctx, &genbusv1.VideoRequest{
			Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-video", Prompt: "a cat"}},
		})
		if err != nil {
			return err
		}
		if _, err := c.WaitVideo(ctx, task.GetId()); err != nil {
			return err
		}

		var file bytes.Buffer
		mediaType, err := c.Content(ctx, &genbusv1.DownloadVideoRequest{Id: task.GetId()}, &file)
		fmt.Println(mediaType, file.Len() > 0)
		return err
	})
	// Output: video/mp4 true
}

// Cancel a video. The upstream may still charge for it.
func ExampleClient_CancelVideo() {
	run(func(ctx context.Context, c *client.Client) error {
		task, err := c.SubmitVideo(ctx, &genbusv1.VideoRequest{
			Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-video:duration_ms=60000", Prompt: "a cat"}},
		})
		if err != nil {
			return err
		}
		task, err = c.CancelVideo(ctx, task.GetId())
		fmt.Println(task.GetStatus())
		return err
	})
	// Output: JOB_STATUS_CANCELLED
}

// Count the failed videos, over all pages.
func ExampleClient_ListVideos() {
	run(func(ctx context.Context, c *client.Client) error {
		failed := 0
		for _, err := range c.ListVideos(ctx, &genbusv1.ListVideoTasksRequest{Status: genbusv1.JobStatus_JOB_STATUS_FAILED}) {
			if err != nil {
				return err
			}
			failed++
		}
		fmt.Println(failed, "failed")
		return nil
	})
	// Output: 0 failed
}

// List the models for videos.
func ExampleClient_Models() {
	run(func(ctx context.Context, c *client.Client) error {
		models, err := c.Models(ctx, &genbusv1.ListModelsRequest{Kind: "video"})
		for _, m := range models {
			if m.GetId() == "sandbox-video" {
				fmt.Println(m.GetKind(), m.GetId())
			}
		}
		return err
	})
	// Output: video sandbox-video
}

// Read the whole reply of a chat that has ended.
func ExampleClient_Reply() {
	run(func(ctx context.Context, c *client.Client) error {
		chat, err := c.SubmitChat(ctx, &genbusv1.ChatRequest{
			Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`)},
		})
		if err != nil {
			return err
		}
		if chat, err = c.WaitChat(ctx, chat.GetId()); err != nil {
			return err
		}

		reply, err := c.Reply(ctx, chat) // the upstream's JSON
		fmt.Println(json.Valid(reply), chat.GetUsage().GetTotalTokens() > 0)
		return err
	})
	// Output: true true
}

// A job whose order is gone cannot be handled: it is not delivered again.
func ExampleGiveUp() {
	run(func(ctx context.Context, c *client.Client) error {
		id, err := c.PublishVideo(ctx, &genbusv1.VideoRequest{
			Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-video", Prompt: "a cat"}},
		})
		if err != nil {
			return err
		}

		ctx, stop := context.WithCancel(ctx)
		return c.Subscribe(ctx, client.Feed{Durable: "orders"}, func(_ context.Context, job client.Finished) error {
			defer stop()
			fmt.Println(job.ID == id)
			return client.GiveUp(errors.New("no order"))
		})
	})
	// Output: true
}

// Compare error codes with errors.Is.
func ExampleError() {
	run(func(ctx context.Context, c *client.Client) error {
		_, err := c.SubmitVideo(ctx, &genbusv1.VideoRequest{
			Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "no-such-model", Prompt: "a cat"}},
		})

		var e *client.Error
		switch {
		case errors.Is(err, client.ErrQueueFull), errors.Is(err, client.ErrRateLimited):
			fmt.Println("send it again later")
		case errors.As(err, &e):
			fmt.Println(e.Code, e.Retry)
		}
		return nil
	})
	// Output: model_not_found false
}
