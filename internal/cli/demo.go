package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/plural"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

const demoTime = 20 * time.Second

type demoCommand struct{}

// Run demonstrates the whole path of a job: requests over NATS, the upstream call over HTTP, live
// events, and stored events for a late subscriber.
func (demoCommand) Run(ctx context.Context, out io.Writer) error { return demo(ctx, out) }

func demo(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, demoTime, fmt.Errorf("the demo did not finish within %s", demoTime))
	defer cancel()
	dir, err := os.MkdirTemp("", "genbus-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system removes the rest
	up, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: 3 * time.Second, ChunkInterval: 60 * time.Millisecond})
	if err != nil {
		return err
	}
	defer up.Close() //nolint:errcheck // the process exits
	s, err := demoService(ctx, dir, up.URL())
	if err != nil {
		return err
	}
	serving, stop := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- s.Run(serving) }()
	fmt.Fprintf(out, "genbus is up: NATS %s, HTTP http://%s, gRPC %s; upstream %s\n", s.NATSURL(), s.HTTPAddr(), s.GRPCAddr(), up.URL())
	if err = showJobs(ctx, out, s); err == nil {
		fmt.Fprintf(out, "\nTo see jobs in a browser, run %s serve --sandbox and open http://%s/console\n", programCommand(os.Args[0]), config.Default().HTTP.Addr)
	}
	stop()
	return errors.Join(err, <-stopped)
}

// demoService returns a service with its own directory and free ports, so that it can run next to
// others.
func demoService(ctx context.Context, dir, upstream string) (*service.Service, error) {
	cfg := config.Default()
	cfg.NATS.DataDir, cfg.NATS.Listen = dir, "127.0.0.1:0"
	cfg.HTTP.Addr, cfg.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	if err := cfg.AddSandbox(upstream); err != nil {
		return nil, err
	}
	log, err := telemetry.NewLogger(os.Stderr, "warn", telemetry.FormatAuto)
	if err != nil {
		return nil, err
	}
	return service.New(ctx, cfg, log, version())
}

// showJobs acts as a client that uses only NATS.
func showJobs(ctx context.Context, out io.Writer, s *service.Service) error {
	nc, err := nats.Connect(s.NATSURL())
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	d := &demoClient{out: out, names: s.Names(), js: js, begin: time.Now()}
	live := make(chan *nats.Msg, 1024)
	for _, pattern := range []string{d.names.LiveTaskPattern(), d.names.LiveChunkPattern()} {
		if _, err := nc.ChanSubscribe(pattern, live); err != nil {
			return err
		}
	}
	if err := d.publish(ctx); err != nil {
		return err
	}
	if err := d.watch(ctx, live); err != nil {
		return err
	}
	return d.replay(ctx)
}

type demoClient struct {
	out   io.Writer
	names subject.Space
	js    jetstream.JetStream
	begin time.Time
	text  string // of the chat so far
	ended []demoJob
}

type demoJob struct {
	kind subject.Kind
	id   string
}

func (d *demoClient) publish(ctx context.Context) error {
	stream := true
	video := &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{
		Model: "sandbox-video", Prompt: "a paper boat on a quiet lake",
	}}}
	chat := &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
		Model: "sandbox-chat", Stream: &stream,
		Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Text{Text: "What does an event bus do?"}}},
	}}}
	for kind, request := range map[subject.Kind]proto.Message{subject.Video: video, subject.Chat: chat} {
		data, err := proto.Marshal(request)
		if err != nil {
			return err
		}
		subj := d.names.Request(kind, config.DefaultTenant)
		if _, err := d.js.Publish(ctx, subj, data); err != nil {
			return fmt.Errorf("publish to %s: %w", subj, err)
		}
		d.print("published", "%s, %s of Protobuf", subj, plural.Count(len(data), "byte"))
	}
	fmt.Fprintf(d.out, "\nEvents as they arrive:\n")
	return nil
}

// print prints one line: seconds since the start, a word, and the details.
func (d *demoClient) print(word, format string, args ...any) {
	fmt.Fprintf(d.out, "%6.2fs  %-11s %s\n", time.Since(d.begin).Seconds(), word, fmt.Sprintf(format, args...))
}
