package broker_test

import (
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestReplicasStartTogether checks that replicas can start at the same time on an empty cluster. A
// server may not know a stream yet that another replica has just created.
func TestReplicasStartTogether(t *testing.T) {
	t.Parallel()
	brokertest.Full(t, "starts three NATS servers")
	c := brokertest.NewCluster(t)
	var starting errgroup.Group
	for range 2 {
		for _, s := range c.Servers {
			starting.Go(func() error {
				b, err := broker.Open(t.Context(), broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), URL: s.ClientURL(), Replicas: len(c.Servers)})
				if err != nil {
					return err
				}
				t.Cleanup(func() {
					if err := b.Close(); err != nil {
						t.Error(err)
					}
				})
				return b.Streams().Ensure(t.Context())
			})
		}
	}
	if err := starting.Wait(); err != nil {
		t.Error(err)
	}
}
