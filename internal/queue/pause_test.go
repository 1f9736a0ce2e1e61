package queue_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
)

// TestAResumedRouteDeliversToWhoWaits: a replica whose route was idle has a long request at the
// server. When an operator resumes the route, what waits is delivered to that.
func TestAResumedRouteDeliversToWhoWaits(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 100)
		if err := h.route.Pause(t.Context(), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		h.admit(t, "acme", "")
		// Of a request of less than 10 s the client asks for no heartbeats, with which the server
		// looks again.
		asked, err := h.consumer.Fetch(1, jetstream.FetchMaxWait(9*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		await(t, "the request at the server", func() bool {
			info, err := h.route.Info(t.Context())
			return err == nil && info.NumWaiting == 1
		})
		if err := h.route.Pause(t.Context(), time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, delivered := <-asked.Messages(); !delivered {
			t.Errorf("nothing was delivered: %v", asked.Error())
		}
	})
}
