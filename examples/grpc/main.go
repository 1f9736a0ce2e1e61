// Command grpc creates a video task over gRPC and watches it until it ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
)

func main() {
	address := flag.String("address", "127.0.0.1:9090", "address of genbus")
	key := flag.String("key", os.Getenv("GENBUS_API_KEY"), "API key, if genbus requires one")
	flag.Parse()
	if err := run(*address, *key); err != nil {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		os.Exit(1)
	}
}

func run(address, key string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // the process exits
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	return createAndWatch(ctx, genbusv1grpc.NewVideoServiceClient(conn))
}

func createAndWatch(ctx context.Context, client genbusv1grpc.VideoServiceClient) error {
	created, err := client.CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{
		Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-video", Prompt: "a paper boat"}},
	}})
	if err != nil {
		return err
	}
	stream, err := client.WatchVideoTask(ctx, &genbusv1.WatchVideoTaskRequest{Id: created.GetTask().GetId()})
	if err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) { // after the terminal event
			return nil
		}
		if err != nil {
			return err
		}
		task := m.GetEvent().GetTask()
		fmt.Println(m.GetEvent().GetVersion(), task.GetStatus(), task.GetProgress(), task.GetVideos())
	}
}
