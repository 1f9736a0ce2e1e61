package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// floorCommand is the baseline for queued jobs. It is a plain consumer that pulls, calls the
// upstream, publishes the answer and acks. It keeps no log, does not retry, and calls the upstream
// again for a redelivered request.
type floorCommand struct {
	jobsBroker
	Kind     subject.Kind  `required:"" help:"Jobs to process."`
	Upstream string        `required:"" help:"Base URL of the upstream."`
	Poll     time.Duration `help:"Time between two polls of a video."`
}

// jobsBroker is the broker of one measurement of jobs. The floor uses the same streams as genbus,
// created by the same code.
type jobsBroker struct {
	NATS     string `help:"URL of an external server; empty for an embedded one, as in genbus."`
	Copies   int    `help:"Copies of each stream."`
	Dir      string `help:"Directory of the embedded server."`
	Fsync    bool   `help:"Sync every write of the embedded server to disk."`
	InFlight int    `help:"Jobs held at once."`
}

// flags returns the flags for a process with this broker.
func (j jobsBroker) flags() []string {
	return []string{
		"--nats=" + j.NATS, fmt.Sprint("--copies=", j.Copies), "--dir=" + j.Dir, fmt.Sprint("--fsync=", j.Fsync), fmt.Sprint("--in-flight=", j.InFlight),
	}
}

func (j jobsBroker) open(ctx context.Context) (*broker.Broker, error) {
	tasks := serviceSetup{InFlight: j.InFlight}.tasksBytes()
	b, err := broker.Open(ctx, broker.Options{
		Names: subject.Default(), URL: j.NATS, Replicas: j.Copies, Limits: broker.Limits{TasksMaxBytes: tasks},
		Embedded: broker.Embedded{Listen: "127.0.0.1:0", DataDir: j.Dir, NoSync: !j.Fsync, MaxStore: tasks + 12<<30},
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return nil, err
	}
	if err := b.Streams().Ensure(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// pullExpiry is how long one pull waits for messages. The heartbeat is half of it.
const pullExpiry = 2 * time.Second

// Run serves until ctx ends.
func (c floorCommand) Run(ctx context.Context) error {
	b, err := c.open(ctx)
	if err != nil {
		return err
	}
	f := floor{cmd: c, names: b.Names(), js: b.JetStream(), http: newClient(c.InFlight)}
	return errors.Join(f.run(ctx, b.ClientURL()), b.Close())
}

type floor struct {
	cmd   floorCommand
	names subject.Space
	js    jetstream.JetStream
	http  *http.Client
}

func (f floor) run(ctx context.Context, url string) error {
	inbox, err := f.js.CreateOrUpdateConsumer(ctx, f.names.Requests(), jetstream.ConsumerConfig{
		Durable: "floor", FilterSubject: f.names.RequestPattern(f.cmd.Kind), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: time.Minute, MaxAckPending: 2 * f.cmd.InFlight,
	})
	if err != nil {
		return err
	}
	// A new consumer may have no leader yet. The pull is then retried within seconds.
	messages, err := inbox.Messages(jetstream.PullMaxMessages(f.cmd.InFlight), jetstream.PullExpiry(pullExpiry), jetstream.WithMessagesErrOnMissingHeartbeat(false))
	if err != nil {
		return err
	}
	defer messages.Stop()
	if url == "" {
		url = f.cmd.NATS
	}
	fmt.Printf("listening on %s\n", url)
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(f.cmd.InFlight)
	for {
		m, err := messages.Next(jetstream.NextContext(gctx))
		if err != nil {
			return errors.Join(group.Wait(), err)
		}
		group.Go(func() error { return f.handle(gctx, m) })
	}
}

// handle makes one call, publishes its answer to the feed, and acks.
func (f floor) handle(ctx context.Context, m jetstream.Msg) error {
	kind, tenant, err := f.names.ParseRequest(m.Subject())
	if err != nil {
		return err
	}
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	call := f.chat
	if kind == subject.Video {
		call = f.video
	}
	answer, err := call(ctx, m.Data())
	if err != nil {
		return err
	}
	id := string(kind) + "_" + strconv.FormatUint(meta.Sequence.Stream, 10)
	done := &nats.Msg{Subject: f.names.Done(kind, tenant, "completed", id), Data: answer, Header: nats.Header{
		jetstream.MsgIDHeader: {id}, subject.HeaderLabels: {m.Headers().Get(subject.HeaderLabels)},
	}}
	if _, err := f.js.PublishMsg(ctx, done); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	return m.Ack()
}

func (f floor) chat(ctx context.Context, request []byte) ([]byte, error) {
	return f.do(ctx, http.MethodPost, "/v1/chat/completions", request)
}

// video creates a video and polls it until it is completed.
func (f floor) video(ctx context.Context, request []byte) ([]byte, error) {
	const path = "/v1/video/generations"
	answer, err := f.do(ctx, http.MethodPost, path, request)
	for {
		if err != nil {
			return nil, err
		}
		var video struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		}
		if err := json.Unmarshal(answer, &video); err != nil || video.Status == "completed" {
			return answer, err
		}
		if err := pause(ctx, f.cmd.Poll); err != nil {
			return nil, err
		}
		answer, err = f.do(ctx, http.MethodGet, path+"/"+video.ID, nil)
	}
}

func (f floor) do(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, f.cmd.Upstream+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", subject.ContentTypeJSON)
	resp, err := f.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: status %d", method, path, resp.StatusCode)
	}
	return answer, err
}
