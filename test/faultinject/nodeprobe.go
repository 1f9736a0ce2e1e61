package faultinject

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// probeStream exists briefly when a cluster starts.
	probeStream = "FAULTTEST_PROBE"
	probeTry    = 5 * time.Second
)

// probe waits until a stream with a replica on every node can be created. Even healthy nodes may
// not have told each other their capacity yet. Until they have, the meta leader considers them
// offline.
func (n *Nodes) probe(ctx context.Context) error {
	nc, err := nats.Connect(n.ClientURLs(), nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	config := jetstream.StreamConfig{Name: probeStream, Replicas: len(n.nodes), Storage: jetstream.MemoryStorage}
	for {
		missing := try(ctx, js, config)
		if missing == nil {
			return n.WaitHealthy(ctx)
		}
		if !Pause(ctx, healthEvery) {
			return fmt.Errorf("the cluster takes no streams: %w", errors.Join(missing, ctx.Err()))
		}
	}
}

func try(ctx context.Context, js jetstream.JetStream, config jetstream.StreamConfig) error {
	ctx, cancel := context.WithTimeout(ctx, probeTry)
	defer cancel()
	if _, err := js.CreateStream(ctx, config); err != nil {
		return err
	}
	return js.DeleteStream(ctx, config.Name)
}
