// Command deadletters prints all dead letters. To retry or remove them, use "genbus operator".
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
	url := flag.String("nats", nats.DefaultURL, "NATS address")
	flag.Parse()
	if err := run(*url); err != nil {
		fmt.Fprintln(os.Stderr, "deadletters:", err)
		os.Exit(1)
	}
}

func run(url string) error {
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
	if len(letters) == 0 {
		fmt.Println("no dead letters")
	}
	for _, letter := range letters {
		show(letter)
	}
	return nil
}

// read returns the dead letters of jobs and then the dead letters of rejected requests.
func read(ctx context.Context, js jetstream.JetStream) ([]*genbusv1.DeadLetter, error) {
	letters, err := readFrom(ctx, js, "GENBUS_DEAD")
	if err != nil {
		return nil, err
	}
	rejected, err := readFrom(ctx, js, "GENBUS_REJECTED")
	return append(letters, rejected...), err
}

func readFrom(ctx context.Context, js jetstream.JetStream, stream string) ([]*genbusv1.DeadLetter, error) {
	consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
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
