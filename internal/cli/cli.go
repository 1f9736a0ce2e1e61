// Package cli is the command line of genbus.
package cli

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
	"github.com/genbus/genbus/internal/process"
)

// cli is the command line. It only selects a command; package config reads the configuration.
type cli struct {
	Serve    serveCommand     `cmd:"" default:"withargs" help:"Run the service (the default)."`
	Demo     demoCommand      `cmd:"" help:"Run a video and a chat from request to end against the sandbox, in one process, and exit."`
	Submit   command.Submit   `cmd:"" help:"Submit a job and follow it to its end."`
	Tasks    command.Tasks    `cmd:"" help:"List, show and cancel jobs."`
	Models   command.Models   `cmd:"" help:"List the models that can be requested."`
	Events   command.Events   `cmd:"" help:"Print events as they arrive."`
	Sandbox  sandboxCommand   `cmd:"" help:"Run only the sandbox, a fake upstream, at GENBUS_SANDBOX_ADDR (127.0.0.1:8090). Model names control its behaviour, such as sandbox-video:duration_ms=20000 (docs/sandbox.md)."`
	Key      keyCommand       `cmd:"" help:"Make keys for tenants and operators."`
	Operator command.Operator `cmd:"" help:"Operate a running genbus: jobs, dead letters, bulk actions, routes, tenants, audit."`
	Config   configCommand    `cmd:"" help:"Check or print the configuration, or print an example."`
	Health   healthCommand    `cmd:"" help:"Check whether a genbus on this machine is ready."`
	Version  versionCommand   `cmd:"" help:"Print the version."`
	Help     helpCommand      `cmd:"" help:"Print the help of a command."`

	Completion kongcompletion.Completion `cmd:"" help:"Print the shell completion script for bash, zsh or fish."`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version."`
}

// Run runs the command of args and returns the exit code.
func Run(ctx context.Context, args []string) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	parser := kong.Must(&c, kong.Name("genbus"), kong.Vars{"version": process.ReadBuild().String()},
		kong.Description("genbus accepts generative model requests over NATS, gRPC and HTTP and publishes every step as an event."),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(os.Stdout, (*io.Writer)(nil)))
	kongcompletion.Register(parser) // answers a shell's completion request and exits
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		parser.Model.DefaultCmd = nil // the default command would treat a misspelt command as its argument
	}
	k, err := parser.Parse(command.JoinNegative(args))
	if err == nil {
		err = k.Run()
	}
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok {
		fmt.Fprintln(os.Stderr, misused(wrong))
		return command.ExitUsage
	}
	// An interrupted command prints nothing, unless its job may have been accepted.
	if err == nil || errors.Is(err, context.Canceled) && !errors.Is(err, client.ErrAcceptanceUnknown) {
		return 0
	}
	fmt.Fprintln(os.Stderr, "genbus:", err)
	return command.ExitCode(err)
}

// misused returns the parse error and a one-line usage of the command.
func misused(err *kong.ParseError) string {
	app := err.Context.Model
	command, usage := app.Name, app.Name+app.Summary()
	if selected := err.Context.Selected(); selected != nil {
		command, usage = selected.FullPath(), app.Name+" "+selected.Summary()
	}
	return fmt.Sprintf("genbus: %v\nUsage: %s; run %q for help", err, usage, command+" --help")
}

type helpCommand struct {
	Command []string `arg:"" optional:"" help:"Command to explain, such as tasks list."`
}

// Run prints the same as --help after the command.
func (c helpCommand) Run(k *kong.Context) error {
	_, err := k.Parse(append(c.Command, "--help"))
	return err
}
