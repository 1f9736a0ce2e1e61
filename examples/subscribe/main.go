// Command subscribe prints every event of a tenant's video tasks, starting with the oldest retained
// event. A restart continues where the last run stopped.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func main() {
	url := flag.String("nats", nats.DefaultURL, "NATS address")
	tenant := flag.String("tenant", "default", "tenant of the videos, which must match the API key or NATS user")
	durable := flag.String("durable", "example", "durable consumer name, under which the broker keeps this reader's position")
	inbox := flag.String("inbox", "_INBOX", "prefix of reply subjects, if the NATS user may use only its own prefix")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := subscribe(ctx, *url, *tenant, *inbox, *durable); err != nil {
		fmt.Fprintln(os.Stderr, "subscribe:", err)
		os.Exit(1) //nolint:gocritic // stop only removes the signal handler
	}
}

func subscribe(ctx context.Context, url, tenant, inbox, durable string) error {
	interrupt := ctx
	ctx, end := context.WithCancelCause(ctx) // refused and failed cancel ctx with the cause
	defer end(nil)
	nc, err := nats.Connect(url, nats.CustomInboxPrefix(inbox), nats.ErrorHandler(refused(end)))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, "GENBUS_TASKS", jetstream.ConsumerConfig{
		Durable:       durable,
		FilterSubject: "genbus.task.video." + tenant + ".*",
		AckPolicy:     jetstream.AckExplicitPolicy,
	})
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	reading, err := consumer.Consume(handle, jetstream.ConsumeErrHandler(failed(ctx, end, consumer)))
	if err != nil {
		return err
	}
	<-ctx.Done()
	reading.Drain()
	<-reading.Closed()
	if interrupt.Err() != nil {
		return nil
	}
	return context.Cause(ctx)
}

// handle prints an event and acks it. Events without an ack are redelivered, so a handler with side
// effects should deduplicate by event.Id.
func handle(m jetstream.Msg) {
	var event genbusv1.VideoTaskEvent
	if err := proto.Unmarshal(m.Data(), &event); err != nil {
		fmt.Fprintln(os.Stderr, "not a Protobuf event:", m.Subject(), err)
		_ = m.Term() // redelivery would not help
		return
	}
	task := event.GetTask()
	fmt.Printf("%s  version %d  %-11s %3d %%  %s\n", task.GetId(), event.GetVersion(), m.Headers().Get("genbus-status"), task.GetProgress(), result(task))
	_ = m.Ack() // if the ack is lost, the event is redelivered
}

func result(task *genbusv1.VideoTask) string {
	if e := task.GetError(); e != nil {
		return e.GetCode() + ": " + e.GetMessage()
	}
	if len(task.GetVideos()) > 0 {
		return task.GetVideos()[0].GetUrl()
	}
	return ""
}

// failed cancels ctx if the consumer was deleted. Other errors may be temporary.
func failed(ctx context.Context, end context.CancelCauseFunc, consumer jetstream.Consumer) func(jetstream.ConsumeContext, error) {
	return func(_ jetstream.ConsumeContext, err error) {
		if _, gone := consumer.Info(ctx); errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(gone, jetstream.ErrConsumerNotFound) {
			end(fmt.Errorf("the durable consumer was deleted: %w", err))
			return
		}
		fmt.Fprintln(os.Stderr, "reading:", err)
	}
}

// refused cancels ctx on a permission error. NATS does not reply to a forbidden publish, so the
// caller would otherwise wait until its timeout.
func refused(end context.CancelCauseFunc) nats.ErrHandler {
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			end(fmt.Errorf("%w (check that -tenant and -inbox match this NATS user)", err))
			return
		}
		fmt.Fprintln(os.Stderr, "nats:", err)
	}
}
