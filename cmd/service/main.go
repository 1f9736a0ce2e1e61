// Command service is genbus. It accepts requests for videos and chats over NATS, gRPC and HTTP,
// calls the upstreams, and publishes every step as an event.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"

	"github.com/genbus/genbus/client"
	"github.com/genbus/genbus/internal/command"
)

// cli is the command line. It only selects a command; package config reads the configuration.
type cli struct {
	Serve    serveCommand     `cmd:"" default:"withargs" help:"Run the service (the default)."`
	Demo     demoCommand      `cmd:"" help:"Run a video and a chat from request to end against the sandbox, in one process, and exit."`
	Submit   command.Submit   `cmd:"" help:"Submit a job and follow it to its end."`
	Tasks    command.Tasks    `cmd:"" help:"List, show and cancel jobs."`
	Events   command.Events   `cmd:"" help:"Print events as they arrive."`
	Sandbox  sandboxCommand   `cmd:"" help:"Run only the sandbox, a fake upstream, at GENBUS_SANDBOX_ADDR (127.0.0.1:8090). Model names control its behaviour, such as sandbox-video:duration_ms=20000 (docs/sandbox.md)."`
	Key      keyCommand       `cmd:"" help:"Make keys for tenants and operators."`
	Operator command.Operator `cmd:"" help:"Operate a running genbus: jobs, dead letters, bulk actions, routes, tenants, audit."`
	Config   configCommand    `cmd:"" help:"Check or print the configuration, or print an example."`
	Health   healthCommand    `cmd:"" help:"Check whether a genbus on this machine is ready."`
	Version  versionCommand   `cmd:"" help:"Print the version."`

	Completion kongcompletion.Completion `cmd:"" help:"Print the shell completion script for bash, zsh or fish."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	parser := kong.Must(&c, kong.Name("service"),
		kong.Description("genbus accepts generative model requests over NATS, gRPC and HTTP and publishes every step as an event."),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(os.Stdout, (*io.Writer)(nil)))
	kongcompletion.Register(parser) // answers a shell's completion request and exits
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		parser.Model.DefaultCmd = nil // the default command would treat a misspelt command as its argument
	}
	k, err := parser.Parse(command.JoinNegative(os.Args[1:]))
	if err != nil {
		fmt.Fprintln(os.Stderr, misused(err))
		os.Exit(command.ExitUsage) //nolint:gocritic // stop only removes the signal handler
	}
	// An interrupted command prints nothing, unless its job may have been accepted.
	if err := k.Run(); err != nil && (!errors.Is(err, context.Canceled) || errors.Is(err, client.ErrAcceptanceUnknown)) {
		fmt.Fprintln(os.Stderr, "genbus:", err)
		os.Exit(command.ExitCode(err))
	}
}

// misused returns the parse error and a one-line usage of the command.
func misused(err error) string {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok {
		return "genbus: " + err.Error()
	}
	app := parse.Context.Model
	command, usage := app.Name, app.Name+app.Summary()
	if selected := parse.Context.Selected(); selected != nil {
		command, usage = selected.FullPath(), app.Name+" "+selected.Summary()
	}
	return fmt.Sprintf("genbus: %v\nUsage: %s; run %q for help", err, usage, command+" --help")
}
