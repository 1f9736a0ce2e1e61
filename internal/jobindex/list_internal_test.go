package jobindex

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestAJobThatTheLeaderStoresLaterStays checks that a list keeps a job that its node delivers
// before the leader has stored it.
func TestAJobThatTheLeaderStoresLaterStays(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := joblog.New(joblog.Options{Broker: b, Encoder: publisher.Encoder{Names: b.Names()}, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)})
	x := New(Options{Log: l, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)})
	first := task.FromWork(&genbusv1.WorkItem{Id: "video_1", Kind: "video", Tenant: "acme", Route: "r", Model: "m", AcceptedAt: timestamppb.Now()})
	q := jobtable.Query{Kind: subject.Video, Tenant: "acme"}
	n := subject.JobName{Kind: q.Kind, Tenant: q.Tenant, ID: "video_1"}
	r := &reading{table: jobtable.New(10), ready: true}
	x.keeper.current.Store(r)
	r.apply(joblog.Summary{Name: n, Status: "queued", CreatedAt: first.Job.GetCreatedAt().AsTime(), Version: 1, Seq: 1})
	listed := func() int {
		page, err := x.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Jobs)
	}
	if n := listed(); n != 0 {
		t.Fatalf("%d jobs are listed that the log does not have", n)
	}
	l.OnCommit(func(joblog.Summary) {}) // keeps the event from being applied twice
	e, err := l.Commit(t.Context(), first, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := listed(); n != 1 || e.Seq != 1 {
		t.Errorf("%d jobs are listed after the leader has stored event %d", n, e.Seq)
	}
	if err := l.Erase(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if n := listed(); n != 0 || r.table.Unfinished("acme") != 0 {
		t.Errorf("%d jobs are listed, and %d count, after the job was erased", n, r.table.Unfinished("acme"))
	}
}
