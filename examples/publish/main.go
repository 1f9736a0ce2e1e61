// Command publish requests a video over NATS. Publishing takes one Protobuf message on a JetStream
// subject.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func main() {
	url := flag.String("nats", nats.DefaultURL, "NATS address")
	tenant := flag.String("tenant", "default", "tenant of the request, which must match the API key or NATS user")
	prompt := flag.String("prompt", "a paper boat on a quiet lake", "description of the video")
	id := flag.String("request-id", "", "idempotency key; reusing it attaches to the first job")
	inbox := flag.String("inbox", "_INBOX", "prefix of reply subjects, if the NATS user may use only its own prefix")
	flag.Parse()
	if err := publish(*url, *tenant, *inbox, *id, *prompt); err != nil {
		fmt.Fprintln(os.Stderr, "publish:", err)
		os.Exit(1)
	}
}

func publish(url, tenant, inbox, requestID, prompt string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx) // refused cancels ctx with a permission error
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
	request, err := proto.Marshal(&genbusv1.VideoRequest{
		RequestId: requestID,
		Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{
			Model: "sandbox-video", Prompt: prompt,
		}},
		Labels: map[string]string{"from": "examples/publish"},
	})
	if err != nil {
		return err
	}
	// The ack confirms that the request is stored, not that it is accepted. If no ack arrives,
	// publish again: with a request ID this cannot create a second job.
	ack, err := js.Publish(ctx, "genbus.request.video."+tenant, request)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	fmt.Printf("stored for admission: %s, message %d\n", ack.Stream, ack.Sequence)
	return nil
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
