package grpcapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

const (
	acmeKey = "key-acme"
	opsKey  = apitest.OperatorKey
)

func withKey(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
}

func methods(s grpc.ServiceDesc) (out []string) {
	for _, m := range s.Methods {
		out = append(out, "/"+s.ServiceName+"/"+m.MethodName)
	}
	for _, m := range s.Streams {
		out = append(out, "/"+s.ServiceName+"/"+m.StreamName)
	}
	return out
}

// TestOperatorMethodsAreForOperators checks every operator method with every kind of key, with and
// without operators and tenants.
func TestOperatorMethodsAreForOperators(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config []func(*config.Config)
		want   map[string]string // reason of the refusal by key, or empty
	}{
		"no operator": {
			[]func(*config.Config){apitest.TwoTenants},
			map[string]string{"": "operator_required", "nobody": "operator_required", acmeKey: "operator_required", opsKey: "operator_required", apitest.LocalKey: ""},
		},
		"operator and tenants": {
			[]func(*config.Config){apitest.TwoTenants, apitest.WithOperator},
			map[string]string{"": "invalid_api_key", "nobody": "invalid_api_key", acmeKey: "operator_required", opsKey: "", apitest.LocalKey: "invalid_api_key"},
		},
		"operator, and everybody a tenant": {
			[]func(*config.Config){apitest.WithOperator},
			map[string]string{"": "invalid_api_key", "nobody": "invalid_api_key", opsKey: "", apitest.LocalKey: "invalid_api_key"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.config...)
			conn := w.Dial()
			for _, method := range methods(genbusv1grpc.OperatorService_ServiceDesc) {
				for key, want := range c.want {
					err := conn.Invoke(withKey(t.Context(), key), method, &emptypb.Empty{}, &emptypb.Empty{})
					got := apitest.Reason(err)
					if want == "" {
						if got == "operator_required" || got == "invalid_api_key" || status.Code(err) == codes.Unimplemented {
							t.Errorf("%s as operator: %v", method, err)
						}
						continue
					}
					code := map[string]codes.Code{"operator_required": codes.PermissionDenied, "invalid_api_key": codes.Unauthenticated}[want]
					if got != want || status.Code(err) != code {
						t.Errorf("%s with key %q: %v", method, key, err)
					}
					if name == "no operator" && !strings.Contains(status.Convert(err).Message(), "GENBUS_OPERATOR_KEY") {
						t.Errorf("%s does not say how to become one: %v", method, err)
					}
				}
			}
		})
	}
}

// TestAReadOnlyKeyChangesNothing checks that a read-only key is refused by all methods that change
// something and by no others, also by HTTP.
func TestAReadOnlyKeyChangesNothing(t *testing.T) {
	t.Parallel()
	const key = "gb_read-only-0123456789abcdef"
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator, func(c *config.Config) {
		c.OperatorKeys = append(c.OperatorKeys, config.OperatorKey{Name: "viewer", KeyEnv: "VIEWER", Key: config.NewSecret(key), ReadOnly: true})
	})
	conn := w.Dial()
	reading := regexp.MustCompile("/(Get|List)[A-Za-z]+$")
	for _, method := range methods(genbusv1grpc.OperatorService_ServiceDesc) {
		err := conn.Invoke(withKey(t.Context(), key), method, &emptypb.Empty{}, &emptypb.Empty{})
		if refused := apitest.Reason(err) == "operator_required"; refused == reading.MatchString(method) {
			t.Errorf("%s: %v", method, err)
		}
	}
	a := w.Post("/genbus/v1/operator/routes/video/any/pause", "", "Authorization", "Bearer "+key)
	if a.Status != http.StatusForbidden || !strings.Contains(a.Body, "is read-only, so nothing was changed") {
		t.Errorf("a route was paused: %d %s", a.Status, a.Body)
	}
}

// TestAnOperatorsKeyIsNoTenants checks that an operator key opens no tenant method or path and is
// told why, unlike an unknown or expired key.
func TestAnOperatorsKeyIsNoTenants(t *testing.T) {
	t.Parallel()
	const endedKey, viewerKey, itIsTheOperators = "gb_ended-0123456789abcdef", "gb_read-only-0123456789abcdef", "is an operator key"
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator, func(c *config.Config) {
		c.OperatorKeys = append(c.OperatorKeys, config.OperatorKey{
			Name: "past", KeyEnv: "PAST", Key: config.NewSecret(endedKey), NotAfter: time.Now().Add(-time.Hour).Format(time.RFC3339),
		}, config.OperatorKey{Name: "viewer", KeyEnv: "VIEWER", Key: config.NewSecret(viewerKey), ReadOnly: true})
	})
	keys := map[string]bool{opsKey: true, viewerKey: true, endedKey: false, "gb_nobody-0123456789abcdef": false, "": false} // by key: whether the answer identifies it as an operator key
	conn := w.Dial()
	for _, s := range []grpc.ServiceDesc{genbusv1grpc.VideoService_ServiceDesc, genbusv1grpc.ChatService_ServiceDesc, genbusv1grpc.ModelService_ServiceDesc} {
		for _, method := range methods(s) {
			for key, told := range keys {
				err := conn.Invoke(withKey(t.Context(), key), method, &emptypb.Empty{}, &emptypb.Empty{})
				if apitest.Reason(err) != "invalid_api_key" || strings.Contains(status.Convert(err).Message(), itIsTheOperators) != told {
					t.Errorf("%s with key %q: %v", method, key, err)
				}
			}
		}
	}
	for _, path := range []string{"/v1/models", "/v1/videos", "/genbus/v1/videos", apitest.KlingText, "/v1/videos/video_x/content", "/genbus/v1/chats/chat_x/events"} {
		for key, told := range keys {
			a := w.Get(path, "Authorization", "Bearer "+key)
			if a.Status != http.StatusUnauthorized || strings.Contains(a.Body, itIsTheOperators) != told {
				t.Errorf("%s with key %q: %d %s", path, key, a.Status, a.Body)
			}
		}
	}
}

// TestOperatorCalls checks each method by gRPC, and that the log names the operator of each change
// but contains no prompts or keys.
func TestOperatorCalls(t *testing.T) {
	t.Parallel()
	logged := &apitest.Lines{}
	w := &world{apitest.NewWith(t, apitest.Options{
		Change: []func(*config.Config){apitest.TwoTenants, apitest.WithOperator}, Logger: slog.New(slog.NewTextHandler(logged, nil)),
	})}
	w.Durables()
	client, ctx := genbusv1grpc.NewOperatorServiceClient(w.Dial()), withKey(t.Context(), opsKey)
	attached := w.endDeadLetters(ctx, client)
	_, err := client.EraseJob(ctx, &genbusv1.EraseJobRequest{Kind: "video", Tenant: "acme", Id: attached})
	if apitest.Reason(err) != "not_terminal" || status.Code(err) != codes.FailedPrecondition {
		t.Errorf("erase: %v", err)
	}
	if _, err := client.EraseJob(ctx, &genbusv1.EraseJobRequest{Kind: "chat", Tenant: "acme", Id: "chat_none"}); apitest.Reason(err) != "chat_not_found" {
		t.Errorf("erase of nothing: %v", err)
	}
	apitest.Must[*genbusv1.CancelJobResponse](t)(client.CancelJob(ctx, &genbusv1.CancelJobRequest{Kind: "video", Tenant: "acme", Id: attached}))
	paused := apitest.Must[*genbusv1.PauseRouteResponse](t)(client.PauseRoute(ctx, &genbusv1.PauseRouteRequest{Kind: "video", Name: config.SandboxVideoRoute}))
	routes := apitest.Must[*genbusv1.ListRoutesResponse](t)(client.ListRoutes(ctx, &genbusv1.ListRoutesRequest{}))
	resumed := apitest.Must[*genbusv1.ResumeRouteResponse](t)(client.ResumeRoute(ctx, &genbusv1.ResumeRouteRequest{Kind: "video", Name: config.SandboxVideoRoute}))
	for _, r := range append(routes.GetRoutes(), paused.GetRoute(), resumed.GetRoute()) {
		if r.GetPaused() != (r.GetPause().GetBy() == "ops") || r.GetPaused() != r.GetPause().GetSince().IsValid() {
			t.Errorf("%v", r)
		}
	}
	overview := apitest.Must[*genbusv1.GetOverviewResponse](t)(client.GetOverview(ctx, &genbusv1.GetOverviewRequest{}))
	if len(overview.GetRoutes()) != len(routes.GetRoutes()) || overview.GetReplicas() != 1 || overview.GetDeadLetters() == nil {
		t.Errorf("the overview is %v", overview)
	}
	w.checkAudit(ctx, client, attached)
	if !paused.GetRoute().GetPaused() || resumed.GetRoute().GetPaused() || len(routes.GetRoutes()) != len(w.Cfg.Routes) {
		t.Errorf("%v, %v, %v", paused, routes, resumed)
	}
	checkOperatorLog(t, logged.String())
}

// endDeadLetters lists three dead letters, then redrives, attaches and drops one each. It returns
// the id of the attached job.
func (w *world) endDeadLetters(ctx context.Context, client genbusv1grpc.OperatorServiceClient) (attached string) {
	t := w.T
	t.Helper()
	one, two, three := w.PutDeadLetter(apitest.OrphanedDeadLetter("acme")), w.PutDeadLetter(apitest.OrphanedDeadLetter("acme")), w.PutDeadLetter(apitest.OrphanedDeadLetter("acme"))
	list := apitest.Must[*genbusv1.ListDeadLettersResponse](t)(client.ListDeadLetters(ctx, &genbusv1.ListDeadLettersRequest{PageSize: 2}))
	if len(list.GetLetters()) != 2 || list.GetNextPageToken() == "" || len(list.GetLetters()[0].GetLetter().GetData()) != 0 {
		t.Errorf("list: %v", list)
	}
	summary := apitest.Must[*genbusv1.GetDeadLetterResponse](t)(client.GetDeadLetter(ctx, &genbusv1.GetDeadLetterRequest{Sequence: one, WithoutData: true}))
	if l := summary.GetLetter(); l.GetSequence() != one || l.GetDataSize() == 0 || len(l.GetLetter().GetData()) > 0 {
		t.Errorf("without its data: %v", l)
	}
	got := apitest.Must[*genbusv1.GetDeadLetterResponse](t)(client.GetDeadLetter(ctx, &genbusv1.GetDeadLetterRequest{Sequence: one}))
	if !strings.Contains(string(got.GetLetter().GetLetter().GetData()), "secret") {
		t.Errorf("get: %v", got)
	}
	var header metadata.MD
	redriven := apitest.Must[*genbusv1.RedriveDeadLetterResponse](t)(client.RedriveDeadLetter(ctx, &genbusv1.RedriveDeadLetterRequest{Sequence: one}, grpc.Header(&header)))
	if redriven.GetId() == "" || redriven.GetStatus() != genbusv1.JobStatus_JOB_STATUS_QUEUED || header.Get("genbus-job-id")[0] != redriven.GetId() {
		t.Errorf("redrive: %v, %v", redriven, header)
	}
	attached = apitest.Must[*genbusv1.AttachUpstreamTaskResponse](t)(client.AttachUpstreamTask(ctx, &genbusv1.AttachUpstreamTaskRequest{Sequence: two})).GetId()
	if e := w.Entry(subject.Video, "acme", attached); core.VideoOf(e).GetUpstreamTaskId() != "up_1" {
		t.Errorf("attach: %v", e.Job)
	}
	lost := &genbusv1.LookUpUpstreamTaskRequest{Sequence: w.PutDeadLetter(apitest.LostDeadLetter("acme"))}
	if l := apitest.Must[*genbusv1.LookUpUpstreamTaskResponse](t)(client.LookUpUpstreamTask(ctx, lost)).GetLookUp(); l.GetTime() == nil || l.GetResult() == 0 {
		t.Errorf("looked up: %v", l)
	}
	if _, err := client.LookUpUpstreamTask(ctx, &genbusv1.LookUpUpstreamTaskRequest{Sequence: three}); apitest.Reason(err) != "letter_unusable" {
		t.Errorf("looked up where none is found: %v", err)
	}
	apitest.Must[*genbusv1.DropDeadLetterResponse](t)(client.DropDeadLetter(ctx, &genbusv1.DropDeadLetterRequest{Sequence: three}))
	if _, err := client.DropDeadLetter(ctx, &genbusv1.DropDeadLetterRequest{Sequence: three}); apitest.Reason(err) != "letter_not_found" || status.Code(err) != codes.NotFound {
		t.Errorf("dropped twice: %v", err)
	}
	return attached
}

// checkAudit checks the audit records, newest first.
func (w *world) checkAudit(ctx context.Context, client genbusv1grpc.OperatorServiceClient, attached string) {
	t := w.T
	t.Helper()
	all := apitest.Must[*genbusv1.ListAuditRecordsResponse](t)(client.ListAuditRecords(ctx, &genbusv1.ListAuditRecordsRequest{PageSize: 100}))
	var got []string
	for _, s := range all.GetRecords() {
		r := s.GetRecord()
		if r.GetOperator() != "ops" || r.GetRequestId() == "" || s.GetSequence() == 0 {
			t.Errorf("%v", s)
		}
		got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %s %s", r.GetAction(), strings.TrimPrefix(r.GetOutcome().String(), "OUTCOME_"), r.GetCode()), " "))
	}
	want := []string{
		"ResumeRoute DONE", "PauseRoute DONE", "CancelJob DONE", "EraseJob REFUSED chat_not_found", "EraseJob REFUSED not_terminal",
		"DropDeadLetter REFUSED letter_not_found", "DropDeadLetter DONE", "LookUpUpstreamTask REFUSED letter_unusable", "LookUpUpstreamTask DONE", "AttachUpstreamTask DONE", "RedriveDeadLetter DONE", "GetDeadLetter DONE",
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	of := apitest.Must[*genbusv1.ListAuditRecordsResponse](t)(client.ListAuditRecords(ctx, &genbusv1.ListAuditRecordsRequest{JobId: attached}))
	if n := len(of.GetRecords()); n != 3 || of.GetRecords()[2].GetRecord().GetNewJobId() != attached {
		t.Errorf("of the attached job: %v", of)
	}
}

// checkOperatorLog checks that the log names the operators and contains no content.
func checkOperatorLog(t *testing.T, lines string) {
	t.Helper()
	for _, op := range []string{"GetDeadLetter", "RedriveDeadLetter", "AttachUpstreamTask", "LookUpUpstreamTask", "DropDeadLetter", "CancelJob", "EraseJob", "PauseRoute", "ResumeRoute"} {
		if !strings.Contains(lines, "op="+op+" operator=ops") {
			t.Errorf("%s is not logged with its operator:\n%s", op, lines)
		}
	}
	if strings.Contains(lines, "secret") || strings.Contains(lines, opsKey) {
		t.Errorf("the log has a prompt or a key:\n%s", lines)
	}
}

// TestOperatorCancels checks that operators cancel jobs of any tenant and kind like their tenants,
// and that ended jobs stay unchanged.
func TestOperatorCancels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants, apitest.WithOperator)
	client, ctx := genbusv1grpc.NewOperatorServiceClient(w.Dial()), withKey(t.Context(), opsKey)
	queued, started, ended := w.CreateVideo(apitest.ByAcme...), w.CreateVideo(apitest.ByAcme...), w.CreateVideo(apitest.ByAcme...)
	w.StartVideo("acme", started)
	w.EndVideo(w.StartVideo("acme", ended))
	for _, row := range []struct {
		kind   subject.Kind
		id     string
		status genbusv1.JobStatus
		says   string
	}{
		{subject.Video, queued, genbusv1.JobStatus_JOB_STATUS_CANCELLED, "was cancelled by an operator before an upstream accepted it; nothing was charged"},
		{subject.Video, started, genbusv1.JobStatus_JOB_STATUS_CANCELLED, "by an operator after its submission; the upstream may still finish it"},
		{subject.Video, ended, genbusv1.JobStatus_JOB_STATUS_COMPLETED, ""},
		{subject.Chat, w.SubmitChat("", apitest.ByAcme...), genbusv1.JobStatus_JOB_STATUS_CANCELLED, "by an operator before an upstream accepted it; nothing was charged"},
	} {
		for range 2 { // a second cancel answers the same
			m := apitest.Must[*genbusv1.CancelJobResponse](t)(client.CancelJob(ctx, &genbusv1.CancelJobRequest{Kind: string(row.kind), Tenant: "acme", Id: row.id}))
			e := w.Entry(row.kind, "acme", row.id)
			if m.GetId() != row.id || m.GetStatus() != row.status || e.Job.GetStatus() != row.status || !strings.Contains(e.Job.GetError().GetMessage(), row.says) {
				t.Errorf("%v, want %s; the log has %v", m, row.status, e.Job)
			}
		}
	}
	for want, m := range map[string]*genbusv1.CancelJobRequest{
		"invalid_request": {Kind: "audio", Tenant: "acme", Id: queued},
		"task_not_found":  {Kind: "video", Tenant: "globex", Id: queued},
		"chat_not_found":  {Kind: "chat", Tenant: "acme", Id: queued},
	} {
		if _, err := client.CancelJob(ctx, m); apitest.Reason(err) != want {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// TestOverviewShowsAPauseAtOnce checks that pause and resume outdate the overview.
func TestOverviewShowsAPauseAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.WithOperator)
	w.Durables()
	client, ctx := genbusv1grpc.NewOperatorServiceClient(w.Dial()), withKey(t.Context(), opsKey)
	wantPausedBy := func(want string) {
		t.Helper()
		for _, r := range apitest.Must[*genbusv1.GetOverviewResponse](t)(client.GetOverview(ctx, &genbusv1.GetOverviewRequest{})).GetRoutes() {
			if s := r.GetRoute(); s.GetName() == config.SandboxVideoRoute && (s.GetPaused() != (want != "") || s.GetPause().GetBy() != want) {
				t.Errorf("the overview has the route as %v, want it paused by %q", s, want)
			}
		}
	}
	wantPausedBy("")
	for range 2 {
		apitest.Must[*genbusv1.PauseRouteResponse](t)(client.PauseRoute(ctx, &genbusv1.PauseRouteRequest{Kind: "video", Name: config.SandboxVideoRoute}))
		wantPausedBy("ops")
		apitest.Must[*genbusv1.ResumeRouteResponse](t)(client.ResumeRoute(ctx, &genbusv1.ResumeRouteRequest{Kind: "video", Name: config.SandboxVideoRoute}))
		wantPausedBy("")
	}
}

// TestAPauseOfAPausedRoute checks that a second pause replaces the operator, the reason and the end,
// but not the time of the first.
func TestAPauseOfAPausedRoute(t *testing.T) {
	t.Parallel()
	const second = "gb_second-operator-0123456789"
	w := newWorld(t, apitest.WithOperator, func(c *config.Config) {
		c.OperatorKeys = append(c.OperatorKeys, config.OperatorKey{Name: "second", KeyEnv: "SECOND", Key: config.NewSecret(second)})
	})
	w.Durables()
	client := genbusv1grpc.NewOperatorServiceClient(w.Dial())
	pause := func(key, reason string, d *durationpb.Duration) *genbusv1.RouteState {
		t.Helper()
		m := &genbusv1.PauseRouteRequest{Kind: "video", Name: config.SandboxVideoRoute, Reason: reason, Duration: d}
		return apitest.Must[*genbusv1.PauseRouteResponse](t)(client.PauseRoute(withKey(t.Context(), key), m)).GetRoute()
	}
	w.Await("the index of jobs", func() bool {
		r := apitest.Must[*genbusv1.ListRoutesResponse](t)(client.ListRoutes(withKey(t.Context(), opsKey), &genbusv1.ListRoutesRequest{})).GetRoutes()
		return len(r) > 0 && r[0].StartsLastMinute != nil
	})
	for range 2 {
		paused, again := pause(opsKey, "repair", durationpb.New(time.Hour)), pause(second, "", nil)
		if p := paused.GetPause(); p.GetBy() != "ops" || p.GetReason() != "repair" || !p.GetSince().IsValid() || p.GetUntil().AsTime().Sub(p.GetSince().AsTime()) != time.Hour {
			t.Errorf("paused by ops, the route is %v", paused)
		}
		if diff := cmp.Diff(&genbusv1.RoutePause{Since: paused.GetPause().GetSince(), By: "second"}, again.GetPause(), protocmp.Transform()); diff != "" {
			t.Errorf("paused again: %s", diff)
		}
		if again.StartsLastMinute == nil {
			t.Errorf("the index is ready, and the answer does not say how many jobs have started: %v", again)
		}
		for _, r := range apitest.Must[*genbusv1.ListRoutesResponse](t)(client.ListRoutes(withKey(t.Context(), opsKey), &genbusv1.ListRoutesRequest{})).GetRoutes() {
			if r.GetName() == config.SandboxVideoRoute && !proto.Equal(r.GetPause(), again.GetPause()) {
				t.Errorf("the list has the route as %v, the answer as %v", r, again)
			}
		}
		apitest.Must[*genbusv1.ResumeRouteResponse](t)(client.ResumeRoute(withKey(t.Context(), opsKey), &genbusv1.ResumeRouteRequest{Kind: "video", Name: config.SandboxVideoRoute}))
	}
}

// TestAnUnheldJobOnAPausedRouteHasANotice checks that a job whose replica is gone has a notice
// while its route is paused, and a held job has none.
func TestAnUnheldJobOnAPausedRouteHasANotice(t *testing.T) {
	t.Parallel()
	w := &world{apitest.NewWith(t, apitest.Options{Change: []func(*config.Config){apitest.TwoTenants, apitest.WithOperator}, Replica: "another"})}
	w.Durables()
	client, ctx := genbusv1grpc.NewOperatorServiceClient(w.Dial()), withKey(t.Context(), opsKey)
	created := w.Post("/v1/video/generations", `{"model":"sandbox-video","prompt":"a cat"}`, "Authorization", "Bearer "+acmeKey)
	e := w.StartVideo("acme", created.Header.Get("Genbus-Job-Id"))
	wantNotice := func(when string, want ...string) {
		t.Helper()
		w.Await("the state of the route", func() bool { // without a consumer nothing reads it
			uncounted, err := w.Queue.Count(t.Context())
			return err == nil && len(uncounted) == 0
		})
		var header metadata.MD
		job := apitest.Must[*genbusv1.GetJobResponse](t)(client.GetJob(ctx, &genbusv1.GetJobRequest{Id: e.Job.GetId()}, grpc.Header(&header)))
		if got := header.Get("genbus-notice"); !slices.Equal(got, want) || job.GetWorkItem().GetState() != genbusv1.WorkItemPlace_STATE_IN_HAND {
			t.Errorf("%s: notice %v, want %v; %v", when, got, want, job.GetWorkItem())
		}
	}
	wantNotice("left on a route that runs")
	w.HeldJob = &genbusv1.HeldJob{}
	apitest.Must[*genbusv1.PauseRouteResponse](t)(client.PauseRoute(ctx, &genbusv1.PauseRouteRequest{Kind: "video", Name: config.SandboxVideoRoute}))
	wantNotice("in hand on a paused route")
	w.HeldJob = nil
	wantNotice("left on a paused route", "route_paused")
	apitest.Must[*genbusv1.ResumeRouteResponse](t)(client.ResumeRoute(ctx, &genbusv1.ResumeRouteRequest{Kind: "video", Name: config.SandboxVideoRoute}))
	wantNotice("left on a route that was resumed")
	apitest.Must[*genbusv1.PauseRouteResponse](t)(client.PauseRoute(ctx, &genbusv1.PauseRouteRequest{Kind: "video", Name: config.SandboxVideoRoute}))
	w.EndVideo(e)
	wantNotice("ended on a paused route") // its work item still exists
}

// TestPausedRouteRefusesInlineChats checks that a paused route refuses inline chats and accepts
// chats that can wait.
func TestPausedRouteRefusesInlineChats(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.WithOperator)
	w.Durables()
	client, ctx := genbusv1grpc.NewOperatorServiceClient(w.Dial()), withKey(t.Context(), opsKey)
	const body = `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`
	if a := w.Post("/v1/chat/completions", body); a.Status != http.StatusOK {
		t.Fatalf("before: %d %s", a.Status, a.Body)
	}
	const reason = "维护, \"v2\""
	var until []string
	for kind, route := range map[string]string{"chat": config.SandboxChatRoute, "video": config.SandboxVideoRoute} {
		paused := apitest.Must[*genbusv1.PauseRouteResponse](t)(client.PauseRoute(ctx, &genbusv1.PauseRouteRequest{Kind: kind, Name: route, Reason: reason, Duration: durationpb.New(time.Hour)}))
		until = append(until, paused.GetRoute().GetPause().GetUntil().AsTime().Format(time.RFC3339))
	}
	// Waiting jobs get a notice on every ingress.
	noticed := func(value string) bool {
		code, of, err := mime.ParseMediaType(value)
		return err == nil && code == "route_paused" && of["reason"] == reason && slices.Contains(until, of["until"])
	}
	w.Await("the notice", func() bool {
		uncounted, err := w.Queue.Count(t.Context())
		return err == nil && len(uncounted) == 0 && noticed(w.Post("/v1/video/generations", `{"model":"sandbox-video","prompt":"a cat"}`).Header.Get("Genbus-Notice"))
	})
	if a := w.Post("/genbus/v1/videos", `{"raw_json":"eyJtb2RlbCI6InNhbmRib3gtdmlkZW8iLCJwcm9tcHQiOiJhIGNhdCJ9"}`); a.Status != http.StatusOK || !noticed(a.Header.Get("Genbus-Notice")) {
		t.Errorf("by the gateway: %d %v %s", a.Status, a.Header, a.Body)
	}
	w.Calls()
	if m := w.Call(w.Broker.Names().Call(subject.Video, "default"), nats.Header{"content-type": {"application/json"}}, []byte(apitest.VideoBody)); !noticed(m.Header.Get("genbus-notice")) {
		t.Errorf("by NATS: %v %s", m.Header, m.Data)
	}
	id := w.CreateVideo()
	chat := w.SubmitChat("")
	for _, a := range []apitest.Answer{
		w.Get("/v1/video/generations/" + id), w.Get("/v1/videos/" + id), w.Get("/kling/v1/videos/text2video/" + id), w.Get("/genbus/v1/videos/" + id),
		w.Get("/genbus/v1/chats/" + chat), w.Get("/genbus/v1/operator/jobs/"+id, "Authorization", "Bearer "+opsKey),
	} {
		if a.Status != http.StatusOK || !noticed(a.Header.Get("Genbus-Notice")) {
			t.Errorf("read: %d %v %s", a.Status, a.Header, a.Body)
		}
	}
	var refused apitest.Answer
	w.Await("the refusal", func() bool {
		refused = w.Post("/v1/chat/completions", body)
		return refused.Status != http.StatusOK
	})
	if refused.Status != http.StatusServiceUnavailable || refused.ErrorCode(t) != "route_paused" || refused.Header.Get("Retry-After") != "60" ||
		!slices.ContainsFunc(until, func(end string) bool { return strings.Contains(refused.Body, " until "+end+" (维护, ") }) {
		t.Errorf("%d %v %s", refused.Status, refused.Header, refused.Body)
	}
	chats := w.Sandbox.Sandbox.Stats().Chats
	streamed := strings.Replace(body, "{", `{"stream":true,`, 1)
	if a := w.Post("/v1/chat/completions", streamed); a.ErrorCode(t) != "route_paused" {
		t.Errorf("a stream: %d %s", a.Status, a.Body)
	}
	if a := w.Post("/v1/chat/completions", body, "Prefer", "respond-async"); a.Status != http.StatusAccepted {
		t.Errorf("a queued chat: %d %s", a.Status, a.Body)
	}
	if n := w.Sandbox.Sandbox.Stats().Chats; n != chats {
		t.Errorf("%d chats reached the upstream of a paused route", n-chats)
	}
	apitest.Must[*genbusv1.ResumeRouteResponse](t)(client.ResumeRoute(ctx, &genbusv1.ResumeRouteRequest{Kind: "chat", Name: config.SandboxChatRoute}))
	w.Await("the route runs again", func() bool { return w.Post("/v1/chat/completions", body).Status == http.StatusOK })
}
