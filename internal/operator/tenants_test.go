package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/subject"
)

// TestTenantsAreCounted checks each tenant's unfinished jobs, stored bytes and events of the last
// hour.
func TestTenantsAreCounted(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t), func(c *config.Config) { c.Limits.Tenant.MaxJobs = 9 }).start()
	r.end(r.admit(subject.Video, "done", videoBody).Name())
	r.end(r.admit(subject.Video, "failed", `{"model":"sandbox-video:statuses=in_progress|failed","prompt":"x"}`).Name())
	r.stop()
	waiting := r.admit(subject.Video, "waits", videoBody)
	bodies, most := broker.NewBodies(r.o.Broker), int64(r.o.Config.Now().Limits.BodiesBytes)
	if _, err := bodies.Put(t.Context(), "acme", "kept-", make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	stored, err := bodies.Used(t.Context(), "acme")
	if err != nil || stored < 1000 {
		t.Fatalf("%d bytes, %v", stored, err)
	}
	tenants := Tenants{Index: r.Index, Config: r.o.Config, Bodies: bodies, Fleet: fleet.New(fleet.Options{Alone: true, State: func() *genbusv1.ReplicaState {
		return &genbusv1.ReplicaState{Refusals: []*genbusv1.TenantRefusals{{Tenant: "globex", LastHour: 5}, {Tenant: "acme", LastHour: 4}, {Tenant: "initech", LastHour: 6}}}
	}})}
	want := &genbusv1.TenantState{
		Tenant: "acme", Unfinished: 1, Queued: 1, MaxJobs: 9, OldestUnfinished: waiting.Job.GetCreatedAt(), AcceptedLastHour: 3, EndedLastHour: 2, FailedLastHour: 1, RefusedLastHour: 4,
		StoredBytes: stored, MaxStoredBytes: most,
	}
	refused := []*genbusv1.TenantState{{Tenant: "initech", MaxJobs: 9, RefusedLastHour: 6, MaxStoredBytes: most}, {Tenant: "globex", MaxJobs: 9, RefusedLastHour: 5, MaxStoredBytes: most}}
	var got *genbusv1.ListTenantsResponse
	r.eventually("the jobs are counted", func() (counted bool) {
		var err error
		got, err = tenants.List(t.Context(), &genbusv1.ListTenantsRequest{})
		return err == nil && len(got.GetTenants()) > 0 && proto.Equal(got.GetTenants()[0], want)
	})
	if diff := cmp.Diff(refused, got.GetTenants()[1:], protocmp.Transform()); diff != "" {
		t.Errorf("refused everything: %s", diff)
	}
	if got.GetTotal() != 1 || !got.GetAsOf().IsValid() || got.GetCompleteSince() != nil {
		t.Errorf("%v", got)
	}
	if got, err := tenants.List(t.Context(), &genbusv1.ListTenantsRequest{PageSize: 2}); err != nil || len(got.GetTenants()) != 2 || got.GetTenants()[1].GetTenant() != "initech" {
		t.Errorf("two of them: %v, %v", got, err)
	}
	if got, err := tenants.List(t.Context(), &genbusv1.ListTenantsRequest{Route: "other"}); err != nil || len(got.GetTenants()) != 0 || got.GetTotal() != 0 {
		t.Errorf("of another route: %v, %v", got, err)
	}
	if _, err := tenants.List(t.Context(), &genbusv1.ListTenantsRequest{Kind: "audio"}); errcode.CodeOf(err) != errcode.InvalidRequest {
		t.Errorf("%v", err)
	}
}

// TestStreamsAreListed checks the listed states of the streams.
func TestStreamsAreListed(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	r.admit(subject.Video, "one", videoBody)
	got, err := Streams{Broker: r.o.Broker}.List(t.Context())
	if err != nil || len(got.GetStreams()) != len(r.o.Broker.Streams().Configs()) {
		t.Fatalf("%v, %v", got, err)
	}
	names := r.o.Broker.Names()
	for _, s := range got.GetStreams() {
		full := s.GetName() == names.Chunks() || s.GetName() == names.UsageStream() || s.GetName() == names.Rejected()
		if s.GetDescription() == "" || s.GetDropsOld() != full || s.GetUsed() < 0 || s.GetUsed() > 1 || (s.GetMessages() > 0) != s.GetOldest().IsValid() {
			t.Errorf("%v", s)
		}
		if s.GetName() == names.Tasks() && (s.GetMessages() != 1 || s.GetBytes() == 0 || s.GetUsed() == 0 || s.GetMaxBytes() == 0) {
			t.Errorf("%v", s)
		}
	}
}
