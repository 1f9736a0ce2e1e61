// Command genbus accepts requests for videos and chats over NATS, gRPC and HTTP, calls the upstreams,
// and publishes every step as an event.
package main

import (
	"context"
	"os"

	"github.com/genbus/genbus/internal/cli"
)

func main() { os.Exit(cli.Run(context.Background(), os.Args[1:])) }
