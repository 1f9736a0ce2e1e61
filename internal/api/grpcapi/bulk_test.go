package grpcapi_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/subject"
)

// progresses reads a stream to its end.
func progresses(t *testing.T, stream grpc.ServerStreamingClient[genbusv1.BulkProgress], err error) (all []*genbusv1.BulkProgress) {
	t.Helper()
	for err == nil {
		var p *genbusv1.BulkProgress
		if p, err = stream.Recv(); err == nil {
			all = append(all, p)
		}
	}
	if !errors.Is(err, io.EOF) || len(all) == 0 {
		t.Fatalf("%v, %v", all, err)
	}
	return all
}

// TestBulkActions checks that bulk actions are counted, run for the counted jobs only, and
// recorded.
func TestBulkActions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator)
	client, ctx := genbusv1grpc.NewOperatorServiceClient(w.Dial()), withKey(t.Context(), opsKey)
	cancel := func(m *genbusv1.CancelJobsRequest) []*genbusv1.BulkProgress {
		t.Helper()
		stream, err := client.CancelJobs(ctx, m)
		return progresses(t, stream, err)
	}
	queued, started, ended := w.CreateVideo(apitest.ByAcme...), w.CreateVideo(apitest.ByAcme...), w.CreateVideo(apitest.ByAcme...)
	w.StartVideo("acme", started)
	w.EndVideo(w.StartVideo("acme", ended))
	other := w.CreateVideo(apitest.ByGlobex...)
	m := &genbusv1.CancelJobsRequest{Filter: &genbusv1.ListJobsRequest{Tenant: "acme"}, DryRun: true}
	var counted []*genbusv1.BulkProgress
	w.Await("the count", func() bool { counted = cancel(m); return counted[0].GetTotal() == 2 })
	if len(counted) != 1 || counted[0].GetEnded() || !counted[0].GetTotalExact() {
		t.Errorf("%v", counted)
	}
	m.DryRun, m.Token = false, counted[0].GetToken()
	later := w.CreateVideo(apitest.ByAcme...)
	all := cancel(m)
	if first, last := all[0], all[len(all)-1]; first.GetDone() != 0 || first.GetTotal() != 2 || !last.GetEnded() || last.GetDone() != 2 || last.GetChanged() != 2 || last.GetFailed() != 0 || last.GetToken() != m.GetToken() {
		t.Errorf("%v", all)
	}
	for id, want := range map[string]genbusv1.JobStatus{
		queued: genbusv1.JobStatus_JOB_STATUS_CANCELLED, started: genbusv1.JobStatus_JOB_STATUS_CANCELLED,
		ended: genbusv1.JobStatus_JOB_STATUS_COMPLETED, later: genbusv1.JobStatus_JOB_STATUS_QUEUED,
	} {
		if e := w.Entry(subject.Video, "acme", id); e.Job.GetStatus() != want {
			t.Errorf("%v, want %s", e.Job, want)
		}
	}
	if e := w.Entry(subject.Video, "globex", other); e.Terminal() {
		t.Errorf("%v", e.Job)
	}
	stream, err := client.DropDeadLetters(ctx, &genbusv1.DropDeadLettersRequest{Filter: &genbusv1.DeadLetterFilter{Tenant: "acme"}, Token: m.GetToken()})
	if err == nil {
		_, err = stream.Recv()
	}
	if apitest.Reason(err) != "invalid_request" || !strings.Contains(err.Error(), "token") {
		t.Errorf("another action with the token: %v", err)
	}
	checkBulkAudit(t, m.GetToken(), apitest.Must[*genbusv1.ListAuditRecordsResponse](t)(client.ListAuditRecords(ctx, &genbusv1.ListAuditRecordsRequest{})).GetRecords())
}

// checkBulkAudit checks that runs are recorded and dry runs are not.
func checkBulkAudit(t *testing.T, token string, got []*genbusv1.StoredAuditRecord) {
	t.Helper()
	if len(got) != 2 {
		t.Fatalf("%v", got)
	}
	refused, done := got[0].GetRecord(), got[1].GetRecord()
	if refused.GetAction() != "DropDeadLetters" || refused.GetOutcome() != genbusv1.AuditRecord_OUTCOME_REFUSED || refused.GetCode() != "invalid_request" {
		t.Errorf("%v", refused)
	}
	b := done.GetBulk()
	if done.GetAction() != "CancelJobs" || done.GetOutcome() != genbusv1.AuditRecord_OUTCOME_DONE || done.GetOperator() != "ops" ||
		b.GetToken() != token || !strings.Contains(b.GetFilter(), "acme") || b.GetTotal() != 2 || b.GetDone() != 2 || b.GetChanged() != 2 || b.GetFailed() != 0 {
		t.Errorf("%v", done)
	}
}

// TestADrainStopsARun checks that a drain finishes steps in progress, starts no others, and records
// the counts.
func TestADrainStopsARun(t *testing.T) {
	t.Parallel()
	silent, reached, release := apitest.SilentUpstream(t)
	w := newWorld(t, apitest.WithOperator, silent)
	client, ctx := genbusv1grpc.NewOperatorServiceClient(w.Dial()), withKey(t.Context(), opsKey)
	m := &genbusv1.AttachUpstreamTasksRequest{Tasks: w.LostTasks(10), DryRun: true}
	stream, err := client.AttachUpstreamTasks(ctx, m)
	m.DryRun, m.Token = false, progresses(t, stream, err)[0].GetToken()
	stream, err = client.AttachUpstreamTasks(ctx, m)
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 8 { // the number of concurrent steps
		<-reached
	}
	w.Drain(nil)
	release()
	for err == nil {
		_, err = stream.Recv()
	}
	if apitest.Reason(err) != "shutting_down" {
		t.Errorf("%v", err)
	}
	w.Core.AwaitWork(t.Context())
	if r := w.BulkRecord(); r.GetOutcome() != genbusv1.AuditRecord_OUTCOME_FAILED || r.GetCode() != "shutting_down" || r.GetBulk().GetTotal() != 10 || r.GetBulk().GetDone() != 8 || r.GetBulk().GetFailed() != 8 {
		t.Errorf("%v", r)
	}
}
