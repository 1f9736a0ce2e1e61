package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/command"
)

// silent accepts jobs and never answers.
type silent struct {
	genbusv1grpc.UnimplementedVideoServiceServer
	genbusv1grpc.UnimplementedChatServiceServer
	accepted chan string
}

func (s silent) accept(ctx context.Context, id string) error {
	s.accepted <- id
	<-ctx.Done()
	return ctx.Err()
}

func (s silent) CreateVideoTask(ctx context.Context, m *genbusv1.CreateVideoTaskRequest) (*genbusv1.CreateVideoTaskResponse, error) {
	return nil, s.accept(ctx, m.GetRequest().GetRequestId())
}

func (s silent) SubmitChatCompletion(ctx context.Context, m *genbusv1.SubmitChatCompletionRequest) (*genbusv1.SubmitChatCompletionResponse, error) {
	return nil, s.accept(ctx, m.GetRequest().GetRequestId())
}

// startSilent serves silent over gRPC. stop cuts its connections.
func startSilent(t *testing.T) (s silent, addr string, stop func()) {
	t.Helper()
	s = silent{accepted: make(chan string, 1)}
	addr, stop = serveGRPC(t, func(server *grpc.Server) {
		genbusv1grpc.RegisterVideoServiceServer(server, s)
		genbusv1grpc.RegisterChatServiceServer(server, s)
	})
	return s, addr, stop
}

// serveGRPC serves the registered services until the test ends or stop is called.
func serveGRPC(t *testing.T, register func(*grpc.Server)) (addr string, stop func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), server.Stop
}

// startSilentNATS serves silent over NATS.
func startSilentNATS(t *testing.T) (s silent, url string) {
	t.Helper()
	url = brokertest.Alone(t).ClientURL()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s = silent{accepted: make(chan string, 1)}
	_, err = nc.Subscribe("genbus.call.*.default", func(m *nats.Msg) { s.accepted <- m.Header.Get("genbus-request-id") })
	if err = errors.Join(err, nc.Flush()); err != nil {
		t.Fatal(err)
	}
	return s, url
}

// TestASubmitWithoutAnAnswerNamesItsRequest proves that an interrupted submit prints its request
// ID, with which it can be repeated as the same job.
func TestASubmitWithoutAnAnswerNamesItsRequest(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"video", "chat"} {
		for _, end := range []string{"cut", "interrupted", "interrupted by NATS"} {
			t.Run(kind+", "+end, func(t *testing.T) {
				t.Parallel()
				var s silent
				var cut func()
				args := []string{"submit", kind, "-m", "m", "a cat"}
				if end == "interrupted by NATS" {
					var url string
					s, url = startSilentNATS(t)
					args = append(args, "--nats", url)
				} else {
					var addr string
					s, addr, cut = startSilent(t)
					args = append(args, "--server", addr)
				}
				ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
				defer cancel()
				run := exec.CommandContext(ctx, os.Args[0], args...)
				run.Env = append(os.Environ(), runAsService+"=1")
				var problems bytes.Buffer
				run.Stderr = &problems
				if err := run.Start(); err != nil {
					t.Fatal(err)
				}
				id := <-s.accepted
				if end == "cut" {
					cut()
				} else if err := run.Process.Signal(os.Interrupt); err != nil {
					t.Fatal(err)
				}
				var exit *exec.ExitError
				if err := run.Wait(); !errors.As(err, &exit) || exit.ExitCode() != command.ExitFailed ||
					id == "" || !strings.Contains(problems.String(), id) || !strings.Contains(problems.String(), "acceptance_unknown: ") {
					t.Errorf("request %q was accepted, and it ended with %v: %s", id, err, &problems)
				}
			})
		}
	}
}
