package jimeng

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// vendorAnswer is the answer as clients of the vendor declare it.
type vendorAnswer struct {
	Code int `json:"code"`
	Data struct {
		TaskID           string `json:"task_id"`
		BinaryDataBase64 []any  `json:"binary_data_base64"`
		ImageURLs        any    `json:"image_urls"`
		RespData         string `json:"resp_data"`
		Status           string `json:"status"`
		VideoURL         string `json:"video_url"`
	} `json:"data"`
	Message     string `json:"message"`
	RequestID   string `json:"request_id"`
	Status      int    `json:"status"`
	TimeElapsed string `json:"time_elapsed"`
	TaskID      string `json:"task_id"`
}

// vendorGateway is the API gateway's envelope as the vendor's SDK declares it.
type vendorGateway struct {
	ResponseMetadata struct {
		RequestId, Action, Version, Service, Region string //nolint:revive // the vendor's spelling
		Error                                       *struct {
			CodeN         int
			Code, Message string
		}
	}
}

func decodeAnswer(t *testing.T, raw []byte) vendorAnswer {
	t.Helper()
	var a vendorAnswer
	unmarshal(t, raw, &a)
	if a.Status != a.Code {
		t.Errorf("status %d beside code %d", a.Status, a.Code)
	}
	return a
}

func unmarshal(t *testing.T, raw []byte, v any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
}

func videoTask(s genbusv1.JobStatus) *genbusv1.VideoTask {
	t := &genbusv1.VideoTask{Id: "video_1", Status: s}
	if s == genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Videos = []*genbusv1.Video{{}, {Url: "https://cdn.example.com/v.mp4?a=1&b=<2>"}}
	}
	return t
}

func TestTask(t *testing.T) {
	t.Parallel()
	get := upstream.Call{Op: upstream.GetTask, ID: "video_1"}
	for status, want := range map[genbusv1.JobStatus]string{
		genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED: "in_queue", genbusv1.JobStatus_JOB_STATUS_QUEUED: "in_queue",
		genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS: "generating", genbusv1.JobStatus_JOB_STATUS_COMPLETED: "done",
	} {
		code, raw := surface{}.Task(get, videoTask(status), "req-1")
		a := decodeAnswer(t, raw)
		if code != http.StatusOK || a.Code != 10000 || a.Message != "Success" || a.RequestID != "req-1" || a.Data.Status != want || a.TaskID != "" {
			t.Errorf("%v: %d %s", status, code, raw)
		}
		if wantURL := want == "done"; (a.Data.VideoURL == "https://cdn.example.com/v.mp4?a=1&b=<2>") != wantURL {
			t.Errorf("%v: URL %q", status, a.Data.VideoURL)
		}
	}
	code, raw := surface{}.Task(upstream.Call{Op: upstream.CreateTask}, videoTask(genbusv1.JobStatus_JOB_STATUS_FAILED), "req-1")
	if want := `{"code":10000,"data":{"task_id":"video_1"},"message":"Success","request_id":"req-1","status":10000}`; code != 200 || string(raw) != want {
		t.Errorf("create: %d %s, want %s", code, raw, want)
	}
}

func TestTaskFailed(t *testing.T) {
	t.Parallel()
	get := upstream.Call{Op: upstream.GetTask, ID: "video_1"}
	failed, cancelled := genbusv1.JobStatus_JOB_STATUS_FAILED, genbusv1.JobStatus_JOB_STATUS_CANCELLED
	for name, c := range map[string]struct {
		status  genbusv1.JobStatus
		err     *genbusv1.TaskError
		code    int
		message string
	}{
		"vendor code":    {failed, &genbusv1.TaskError{UpstreamCode: "50413", Message: "Post Text Risk Not Pass"}, 50413, "Post Text Risk Not Pass"},
		"another code":   {failed, &genbusv1.TaskError{UpstreamCode: "1303", Message: "x"}, 50500, "x"},
		"a word":         {failed, &genbusv1.TaskError{UpstreamCode: "error", Message: "x"}, 50500, "x"},
		"signed number":  {failed, &genbusv1.TaskError{UpstreamCode: "+5041", Message: "x"}, 50500, "x"},
		"success":        {failed, &genbusv1.TaskError{UpstreamCode: "10000", Message: "x"}, 50500, "x"},
		"leading zero":   {failed, &genbusv1.TaskError{UpstreamCode: "00001", Message: "x"}, 50500, "x"},
		"a limit":        {failed, &genbusv1.TaskError{UpstreamCode: "50430", Message: "x"}, 50500, "x"},
		"no code":        {failed, &genbusv1.TaskError{Code: "deadline_exceeded", Message: "too late"}, 50500, "too late"},
		"no error":       {failed, nil, 50500, "the task failed"},
		"cancelled":      {cancelled, &genbusv1.TaskError{Code: "cancelled", Message: "cancelled by the caller"}, 50500, "cancelled by the caller"},
		"cancelled, why": {cancelled, nil, 50500, "the task was cancelled"},
		"no UTF-8":       {failed, &genbusv1.TaskError{Message: "a\xff\x00b"}, 50500, "a\ufffd\x00b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := videoTask(c.status)
			task.Error = c.err
			status, raw := surface{}.Task(get, task, "req-1")
			a := decodeAnswer(t, raw)
			if status != http.StatusBadRequest || a.Code != c.code || a.Message != c.message || a.RequestID != "req-1" || a.TaskID != "video_1" {
				t.Errorf("%d %s", status, raw)
			}
			if !strings.Contains(string(raw), `"data":null`) {
				t.Errorf("data is not null: %s", raw)
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	named := map[errcode.Code][2]int{
		errcode.InvalidRequest: {400, 50215}, errcode.InvalidJSON: {400, 50215}, errcode.InvalidPageToken: {400, 50215},
		errcode.UnsupportedMedia: {415, 50215}, errcode.WrongProtocol: {400, 50215}, errcode.ModelNotFound: {400, 50215},
		errcode.IdempotencyKeyReused: {400, 50215}, errcode.BodyTooLarge: {413, 50215},
		errcode.OriginNotAllowed: {403, 50215},
		errcode.NotFound:         {404, 50215}, errcode.MethodNotAllowed: {405, 50215},
		errcode.RateLimited: {429, 50429}, errcode.TenantFull: {429, 50430},
		errcode.QueueFull: {429, 50430}, errcode.SlowReader: {429, 50430}, errcode.UpstreamRateLimited: {429, 50430},
		errcode.StorageFull: {503, 50500}, errcode.BrokerUnavailable: {503, 50500}, errcode.ShuttingDown: {503, 50500},
		errcode.ClockWrong: {503, 50500}, errcode.DeadLettersFull: {503, 50500}, errcode.IndexCatchingUp: {503, 50500},
	}
	for _, m := range errcode.Table() {
		status, raw := surface{}.Refuse(errcode.New(m.Code, "what \"happened\" \xff"), "req-1")
		switch m.Code {
		case errcode.InvalidAPIKey:
			var g vendorGateway
			unmarshal(t, raw, &g)
			e := g.ResponseMetadata.Error
			if status != 401 || e == nil || e.Code != "InvalidAuthorization" || e.CodeN != 100024 || e.Message != "what \"happened\" \ufffd" || g.ResponseMetadata.RequestId != "req-1" {
				t.Errorf("%s: %d %s", m.Code, status, raw)
			}
		case errcode.TaskNotFound:
			if a := decodeAnswer(t, raw); status != 200 || a.Code != 10000 || a.Data.Status != "not_found" || a.RequestID != "req-1" {
				t.Errorf("%s: %d %s", m.Code, status, raw)
			}
		default:
			want, ok := named[m.Code]
			if !ok {
				want = [2]int{500, 50500}
			}
			a := decodeAnswer(t, raw)
			if diff := cmp.Diff(want, [2]int{status, a.Code}); diff != "" || a.Message != "what \"happened\" \ufffd" || !strings.Contains(string(raw), `"data":null`) {
				t.Errorf("%s: %d %s", m.Code, status, raw)
			}
		}
	}
}

// TestClientOfSurface runs the signing client against the surface over HTTP.
func TestClientOfSurface(t *testing.T) {
	t.Parallel()
	tasks := map[string]*genbusv1.VideoTask{
		"queued": videoTask(genbusv1.JobStatus_JOB_STATUS_QUEUED), "running": videoTask(genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS),
		"completed": videoTask(genbusv1.JobStatus_JOB_STATUS_COMPLETED), "cancelled": videoTask(genbusv1.JobStatus_JOB_STATUS_CANCELLED),
		"failed": videoTask(genbusv1.JobStatus_JOB_STATUS_FAILED), "risk": videoTask(genbusv1.JobStatus_JOB_STATUS_FAILED),
	}
	tasks["risk"].Error = &genbusv1.TaskError{UpstreamCode: "50413", Message: "Post Text Risk Not Pass"}
	tasks["cancelled"].Error = &genbusv1.TaskError{Code: "cancelled", Message: "gone"}
	for id, task := range tasks {
		task.Id = id
	}
	client := serve(t, upstream.Options{}, serveTasks(tasks))
	client.ep.BaseURL += "/jimeng"
	client.ep.Auth = signerAt(testNow)

	if sub := client.Create(t.Context(), testCreate); sub.Verdict != upstream.Accepted || sub.UpstreamID != "queued" {
		t.Errorf("submission = %+v", sub)
	}
	for id, want := range map[string]upstream.VideoState{
		"queued": {Progression: upstream.Queued, Status: "in_queue"}, "running": {Progression: upstream.InProgress, Status: "generating"},
		"completed": {Progression: upstream.Completed, Status: "done"}, "nobody's": {Progression: upstream.Running, Status: "not_found", Unknown: true},
		"failed":    {Progression: upstream.Failed, Err: &upstream.Error{Code: "50500", Message: "the task failed"}},
		"risk":      {Progression: upstream.Failed, Err: &upstream.Error{Code: "50413", Message: "Post Text Risk Not Pass", Final: true}},
		"cancelled": {Progression: upstream.Failed, Err: &upstream.Error{Code: "50500", Message: "gone"}},
	} {
		got, err := client.Poll(t.Context(), upstream.TaskRef{ID: id, Ticket: "jimeng_t2v_v30"})
		if err != nil || got.Progression != want.Progression || got.Status != want.Status || got.Unknown != want.Unknown {
			t.Errorf("%s: %+v, %v, want %+v", id, got, err, want)
		}
		if a, b := want.Err, got.Err; (a == nil) != (b == nil) || (a != nil && (a.Code != b.Code || a.Message != b.Message || a.Final != b.Final)) {
			t.Errorf("%s: error %+v, want %+v", id, b, a)
		}
		if id == "completed" && (len(got.Videos) != 1 || got.Videos[0].URL != tasks[id].Videos[1].Url) {
			t.Errorf("videos = %+v", got.Videos)
		}
	}
	client.ep.Auth = NewSigner("AK", "WRONG")
	if sub := client.Create(t.Context(), testCreate); sub.Verdict != upstream.RefusedForGood || sub.Err.Scope != upstream.ScopeKey {
		t.Errorf("submission = %+v", sub)
	}
}

// serveTasks serves the surface over fixed tasks, the way internal/api/httpapi does.
func serveTasks(tasks map[string]*genbusv1.VideoTask) http.HandlerFunc {
	s := surface{}
	answer := func(r *http.Request, raw []byte) (int, []byte) {
		sig, ok := s.Signature(r, raw)
		if !ok || sig.Verify("SECRET", testNow) != nil {
			return s.Refuse(errcode.New(errcode.InvalidAPIKey, "no"), "req-1")
		}
		call, err := s.Read(r, raw)
		if err != nil {
			return s.Refuse(errcode.From(err), "req-1")
		}
		if call.Op == upstream.CreateTask {
			call.ID = "queued"
		}
		task, ok := tasks[call.ID]
		if !ok {
			return s.Refuse(errcode.New(errcode.TaskNotFound, "no task"), "req-1")
		}
		return s.Task(call, task, "req-1")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /jimeng/{$}", func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		status, out := answer(r, raw)
		w.WriteHeader(status)
		_, _ = w.Write(out)
	})
	return mux.ServeHTTP
}

func TestProtocol(t *testing.T) {
	t.Parallel()
	proto := Protocol()
	if proto.Name != "jimeng" || proto.CreatePath != "POST /?Action=CVSync2AsyncSubmitTask&Version=2022-08-31" || proto.Bodies.ModelMember() != "req_key" {
		t.Errorf("protocol = %+v", proto)
	}
	ep := &upstream.Endpoint{Name: "u", BaseURL: "https://visual.volcengineapi.com", Transport: http.DefaultTransport}
	if proto.New(ep, upstream.Options{}) == nil || proto.Sign("AK", "SK") == nil {
		t.Error("the protocol is not whole")
	}
}
