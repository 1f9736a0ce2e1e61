package kling

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// vendorTask and vendorReply are the structs of a client of the vendor.
type vendorTask struct {
	TaskID        string `json:"task_id"`
	TaskStatus    string `json:"task_status"`
	TaskStatusMsg string `json:"task_status_msg"`
	TaskInfo      struct {
		ExternalTaskID string `json:"external_task_id"`
	} `json:"task_info"`
	CreatedAt  int64 `json:"created_at"`
	UpdatedAt  int64 `json:"updated_at"`
	TaskResult struct {
		Videos []vendorVideo `json:"videos"`
	} `json:"task_result"`
	FinalUnitDeduction string `json:"final_unit_deduction"`
}

type vendorVideo struct {
	ID       string `json:"id"`
	URL      string `json:"url"`
	Duration string `json:"duration"`
}

type vendorReply[T any] struct {
	Code      int    `json:"code"`
	Message   string `json:"message"`
	RequestID string `json:"request_id"`
	Data      T      `json:"data"`
}

func aTask(status genbusv1.JobStatus) *genbusv1.VideoTask {
	return &genbusv1.VideoTask{
		Id: aJobID, Status: status, RequestId: "external_task_id:order-1",
		CreatedAt: timestamppb.New(time.UnixMilli(1766374262370)), UpdatedAt: timestamppb.New(time.UnixMilli(1766374300999)),
	}
}

func wantTask(status, text string) vendorTask {
	w := vendorTask{TaskID: aJobID, TaskStatus: status, TaskStatusMsg: text, CreatedAt: 1766374262370, UpdatedAt: 1766374300999}
	w.TaskInfo.ExternalTaskID = "order-1"
	return w
}

func TestTaskReply(t *testing.T) {
	t.Parallel()
	completed := aTask(genbusv1.JobStatus_JOB_STATUS_COMPLETED)
	completed.Videos = []*genbusv1.Video{{Url: "https://example.com/a.mp4", DurationSeconds: 5.1}, {Url: "https://example.com/b.mp4"}}
	completed.Usage = &genbusv1.Usage{ExtraJson: []byte(`{"final_unit_deduction":"3.5"}`)}
	wantCompleted := wantTask("succeed", "")
	wantCompleted.TaskResult.Videos = []vendorVideo{
		{aJobID + "-0", "https://example.com/a.mp4", "5.1"}, {aJobID + "-1", "https://example.com/b.mp4", ""},
	}
	wantCompleted.FinalUnitDeduction = "3.5"

	failed := aTask(genbusv1.JobStatus_JOB_STATUS_FAILED)
	failed.Error = &genbusv1.TaskError{Code: "upstream_failed", Message: "risk \xff \"control\""}
	mute := aTask(genbusv1.JobStatus_JOB_STATUS_FAILED)
	mute.Error = &genbusv1.TaskError{Code: "upstream_failed"}
	foreign := aTask(genbusv1.JobStatus_JOB_STATUS_QUEUED)
	foreign.RequestId = "order-1"
	wantForeign := wantTask("submitted", "")
	wantForeign.TaskInfo.ExternalTaskID = ""

	cases := map[string]struct {
		task *genbusv1.VideoTask
		want vendorTask
	}{
		"queued":         {aTask(genbusv1.JobStatus_JOB_STATUS_QUEUED), wantTask("submitted", "")},
		"unspecified":    {aTask(genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED), wantTask("submitted", "")},
		"in progress":    {aTask(genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS), wantTask("processing", "")},
		"completed":      {completed, wantCompleted},
		"failed":         {failed, wantTask("failed", "risk � \"control\"")},
		"failed, mute":   {mute, wantTask("failed", "upstream_failed")},
		"cancelled":      {aTask(genbusv1.JobStatus_JOB_STATUS_CANCELLED), wantTask("failed", "cancelled")},
		"another key":    {foreign, wantForeign},
		"an empty task":  {&genbusv1.VideoTask{}, vendorTask{TaskStatus: "submitted"}},
		"no task at all": {nil, vendorTask{TaskStatus: "submitted"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, answer := surface{}.Task(upstream.Call{Op: upstream.GetTask}, c.task, "req-1")
			want := vendorReply[vendorTask]{0, "SUCCEED", "req-1", c.want}
			if diff := cmp.Diff(want, decodeReply[vendorTask](t, answer)); status != 200 || diff != "" {
				t.Errorf("status %d, reply (-want +got):\n%s", status, diff)
			}
		})
	}
}

func decodeReply[T any](t *testing.T, answer []byte) vendorReply[T] {
	t.Helper()
	if !utf8.Valid(answer) {
		t.Errorf("not UTF-8: %q", answer)
	}
	var r vendorReply[T]
	if err := json.Unmarshal(answer, &r); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	return r
}

// TestTaskReplyText checks what decoding hides: empty objects and omitted members.
func TestTaskReplyText(t *testing.T) {
	t.Parallel()
	task := aTask(genbusv1.JobStatus_JOB_STATUS_QUEUED)
	task.RequestId = ""
	_, got := surface{}.Task(upstream.Call{Op: upstream.CreateTask}, task, "req-1")
	want := `{"code":0,"message":"SUCCEED","request_id":"req-1","data":{"task_id":"` + aJobID + `","task_status":"submitted","task_status_msg":"",` +
		`"task_info":{},"created_at":1766374262370,"updated_at":1766374300999,"task_result":{}}}`
	if string(got) != want {
		t.Errorf("answer = %s\n      want %s", got, want)
	}
}

func TestDeduction(t *testing.T) {
	t.Parallel()
	for extra, want := range map[string]string{
		`{"final_unit_deduction":"3.5"}`: "3.5", `{"final_unit_deduction":10}`: "10", `{"final_unit_deduction":null}`: "", `{}`: "", `x`: "", ``: "",
	} {
		if got := deductionOf(&genbusv1.VideoTask{Usage: &genbusv1.Usage{ExtraJson: []byte(extra)}}); got != want {
			t.Errorf("%s: %q, want %q", extra, got, want)
		}
	}
}

func TestTasksReply(t *testing.T) {
	t.Parallel()
	list := []*genbusv1.VideoTask{aTask(genbusv1.JobStatus_JOB_STATUS_QUEUED), aTask(genbusv1.JobStatus_JOB_STATUS_IN_PROGRESS)}
	got := decodeReply[[]vendorTask](t, surface{}.Tasks(upstream.Call{}, list, "req-1"))
	want := vendorReply[[]vendorTask]{0, "SUCCEED", "req-1", []vendorTask{wantTask("submitted", ""), wantTask("processing", "")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reply (-want +got):\n%s", diff)
	}
	if got, want := string(surface{}.Tasks(upstream.Call{}, nil, "r")), `{"code":0,"message":"SUCCEED","request_id":"r","data":[]}`; got != want {
		t.Errorf("no tasks: %s, want %s", got, want)
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	cases := map[errcode.Code]struct{ status, code int }{
		errcode.InvalidAPIKey:        {401, 1000},
		errcode.WrongProtocol:        {400, 1200},
		errcode.InvalidRequest:       {400, 1201},
		errcode.InvalidJSON:          {400, 1201},
		errcode.BodyTooLarge:         {400, 1201},
		errcode.UnsupportedMedia:     {415, 1201},
		errcode.IdempotencyKeyReused: {400, 1201},
		errcode.MethodNotAllowed:     {404, 1202},
		errcode.OriginNotAllowed:     {403, 1103},
		errcode.ModelNotFound:        {404, 1203},
		errcode.TaskNotFound:         {404, 1203},
		errcode.NotFound:             {404, 1203},
		errcode.QueueFull:            {429, 1302},
		errcode.RateLimited:          {429, 1302},
		errcode.TenantFull:           {429, 1303},
		errcode.UpstreamRateLimited:  {429, 1302},
		errcode.StorageFull:          {503, 5001},
		errcode.BrokerUnavailable:    {503, 5001},
		errcode.IndexCatchingUp:      {503, 5001},
		errcode.ShuttingDown:         {503, 5001},
		errcode.AcceptanceUnknown:    {504, 5002},
		errcode.Internal:             {500, 5000},
		"a code to come":             {500, 5000},
	}
	for code, want := range cases {
		status, answer := surface{}.Refuse(&errcode.Error{Code: code, Message: "what\xff happened"}, "req-1")
		wantReply := vendorReply[any]{want.code, "what� happened", "req-1", nil}
		if diff := cmp.Diff(wantReply, decodeReply[any](t, answer)); status != want.status || diff != "" {
			t.Errorf("%s: status %d, reply (-want +got):\n%s", code, status, diff)
		}
	}
}

// TestRefuseTokens checks that each fault of a token gets the vendor's code.
func TestRefuseTokens(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{errBadSignature: 1002, errTokenForever: 1002, errTokenEarly: 1003, errTokenExpired: 1004} {
		status, answer := surface{}.Refuse(errcode.New(errcode.InvalidAPIKey, "the signature is not accepted: %w", err), "req-1")
		if got := decodeReply[any](t, answer); status != http.StatusUnauthorized || got.Code != want {
			t.Errorf("%v: status %d, %+v", err, status, got)
		}
	}
}

// TestServesItsOwnClient checks that the client can read the surface's answers.
func TestServesItsOwnClient(t *testing.T) {
	t.Parallel()
	completed := aTask(genbusv1.JobStatus_JOB_STATUS_COMPLETED)
	completed.Videos = []*genbusv1.Video{{Url: "https://example.com/a.mp4", DurationSeconds: 5.1}}
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		task := completed
		if r.Method == http.MethodPost {
			task = aTask(genbusv1.JobStatus_JOB_STATUS_QUEUED)
		}
		_, answer := surface{}.Task(upstream.Call{}, task, "req-1")
		_, _ = w.Write(answer)
	})
	sub := client.Create(t.Context(), aCreate)
	if sub.Verdict != upstream.Accepted || sub.UpstreamID != aJobID || sub.State.Progression != upstream.Queued {
		t.Errorf("submission = %+v", sub)
	}
	state, err := client.Poll(t.Context(), upstream.TaskRef{ID: sub.UpstreamID, Ticket: sub.Ticket})
	if err != nil || state.Progression != upstream.Completed || fmt.Sprint(state.Videos) != "[{https://example.com/a.mp4  5.1 0 0 2026-01-21 03:31:40.999 +0000 UTC}]" {
		t.Errorf("Poll = %+v, %v", state, err)
	}
}
