package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/queue"
)

// TestAResumedRouteDeliversToWhoWaits proves that a resumed route delivers waiting jobs to a
// request that was already open.
func TestAResumedRouteDeliversToWhoWaits(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		h := newReplica(t, open(t), 100)
		h.admit(t, "acme", "")
		for end := time.Now().Add(patience); ; {
			if err := h.route.Pause(t.Context(), queue.Pause{}); err != nil {
				t.Fatal(err)
			}
			asked, err := h.b.Conn().SubscribeSync(h.b.Conn().NewInbox())
			if err != nil {
				t.Fatal(err)
			}
			// The client library would add heartbeats, which make the server look for messages.
			request := fmt.Appendf(nil, `{"batch":1,"expires":%d}`, 5*time.Second)
			if err := h.b.Conn().PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+h.b.Names().Work()+"."+h.consumer.CachedInfo().Name, asked.Subject, request); err != nil {
				t.Fatal(err)
			}
			await(t, "the request at the server", func() bool {
				info, err := h.route.Info(t.Context())
				lost, _, _ := asked.Pending()
				return err == nil && info.NumWaiting == 1 || lost > 0
			})
			if err := h.route.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			m, err := asked.NextMsg(2 * patience)
			if err != nil {
				t.Fatal(err)
			}
			switch m.Header.Get("Status") {
			case "":
				return
			case "409", "503": // lost with its leader; try again
			default:
				// A server that learns of the end of the pause too late only looks at the next
				// request.
				if time.Now().After(end) {
					t.Fatalf("nothing was delivered: %v", m.Header)
				}
			}
		}
	})
}
