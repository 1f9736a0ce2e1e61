package command

import (
	"context"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

type routesCommand struct{}

func (routesCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.ListRoutes(ctx, &genbusv1.ListRoutesRequest{})
		if err != nil {
			return answered(err)
		}
		return call.routes(answer, answer.GetRoutes()...)
	})
}

type pauseCommand struct {
	Kind string `arg:"" enum:"video,chat" help:"video or chat."`
	Name string `arg:"" help:"Name of the route."`

	Reason string        `help:"Reason for the pause, in one line, which callers see."`
	For    time.Duration `help:"Time after which the route resumes by itself, such as 2h. Default: until resumed."`
}

func (c pauseCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		request := &genbusv1.PauseRouteRequest{Kind: c.Kind, Name: c.Name, Reason: c.Reason}
		if c.For != 0 {
			request.Duration = durationpb.New(c.For)
		}
		answer, err := call.PauseRoute(ctx, request)
		if err != nil {
			return answered(err)
		}
		return call.routes(answer, answer.GetRoute())
	})
}

type resumeCommand struct {
	Kind string `arg:"" enum:"video,chat" help:"video or chat."`
	Name string `arg:"" help:"Name of the route."`
}

func (c resumeCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.ResumeRoute(ctx, &genbusv1.ResumeRouteRequest{Kind: c.Kind, Name: c.Name})
		if err != nil {
			return answered(err)
		}
		return call.routes(answer, answer.GetRoute())
	})
}
