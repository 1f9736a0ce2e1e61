package deadletter_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestAFullStreamTakesDeadLettersOfRejectedRequests proves that the oldest dead letters make way,
// first within a tenant at its limit.
func TestAFullStreamTakesDeadLettersOfRejectedRequests(t *testing.T) {
	t.Parallel()
	brokertest.EachLimited(t, broker.Limits{RejectedMaxBytes: 1 << 20}, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		d, seq := deadletter.Store{Broker: b, Bodies: broker.NewBodies(b), Metrics: telemetry.NewMetrics("test")}, uint64(0)
		reject := func(tenant string, size int) {
			t.Helper()
			seq++
			l := &genbusv1.DeadLetter{Kind: "video", Tenant: tenant, Data: bytes.Repeat([]byte("x"), size), Error: &genbusv1.TaskError{Code: "invalid_request"}}
			if err := d.Reject(t.Context(), l, seq, time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
		}
		have := func(tenant string, want uint64) {
			t.Helper()
			s, err := b.Stream(t.Context(), b.Names().Rejected())
			if err != nil {
				t.Fatal(err)
			}
			info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(b.Names().RejectedDeadLetters(subject.Video, tenant)))
			if err != nil {
				t.Fatal(err)
			}
			var n uint64
			for _, of := range info.State.Subjects {
				n += of
			}
			if n != want || info.State.Bytes > uint64(info.Config.MaxBytes) {
				t.Errorf("%s has %d dead letters, want %d; all have %d bytes", tenant, n, want, info.State.Bytes)
			}
		}
		reject("careful", 100)
		for i := range 2 * broker.RejectedPerSubject { // each is a byte longer than the one it replaces
			reject("noisy", 20<<10+i)
		}
		have("noisy", broker.RejectedPerSubject)
		have("careful", 1)
		for i := range 6 {
			reject(fmt.Sprint("invented-", i), 250<<10)
		}
		have("invented-5", 1)
		have("invented-1", 0)
		have("noisy", 0)
		have("careful", 0)
	})
}
