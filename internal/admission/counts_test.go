package admission_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestOnlyNewJobsCountAsAccepted checks that attaching to a job does not count as accepting one.
func TestOnlyNewJobsCountAsAccepted(t *testing.T) {
	t.Parallel()
	s := setup(t, brokertest.Single(t))
	for range 3 {
		r := video("one", "a cat")
		r.Ingress = telemetry.IngressGRPC
		if _, err := s.Admit(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	const name = "genbus_jobs_accepted_total"
	want := "# HELP " + name + " Jobs whose work item was stored, or inline chats that began.\n# TYPE " + name + " counter\n"
	for _, kind := range []string{"chat", "video"} {
		for _, ingress := range []string{"call", "grpc", "http", "nats"} {
			n := 0
			if kind == "video" && ingress == "grpc" {
				n = 1
			}
			want += fmt.Sprintf("%s{ingress=%q,kind=%q} %d\n", name, ingress, kind, n)
		}
	}
	if err := testutil.GatherAndCompare(s.parts.Metrics.Gatherer(), strings.NewReader(want), name); err != nil {
		t.Error(err)
	}
}
