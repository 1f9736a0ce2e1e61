// Command openapi creates a video task, waits for it and downloads the video. Its client is
// generated from docs/openapi.json.
package main

//go:generate mkdir -p genbusapi
//go:generate go tool oapi-codegen -config oapi-codegen.yaml ../../docs/openapi.json

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/genbus/genbus/examples/openapi/genbusapi"
)

func main() {
	address := flag.String("address", "http://127.0.0.1:8080", "address of genbus")
	key := flag.String("key", os.Getenv("GENBUS_API_KEY"), "API key, if genbus requires one")
	file := flag.String("out", "video.mp4", "file to write")
	flag.Parse()
	if err := run(*address, *key, *file); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func run(address, key, file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	client, err := genbusapi.NewClientWithResponses(address, genbusapi.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		return nil
	}))
	if err != nil {
		return err
	}
	id, err := create(ctx, client)
	if err != nil {
		return err
	}
	if err := wait(ctx, client, id); err != nil {
		return err
	}
	return download(ctx, client, id, file)
}

func create(ctx context.Context, client *genbusapi.ClientWithResponses) (string, error) {
	prompt := "a paper boat"
	created, err := client.CreateGenerationWithResponse(ctx, &genbusapi.CreateGenerationParams{}, genbusapi.GenerationRequest{
		Model: "sandbox-video", Prompt: &prompt,
	})
	if err != nil {
		return "", err
	}
	if created.JSON200 == nil {
		return "", fmt.Errorf("create: %s: %s", created.Status(), created.Body)
	}
	fmt.Println(created.JSON200.Id, created.JSON200.Status)
	return created.JSON200.Id, nil
}

// wait polls the task once a second until it has ended.
func wait(ctx context.Context, client *genbusapi.ClientWithResponses, id string) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		task, err := client.GetGenerationWithResponse(ctx, id)
		if err != nil {
			return err
		}
		if task.JSON200 == nil {
			return fmt.Errorf("get: %s: %s", task.Status(), task.Body)
		}
		switch task.JSON200.Status {
		case genbusapi.Completed:
			fmt.Println(id, task.JSON200.Status)
			return nil
		case genbusapi.Failed, genbusapi.Cancelled:
			return fmt.Errorf("%s: %s: %+v", id, task.JSON200.Status, task.JSON200.Error)
		case genbusapi.Queued, genbusapi.InProgress:
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func download(ctx context.Context, client *genbusapi.ClientWithResponses, id, file string) (err error) {
	answer, err := client.DownloadVideo(ctx, id, &genbusapi.DownloadVideoParams{})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("download: %s", answer.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	n, err := io.Copy(out, answer.Body)
	fmt.Println(file, n, "bytes")
	return err
}
