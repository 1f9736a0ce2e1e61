// Command deadletters lists what could not be processed, and sends the request of
// one letter again as a new job.
package main

import (
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
	url := flag.String("nats", nats.DefaultURL, "address of NATS")
	redrive := flag.String("redrive", "", "id of the video task to send again; only after a look at the upstream")
	flag.Parse()
	if err := run(*url, *redrive); err != nil {
		fmt.Fprintln(os.Stderr, "deadletters:", err)
		os.Exit(1)
	}
}

func run(url, redrive string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	letters, err := read(ctx, js)
	if err != nil {
		return err
	}
	if len(letters) == 0 && redrive == "" {
		fmt.Println("no dead letters")
	}
	for _, letter := range letters {
		if redrive == "" {
			show(letter)
		} else if letter.GetId() == redrive && letter.GetKind() == "video" {
			return sendAgain(ctx, js, letter)
		}
	}
	if redrive != "" {
		return fmt.Errorf("there is no dead letter of a video task %s", redrive)
	}
	return nil
}

// read returns every letter, oldest first.
func read(ctx context.Context, js jetstream.JetStream) ([]*genbusv1.DeadLetter, error) {
	consumer, err := js.OrderedConsumer(ctx, "GENBUS_DEAD", jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	var letters []*genbusv1.DeadLetter
	for {
		m, err := consumer.Next(jetstream.FetchMaxWait(time.Second))
		if errors.Is(err, nats.ErrTimeout) {
			return letters, nil
		}
		if err != nil {
			return nil, err
		}
		letter := &genbusv1.DeadLetter{}
		if err := proto.Unmarshal(m.Data(), letter); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Subject(), err)
		}
		letters = append(letters, letter)
	}
}

func show(l *genbusv1.DeadLetter) {
	fmt.Printf("%s  %s  tenant %s  job %q  upstream %q  upstream task %q\n  %s\n", l.GetTime().AsTime().Format(time.RFC3339),
		l.GetError().GetCode(), l.GetTenant(), l.GetId(), l.GetUpstream(), l.GetUpstreamTaskId(), l.GetError().GetMessage())
}

// sendAgain makes a new job that names the old one, which stays as it ended. The
// request id makes a second redrive of one letter attach to the first.
func sendAgain(ctx context.Context, js jetstream.JetStream, l *genbusv1.DeadLetter) error {
	body := l.GetData()
	if ref := l.GetDataRef(); ref != nil {
		store, err := js.ObjectStore(ctx, ref.GetBucket())
		if err != nil {
			return err
		}
		if body, err = store.GetBytes(ctx, ref.GetName()); err != nil {
			return err
		}
	}
	request, err := proto.Marshal(&genbusv1.VideoRequest{
		RequestId: "redrive-" + l.GetId(), RetryOf: l.GetId(), Body: &genbusv1.VideoRequest_RawJson{RawJson: body},
	})
	if err != nil {
		return err
	}
	if _, err := js.Publish(ctx, "genbus.request.video."+l.GetTenant(), request); err != nil {
		return err
	}
	fmt.Println("stored for admission: a new job that repeats", l.GetId())
	return nil
}
