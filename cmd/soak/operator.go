package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

// route identifies a route for an operator.
type route struct{ kind, name string }

// served are the routes that steps pause or drain. The spare routes, which serve every model, are
// never paused.
var served = []route{{"video", modelFilm}, {"video", modelReel}, {"chat", modelTalk}}

// pauseRoute pauses a route for a while. Its jobs are accepted and wait. It resumes the route even
// after ctx ends.
func (s *storm) pauseRoute(ctx context.Context, r route, d time.Duration) error {
	defer s.begin(check.Fault{Kind: check.FaultPause, Target: r.name})()
	if err := s.setPaused(ctx, r, true); err != nil {
		return err
	}
	faultinject.Pause(ctx, d)
	return s.setPaused(ctx, r, false)
}

func (s *storm) setPaused(ctx context.Context, r route, paused bool) error {
	return s.operate(ctx, func(ctx context.Context, o genbusv1grpc.OperatorServiceClient) error {
		if paused {
			_, err := o.PauseRoute(ctx, &genbusv1.PauseRouteRequest{Kind: r.kind, Name: r.name})
			return err
		}
		_, err := o.ResumeRoute(ctx, &genbusv1.ResumeRouteRequest{Kind: r.kind, Name: r.name})
		return err
	})
}

// operate makes an operator call on each replica in turn until one succeeds.
func (s *storm) operate(ctx context.Context, call func(context.Context, genbusv1grpc.OperatorServiceClient) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+operatorKey)
	for n := 0; ; n++ {
		err := s.ask(ctx, s.fleet.replicas[n%len(s.fleet.replicas)].GRPC, call)
		if err == nil {
			return nil
		}
		if !faultinject.Pause(ctx, 500*time.Millisecond) {
			return fmt.Errorf("no replica takes the operator's call: %w", err)
		}
	}
}

func (s *storm) ask(ctx context.Context, addr string, call func(context.Context, genbusv1grpc.OperatorServiceClient) error) (err error) {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return call(ctx, genbusv1grpc.NewOperatorServiceClient(conn))
}
