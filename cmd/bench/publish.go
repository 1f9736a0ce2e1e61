package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
)

const (
	tenant = "default"
	// publishWindow limits the number of publishes without an ack.
	publishWindow = 1024
	answerTimeout = 30 * time.Second
)

// publisher publishes requests to the inbox like any client.
type publisher struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	subject string
	data    []byte
	refused atomic.Int64
	reason  atomic.Pointer[error]
}

// newPublisher connects to the service's broker. All requests are equal, but each has its own
// sequence and therefore becomes a separate job.
func newPublisher(url string, kind subject.Kind, request proto.Message) (*publisher, error) {
	data, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	p, err := connectPublisher(url)
	if err != nil {
		return nil, err
	}
	p.subject, p.data = subject.Default().Request(kind, tenant), data
	return p, nil
}

// connectPublisher returns a publisher without a default message.
func connectPublisher(url string) (*publisher, error) {
	p := &publisher{}
	var err error
	if p.nc, err = nats.Connect(url, nats.Name("bench")); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	p.js, err = jetstream.New(p.nc, jetstream.WithPublishAsyncMaxPending(publishWindow),
		jetstream.WithPublishAsyncTimeout(answerTimeout), jetstream.WithPublishAsyncErrHandler(p.failed))
	if err != nil {
		p.nc.Close()
		return nil, err
	}
	return p, nil
}

// videoRequest requests a video. metadata controls the sandbox.
func videoRequest(metadata string) proto.Message {
	duration, width, height := 5.0, int32(1280), int32(720)
	return &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{
		Model: "sandbox-video", Prompt: "a paper boat drifts down a rain-filled gutter at dusk, close-up, slow camera",
		Duration: &duration, Width: &width, Height: &height, MetadataJson: []byte(metadata),
	}}}
}

func chatRequest() proto.Message {
	return &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{
		RawJson: []byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"Where do paper boats go?"}]}`),
	}}
}

func (p *publisher) failed(_ jetstream.JetStream, _ *nats.Msg, err error) {
	p.refused.Add(1)
	p.reason.CompareAndSwap(nil, &err)
}

func (p *publisher) close() { p.nc.Close() }

// publish sends one request. It waits while the window is full.
func (p *publisher) publish(ctx context.Context) error {
	return p.send(ctx, &nats.Msg{Subject: p.subject, Data: p.data})
}

// send is like publish but sends any message.
func (p *publisher) send(ctx context.Context, m *nats.Msg) error {
	for {
		_, err := p.js.PublishMsgAsync(m)
		if err == nil || !errors.Is(err, jetstream.ErrTooManyStalledMsgs) {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
}

// publishAll sends n requests and waits for all acks. It returns how long that took.
func (p *publisher) publishAll(ctx context.Context, n int) (time.Duration, error) {
	begin := time.Now()
	for range n {
		if err := p.publish(ctx); err != nil {
			return 0, fmt.Errorf("publish: %w", err)
		}
	}
	if err := p.awaitAcks(ctx); err != nil {
		return 0, err
	}
	return time.Since(begin), nil
}

// awaitAcks waits for all acks.
func (p *publisher) awaitAcks(ctx context.Context) error {
	select {
	case <-p.js.PublishAsyncComplete():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if n := p.refused.Load(); n > 0 {
		return fmt.Errorf("%d publishes were refused, the first with: %w", n, *p.reason.Load())
	}
	return nil
}

func (p *publisher) messages(ctx context.Context, stream string) (uint64, error) {
	s, err := p.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", stream, err)
	}
	return s.CachedInfo().State.Msgs, nil
}

// stored counts the messages of a stream that match a subject. It does not work for a work queue.
func (p *publisher) stored(ctx context.Context, stream, filter string) (uint64, error) {
	c, err := p.js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		FilterSubject: filter, AckPolicy: jetstream.AckNonePolicy, DeliverPolicy: jetstream.DeliverAllPolicy, InactiveThreshold: 10 * time.Second,
	})
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", filter, err)
	}
	info := c.CachedInfo()
	return info.NumPending, p.js.DeleteConsumer(ctx, stream, info.Name)
}
