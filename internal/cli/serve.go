package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/process"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/internal/telemetry"
)

type serveCommand struct {
	Config  string `help:"Configuration file; overrides GENBUS_CONFIG." type:"path"`
	Sandbox bool   `help:"Also start the sandbox, a fake upstream with the models sandbox-video, sandbox-videos, sandbox-kling, sandbox-jimeng and sandbox-chat."`
}

// Run serves until ctx ends.
func (c serveCommand) Run(ctx context.Context) (err error) {
	reloads, ignore := notifyReload()
	defer ignore()
	source := config.ProcessSource(c.Config)
	cfg, err := config.Load(source)
	if err != nil {
		return wrongConfig(err)
	}
	if c.Sandbox {
		up, err := sandbox.Start("127.0.0.1:0", sandbox.Options{})
		if err != nil {
			return err
		}
		defer up.Close() //nolint:errcheck // the process exits
		if err := cfg.AddSandbox(up.URL()); err != nil {
			return err
		}
		cfg.ShowAll()
	}
	log, err := telemetry.NewLogger(os.Stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	telemetry.AdoptLibraries(log)
	s, err := service.New(ctx, cfg, log, version())
	if err != nil {
		return err
	}
	s.ReloadOn(reloads, source)
	if b := (banner{s}); fits(os.Stdout, os.Stderr, cfg.Log.Format) {
		fmt.Fprint(os.Stdout, b)
	} else {
		log.Info("listening", "http", b.httpAddress(), "grpc", b.GRPCAddr().String(), "nats", b.natsAddress())
		if b.idle() {
			log.Warn("refusing all requests, no upstream configured")
		}
	}
	defer announce(ctx, log)()
	return s.Run(ctx)
}

// announce reports to systemd, if it started the service, that the service is ready and, when ctx
// ends, that it is stopping. Call it after the addresses are open. Call the returned function when
// the service has stopped.
func announce(ctx context.Context, log *slog.Logger) func() bool {
	tell := func(state process.State) {
		if err := process.Notify(state); err != nil {
			log.Warn("could not notify supervisor", telemetry.KeyError, err)
		}
	}
	tell(process.Ready)
	return context.AfterFunc(ctx, func() { tell(process.Stopping) })
}

type sandboxCommand struct {
	Config string `help:"Configuration file; overrides GENBUS_CONFIG." type:"path"`
}

// Run serves the sandbox until ctx ends.
func (c sandboxCommand) Run(ctx context.Context, out io.Writer) error {
	cfg, err := config.Load(config.ProcessSource(c.Config))
	if err != nil {
		return wrongConfig(err)
	}
	up, err := sandbox.Start(cfg.Sandbox.Addr, sandbox.Options{})
	if err != nil {
		return fmt.Errorf("GENBUS_SANDBOX_ADDR: %w", err)
	}
	fmt.Fprint(out, sandboxBanner(up.URL()))
	<-ctx.Done()
	return up.Close()
}

// sandboxBanner describes how to use a standalone sandbox. It mentions examples/sandbox.yaml only
// for the default address, which that file contains.
func sandboxBanner(url string) string {
	text := fmt.Sprintf("The sandbox, a fake upstream, listens on %[1]s; counters: curl %[1]s/stats; tasks: curl %[1]s/tasks\n"+
		"Point genbus at it:\n"+
		"  GENBUS_UPSTREAM_URL=%[1]s %[2]s serve    # sandbox-video and sandbox-chat\n", url, programCommand(os.Args[0]))
	if url == "http://"+config.Default().Sandbox.Addr {
		text += fmt.Sprintf("  GENBUS_CONFIG=examples/sandbox.yaml %s serve          # every protocol\n", programCommand(os.Args[0]))
	}
	return text + "Use the same setting at every start while genbus has jobs there: without it genbus leaves them alone,\n" +
		"and if another configuration has a route of the same name, its held jobs end as upstream_removed.\n"
}
