package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Operator holds the commands for operators, which call a running genbus over gRPC.
type Operator struct {
	connection `embed:""`
	JSON       bool          `help:"Print JSON." name:"json"`
	Timeout    time.Duration `help:"Limit of one call." default:"1m"`

	Jobs   jobsCommand   `cmd:"" help:"Jobs of all tenants: find them, and see how they went."`
	Dead   deadCommand   `cmd:"" help:"Dead letters: what could not be processed."`
	Attach attachCommand `cmd:"" help:"Make a new job of a video that the upstream has; nothing is submitted."`
	LookUp lookUpCommand `cmd:"" help:"Ask the upstream for the task of a dead letter, by the ID that the submission named."`
	Cancel cancelCommand `cmd:"" help:"End a job that has not ended, as its tenant could."`
	Erase  eraseCommand  `cmd:"" help:"Erase a job that has ended: events, chunks, bodies."`
	Routes routesCommand `cmd:"" help:"Show how each route is doing."`
	Pause  pauseCommand  `cmd:"" help:"Stop the submission of a route's waiting jobs, on all replicas."`
	Resume resumeCommand `cmd:"" help:"Undo pause."`

	Overview  overviewCommand  `cmd:"" help:"Show how everything is doing: routes, upstreams, dead letters."`
	Tenants   tenantsCommand   `cmd:"" help:"Show how the tenants with the most unfinished jobs are doing."`
	Streams   streamsCommand   `cmd:"" help:"Show what is in the streams, and how full they are."`
	Upstreams upstreamsCommand `cmd:"" help:"Show upstreams and their keys, as each replica knows them."`
	Replicas  replicasCommand  `cmd:"" help:"Show which replicas there are, and what each does."`

	Bulk bulkCommand `cmd:"" help:"Cancel many jobs, or redrive, drop or attach many dead letters."`

	Audit   auditCommand   `cmd:"" help:"What operators did, the newest first."`
	Orphans orphansCommand `cmd:"" help:"Jobs of routes that are not configured."`
}

// operatorCall is a connected client with its printer.
type operatorCall struct {
	genbusv1.OperatorServiceClient
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
		err = WrongUse("no key: set GENBUS_OPERATOR_KEY to the one that the service was started with (without one it refuses operators: \"service key new\" prints one to start it with), or name a file with --key-file")
	}
	if err != nil {
		return err
	}
	return c.with(ctx, key, func(ctx context.Context, conn *grpc.ClientConn) error {
		return f(ctx, operatorCall{OperatorServiceClient: genbusv1.NewOperatorServiceClient(conn), printer: printer{out: out, json: c.JSON}})
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
