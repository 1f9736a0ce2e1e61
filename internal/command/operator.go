package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
)

// Operator holds the commands for operators, which call a running genbus over gRPC.
type Operator struct {
	connection `embed:""`
	JSON       bool          `help:"Print JSON." name:"json"`
	Timeout    time.Duration `help:"Time limit of one call." default:"1m"`

	Jobs   jobsCommand   `cmd:"" help:"Find, show, retry and print jobs of all tenants."`
	Dead   deadCommand   `cmd:"" help:"List, show, redrive and drop dead letters."`
	Attach attachCommand `cmd:"" help:"Make a new job for a video that the upstream already has, without submitting it."`
	LookUp lookUpCommand `cmd:"" help:"Look up a dead letter's task at the upstream by the ID sent with the submission."`
	Cancel cancelCommand `cmd:"" help:"Cancel an unfinished job, as its tenant could."`
	Erase  eraseCommand  `cmd:"" help:"Erase the events, chunks and bodies of an ended job."`
	Routes routesCommand `cmd:"" help:"Show the state of each route."`
	Pause  pauseCommand  `cmd:"" help:"Pause a route: stop submitting its waiting jobs, on all replicas."`
	Resume resumeCommand `cmd:"" help:"Resume a paused route."`

	Attention attentionCommand `cmd:"" help:"List what needs attention, and what to do about it."`
	Overview  overviewCommand  `cmd:"" help:"Show an overview of routes, upstreams and dead letters."`
	Tenants   tenantsCommand   `cmd:"" help:"Show the tenants with the most unfinished jobs."`
	Streams   streamsCommand   `cmd:"" help:"Show the size and fill level of the streams."`
	Upstreams upstreamsCommand `cmd:"" help:"Show upstreams and their keys as seen by each replica."`
	Replicas  replicasCommand  `cmd:"" help:"Show the replicas and their state."`

	Bulk bulkCommand `cmd:"" help:"Cancel many jobs, or redrive, drop or attach many dead letters."`

	Audit   auditCommand   `cmd:"" help:"List operator actions, newest first."`
	Orphans orphansCommand `cmd:"" help:"List and end jobs of unconfigured routes."`
}

// operatorCall is a connected client with its printer.
type operatorCall struct {
	genbusv1grpc.OperatorServiceClient
	printer
}

// call connects and calls f within the time limit.
func (c *Operator) call(ctx context.Context, out io.Writer, f func(context.Context, operatorCall) error) error {
	if err := CheckTimeout(c.Timeout); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return c.connect(ctx, out, f)
}

// connect connects and calls f without a time limit.
func (c *Operator) connect(ctx context.Context, out io.Writer, f func(context.Context, operatorCall) error) error {
	key, err := c.key("GENBUS_OPERATOR_KEY")
	if err == nil && key == "" {
		err = WrongUse("operator key missing: set GENBUS_OPERATOR_KEY, or name a file with --key-file; \"genbus key new\" makes a key to configure the service with")
	}
	if err != nil {
		return err
	}
	return c.with(ctx, key, func(ctx context.Context, conn *grpc.ClientConn) error {
		return f(ctx, operatorCall{OperatorServiceClient: genbusv1grpc.NewOperatorServiceClient(conn), printer: printer{out: out, json: c.JSON}})
	})
}

// usageError is a mistake on the command line.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// WrongUse returns an error that ends the process with ExitUsage.
func WrongUse(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// IsUsage reports whether an error is a mistake on the command line.
func IsUsage(err error) bool {
	var u usageError
	return errors.As(err, &u)
}
