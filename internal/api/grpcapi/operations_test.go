package grpcapi_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/subject"
)

// TestOperations are counted, started once, followed and listed, and are recorded.
func TestOperations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator)
	client, ctx := genbusv1.NewOperatorServiceClient(w.Dial()), withKey(t.Context(), opsKey)
	start := func(m *genbusv1.StartOperationRequest) *genbusv1.Operation {
		t.Helper()
		return apitest.Must[*genbusv1.StartOperationResponse](t)(client.StartOperation(ctx, m)).GetOperation()
	}
	queued, started, ended := w.CreateVideo(apitest.ByAcme...), w.CreateVideo(apitest.ByAcme...), w.CreateVideo(apitest.ByAcme...)
	w.StartVideo("acme", started)
	w.EndVideo(w.StartVideo("acme", ended))
	other := w.CreateVideo(apitest.ByGlobex...)
	m := &genbusv1.StartOperationRequest{Id: "outage-1", Spec: &genbusv1.OperationSpec{
		Work: &genbusv1.OperationSpec_CancelJobs{CancelJobs: &genbusv1.CancelJobs{Filter: &genbusv1.ListJobsRequest{Tenant: "acme"}}},
	}}
	count := proto.CloneOf(m)
	count.CountOnly = true
	var counted *genbusv1.Operation
	w.Await("the count", func() bool { counted = start(count); return counted.GetTotal() == 2 })
	if counted.GetId() != "" || counted.GetProgress() != nil || counted.GetOperator() != "" || !counted.GetTotalExact() {
		t.Errorf("%v", counted)
	}
	if _, err := client.GetOperation(ctx, &genbusv1.GetOperationRequest{Id: "outage-1"}); apitest.Reason(err) != "operation_not_found" {
		t.Errorf("a count has started it: %v", err)
	}
	m.AsOf = counted.GetAsOf()
	later := w.CreateVideo(apitest.ByAcme...)
	for range 2 {
		if op := start(m); op.GetId() != "outage-1" || op.GetOperator() != "ops" || op.GetTotal() != 2 {
			t.Errorf("%v", op)
		}
	}
	var op *genbusv1.Operation
	w.Await("the end", func() bool {
		op = apitest.Must[*genbusv1.GetOperationResponse](t)(client.GetOperation(ctx, &genbusv1.GetOperationRequest{Id: "outage-1"})).GetOperation()
		return op.GetProgress().GetState() == genbusv1.OperationProgress_STATE_DONE
	})
	if p := op.GetProgress(); p.GetDone() != 2 || p.GetChanged() != 2 || p.GetFailed() != 0 {
		t.Errorf("%v", op)
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
	m.Spec = &genbusv1.OperationSpec{Work: &genbusv1.OperationSpec_DropDeadLetters{DropDeadLetters: &genbusv1.DropDeadLetters{Filter: &genbusv1.DeadLetterFilter{Tenant: "acme"}}}}
	if _, err := client.StartOperation(ctx, m); apitest.Reason(err) != "idempotency_key_reused" {
		t.Errorf("other work under its id: %v", err)
	}
	if stopped := apitest.Must[*genbusv1.StopOperationResponse](t)(client.StopOperation(ctx, &genbusv1.StopOperationRequest{Id: "outage-1"})); stopped.GetOperation().GetProgress().GetState() != genbusv1.OperationProgress_STATE_DONE {
		t.Errorf("%v", stopped)
	}
	list := apitest.Must[*genbusv1.ListOperationsResponse](t)(client.ListOperations(ctx, &genbusv1.ListOperationsRequest{}))
	if len(list.GetOperations()) != 1 || !proto.Equal(list.GetOperations()[0], op) || list.GetNextPageToken() != "" {
		t.Errorf("%v", list)
	}
	checkOperationAudit(t, apitest.Must[*genbusv1.ListAuditRecordsResponse](t)(client.ListAuditRecords(ctx, &genbusv1.ListAuditRecordsRequest{})).GetRecords())
}

// checkOperationAudit checks that each call is recorded, the newest first, and no job of its own.
func checkOperationAudit(t *testing.T, got []*genbusv1.StoredAuditRecord) {
	t.Helper()
	want := []*genbusv1.AuditRecord{
		{Action: "StopOperation", Outcome: genbusv1.AuditRecord_OUTCOME_DONE, Jobs: 2, OperationWork: "cancel_jobs"},
		{Action: "StartOperation", Outcome: genbusv1.AuditRecord_OUTCOME_REFUSED, Code: "idempotency_key_reused", OperationWork: "drop_dead_letters"},
		{Action: "StartOperation", Outcome: genbusv1.AuditRecord_OUTCOME_DONE, OperationWork: "cancel_jobs"}, // a repeat
		{Action: "StartOperation", Outcome: genbusv1.AuditRecord_OUTCOME_DONE, Jobs: 2, OperationWork: "cancel_jobs"},
	}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i, s := range got {
		r := s.GetRecord()
		if r.GetOperationId() != "outage-1" || r.GetOperator() != "ops" || r.GetAction() != want[i].GetAction() || r.GetOutcome() != want[i].GetOutcome() || r.GetCode() != want[i].GetCode() || r.GetJobs() != want[i].GetJobs() || r.GetOperationWork() != want[i].GetOperationWork() {
			t.Errorf("%v, want %v", r, want[i])
		}
	}
}
