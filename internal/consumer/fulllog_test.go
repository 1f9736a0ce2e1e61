package consumer

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tasklog"
)

// fillLog puts foreign ends into the feed until the log has used a share, or is
// full where the share is 1.
func fillLog(t testing.TB, b *broker.Broker, share float64) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
	if err != nil {
		t.Fatal(err)
	}
	size := 16 << 10
	for i := 0; ; i++ {
		info, err := s.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if share < 1 && float64(info.State.Bytes) >= share*float64(info.Config.MaxBytes) {
			return
		}
		_, err = b.JetStream().Publish(t.Context(), b.Names().Done(subject.Video, "foreign", "completed", fmt.Sprintf("f%d-%d", size, i)), make([]byte, size))
		var refused *jetstream.APIError
		switch {
		case err == nil:
		case !errors.As(err, &refused):
			t.Fatal(err)
		case size == 1:
			return
		default:
			size /= 4
		}
	}
}

// TestFullLog: above the first limit admission refuses with advice, and what is in
// flight ends. With no byte left nothing can be written, and nothing is lost: as
// shortly as there is room again, every job ends, and admission is open.
func TestFullLog(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]float64{"nearly full": 0.93, "full to the last byte": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.EachLimited(t, broker.Limits{TasksMaxBytes: 2 << 20}, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				testFullLog(t, open(t), share)
			})
		})
	}
}

func testFullLog(t *testing.T, b *broker.Broker, share float64) {
	up := newSlowUpstream(t)
	r := newReplica(t, b, testConfig(t, up.url))
	const videos = 10
	ids := inFlight(t, b, r.log, up, videos)
	fillLog(t, b, share)
	ask := func(request string) error {
		_, err := r.Admission.Admit(t.Context(), admission.Request{
			Kind: subject.Video, Tenant: "acme", RequestID: request, Body: []byte(`{"model":"sandbox-video","prompt":"a dog"}`),
		})
		return err
	}
	// The share is read at most once a second: until then requests would be taken,
	// and fill what is left of the log.
	shortly(t, "the log is seen to be full", func() bool { return r.log.Usage(t.Context()) > tasklog.AdmitBelow })
	if f := fault.From(ask("later")); f.Code != fault.StorageFull || f.RetryAfter == 0 {
		t.Errorf("refused with %v, retry after %s", f, f.RetryAfter)
	}
	close(up.done)
	if share == 1 {
		shortly(t, "the ends are tried", func() bool {
			return up.number(func() int { return up.reads }) > videos && heldJobs(r.held) >= videos+1
		})
		makeRoom(t, b)
	}
	allCompleted(t, b, r.log, ids)
	makeRoom(t, b)
	shortly(t, "admission is open again", func() bool { return ask("last") == nil })
	allCompleted(t, b, r.log, []string{videoID("last")})
	for _, id := range ids[:videos] {
		if n := up.number(func() int { return up.creates[id] }); n != 1 {
			t.Errorf("%s was created %d times", id, n)
		}
	}
}

// makeRoom removes what fillLog has put there.
func makeRoom(t testing.TB, b *broker.Broker) {
	t.Helper()
	purge(t, b, b.Names().Tasks(), b.Names().Done(subject.Video, "foreign", "*", "*"))
}
