package consumer

import (
	"fmt"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

func drains(r *config.Route) { r.Draining = true }

// TestDrainingRouteAdmitsNothingAndEmpties proves that a draining route runs its ready jobs and
// backlog, refuses new requests, and attaches requests of accepted jobs.
func TestDrainingRouteAdmitsNothingAndEmpties(t *testing.T) {
	t.Parallel()
	b, up, m := brokertest.Single(t), newSentBodies(t), telemetry.NewMetrics("test")
	few := videoRoutes(func(r *config.Route) { r.MaxInFlight, r.ReadyJobs = 1, 1 })
	before := idleReplica(t, b, testConfig(t, up.url, few))
	const raw = `{"model":"sandbox-video","prompt":"a cat"}`
	request := func(id string) admission.Request {
		return admission.Request{Kind: subject.Video, Tenant: "acme", RequestID: id, Body: body.Parse([]byte(raw))}
	}
	for i := range 4 {
		if _, err := before.Admission.Admit(t.Context(), request(fmt.Sprint("v", i))); err != nil {
			t.Fatal(err)
		}
	}
	r := idleReplica(t, b, testConfig(t, up.url, few, videoRoutes(drains)), func(o *parts.Options) { o.Metrics = m })
	if _, err := r.Admission.Admit(t.Context(), request("new")); errcode.CodeOf(err) != errcode.ModelNotFound {
		t.Errorf("a new job: %v", err)
	}
	if e, err := r.Admission.Admit(t.Context(), request("v0")); err != nil || e.Job.GetId() != videoID("v0") {
		t.Errorf("a request of an accepted job: %v, %v", e.Job, err)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	inbox := publish(t, b, subject.Video, "inbox", videoRequest("inbox", "sandbox-video", "a cat"))
	if end := last(follow(t, r.log, inbox)); end.Job.GetError().GetCode() != string(errcode.ModelNotFound) {
		t.Errorf("the request of the inbox ended %v", end.Job.GetError())
	}
	for i := range 4 {
		end := last(follow(t, r.log, videoID(fmt.Sprint("v", i))))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || len(up.of(end.Job.GetId())) != 1 {
			t.Errorf("ended %v, sent %d times", end.Job.GetError(), len(up.of(end.Job.GetId())))
		}
		doneOnce(t, b, end)
	}
	reaches(t, m, 0, "genbus_draining_jobs_left", map[string]string{"kind": "video", "route": config.SandboxVideoRoute})
}
