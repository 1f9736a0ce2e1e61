// Command service is the same program as cmd/genbus: the README starts it with "go run", and the tests
// of the whole program are in this directory.
package main

import (
	"context"
	"os"

	"github.com/genbus/genbus/internal/cli"
)

func main() { os.Exit(cli.Run(context.Background(), os.Args[1:])) }
