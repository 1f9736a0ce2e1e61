package grpcapi_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

func keepRequests(c *config.Config) {
	c.OperatorsReadBodies = true
	for i := range c.Routes {
		c.Routes[i].KeepRequests = true
	}
}

// TestOperatorRetries checks that operators retry ended jobs of any tenant, and that retries and
// reads are recorded without the request.
func TestOperatorRetries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator, keepRequests)
	client, ctx := genbusv1grpc.NewOperatorServiceClient(w.Dial()), withKey(t.Context(), opsKey)
	old := w.CreateVideo(apitest.ByAcme...)
	retry := &genbusv1.RetryJobRequest{Kind: "video", Tenant: "acme", Id: old}
	if _, err := client.RetryJob(ctx, retry); apitest.Reason(err) != "not_terminal" {
		t.Errorf("a job that waits: %v", err)
	}
	end := w.EndVideo(w.StartVideo("acme", old))
	if _, err := client.RetryJob(ctx, retry); apitest.Reason(err) != "still_held" {
		t.Errorf("a job that is held: %v", err)
	}
	w.LetGo(end)
	for want, m := range map[string]*genbusv1.RetryJobRequest{
		"invalid_request": {Kind: "audio", Tenant: "acme", Id: old},
		"task_not_found":  {Kind: "video", Tenant: "globex", Id: old},
		"chat_not_found":  {Kind: "chat", Tenant: "acme", Id: old},
	} {
		if _, err := client.RetryJob(ctx, m); apitest.Reason(err) != want {
			t.Errorf("%v: %v", m, err)
		}
		if _, err := client.GetJobBodies(ctx, &genbusv1.GetJobBodiesRequest{Kind: m.GetKind(), Tenant: m.GetTenant(), Id: old}); apitest.Reason(err) != want {
			t.Errorf("bodies of %v: %v", m, err)
		}
	}
	bodies := apitest.Must[*genbusv1.GetJobBodiesResponse](t)(client.GetJobBodies(ctx, &genbusv1.GetJobBodiesRequest{Kind: "video", Tenant: "acme", Id: old}))
	if string(bodies.GetRequestJson()) != apitest.VideoBody || bodies.GetRequestFrom() != "kept" {
		t.Errorf("bodies: %v", bodies)
	}
	var header metadata.MD
	made := apitest.Must[*genbusv1.RetryJobResponse](t)(client.RetryJob(ctx, retry, grpc.Header(&header)))
	if e := w.Entry(subject.Video, "acme", made.GetId()); e.Job.GetRetryOf() != old || made.GetStatus() != genbusv1.JobStatus_JOB_STATUS_QUEUED || header.Get("genbus-job-id")[0] != made.GetId() {
		t.Errorf("%v made %v, %v", made, e.Job, header)
	}
	if second := apitest.Must[*genbusv1.RetryJobResponse](t)(client.RetryJob(ctx, retry)); second.GetId() != made.GetId() {
		t.Errorf("the same call made %s and %s", made.GetId(), second.GetId())
	}
	retry.IdempotencyKey, retry.RequestJson = "2", []byte(`{"model":"sandbox-video","prompt":"another secret"}`)
	if third := apitest.Must[*genbusv1.RetryJobResponse](t)(client.RetryJob(ctx, retry)); third.GetId() == made.GetId() {
		t.Errorf("another key made %s too", third.GetId())
	}
	var shown *genbusv1.GetJobResponse
	w.Await("an operator sees both retries", func() bool {
		shown = apitest.Must[*genbusv1.GetJobResponse](t)(client.GetJob(ctx, &genbusv1.GetJobRequest{Id: old}))
		return len(shown.GetReplacedBy()) == 2 && shown.GetReplacedBy()[0] == made.GetId()
	})
	videos := genbusv1grpc.NewVideoServiceClient(w.Dial())
	get := apitest.Must[*genbusv1.GetVideoTaskResponse](t)(videos.GetVideoTask(withKey(t.Context(), acmeKey), &genbusv1.GetVideoTaskRequest{Id: old}))
	if !slices.Equal(get.GetReplacedBy(), shown.GetReplacedBy()) {
		t.Errorf("its tenant sees %v", get.GetReplacedBy())
	}
	if event, err := w.Broker.Last(t.Context(), w.Broker.Names().Tasks(), w.Broker.Names().Task(subject.Video, "acme", old)); err != nil || strings.Contains(string(event.Data), made.GetId()) {
		t.Errorf("the event names the retry, %v", err)
	}
	records := apitest.Must[*genbusv1.ListAuditRecordsResponse](t)(client.ListAuditRecords(ctx, &genbusv1.ListAuditRecordsRequest{JobId: old, Tenant: "acme"})).GetRecords()
	if len(records) != 10 { // six refused, three made, one read
		t.Errorf("%d are recorded: %v", len(records), records)
	}
	for _, s := range records {
		r := s.GetRecord()
		if edited := r.GetNewJobId() != "" && r.GetNewJobId() != made.GetId(); r.GetEdited() != edited {
			t.Errorf("edited is %v in %v", r.GetEdited(), s)
		}
		if done := r.GetOutcome() == genbusv1.AuditRecord_OUTCOME_DONE; done != (r.GetCode() == "") || (r.GetNewJobId() != "") != (done && r.GetAction() == "RetryJob") || strings.Contains(s.String(), "secret") {
			t.Errorf("recorded is %v", s)
		}
	}
}

// TestJobBodiesArePrivate checks that bodies are private by default.
func TestJobBodiesArePrivate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator)
	client, ctx := genbusv1grpc.NewOperatorServiceClient(w.Dial()), withKey(t.Context(), opsKey)
	id := w.CreateVideo(apitest.ByAcme...)
	if _, err := client.GetJobBodies(ctx, &genbusv1.GetJobBodiesRequest{Kind: "video", Tenant: "acme", Id: id}); apitest.Reason(err) != "bodies_private" {
		t.Errorf("read: %v", err)
	}
}
