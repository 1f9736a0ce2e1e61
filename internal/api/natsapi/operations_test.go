package natsapi_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

var asJSON = nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}}

// askJSON sends a JSON request and returns the JSON answer, which must not be an error.
func (w *world) askJSON(subj, request string) string {
	w.T.Helper()
	m := w.Call(subj, asJSON, []byte(request))
	if m.Header.Get(subject.HeaderErrorCode) != "" || m.Header.Get(subject.HeaderContentType) != subject.ContentTypeJSON {
		w.T.Errorf("%s %s: %v %s", subj, request, m.Header, m.Data)
	}
	return string(m.Data)
}

// ask sends a Protobuf request and decodes the answer, which must not be an error.
func (w *world) ask(subj string, request, answer proto.Message) {
	w.T.Helper()
	m := w.Call(subj, nil, marshal(w.T, request))
	if err := proto.Unmarshal(m.Data, answer); err != nil || m.Header.Get(subject.HeaderErrorCode) != "" {
		w.T.Errorf("%s: %v, %v", subj, m.Header, err)
	}
}

// TestVideosByRequest checks that answers in JSON are those of HTTP, and answers in Protobuf those
// of gRPC.
func TestVideosByRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	n, client := w.Broker.Names(), genbusv1grpc.NewVideoServiceClient(w.Dial())
	queued, ended := w.CreateVideo(), w.CreateVideo()
	w.EndVideo(w.StartVideo("default", ended))
	for _, id := range []string{queued, ended} {
		request := &genbusv1.GetVideoTaskRequest{Id: id}
		if got, want := w.askJSON(n.Get(subject.Video, "default"), `{"id":"`+id+`"}`), w.Get("/v1/video/generations/"+id).Body; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		got, want := new(genbusv1.GetVideoTaskResponse), apitest.Must[*genbusv1.GetVideoTaskResponse](t)(client.GetVideoTask(t.Context(), request))
		w.ask(n.Get(subject.Video, "default"), request, got)
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	}
	if job := w.askJSON(n.Cancel(subject.Video, "default"), `{"id":"`+queued+`"}`); !strings.Contains(job, `"status":"cancelled"`) || job != w.Get("/v1/video/generations/"+queued).Body {
		t.Errorf("cancelled: %s", job)
	}
	var unchanged genbusv1.CancelVideoTaskResponse
	w.ask(n.Cancel(subject.Video, "default"), &genbusv1.CancelVideoTaskRequest{Id: ended}, &unchanged)
	if unchanged.GetTask().GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("a cancel of an ended task: %v", &unchanged)
	}

	w.Listed(ended, genbusv1.JobStatus_JOB_STATUS_COMPLETED)
	w.Listed(queued, genbusv1.JobStatus_JOB_STATUS_CANCELLED)
	for request, want := range map[string][]string{
		``: {ended, queued}, `{}`: {ended, queued}, `{"page_size":1}`: {ended}, `{"status":"cancelled"}`: {queued},
		`{"status":"JOB_STATUS_COMPLETED","created_after":"2020-01-01T00:00:00Z"}`: {ended}, `{"created_before":"2020-01-01T00:00:00Z"}`: nil,
	} {
		page := pageOf(t, w.askJSON(n.List(subject.Video, "default"), request))
		if diff := cmp.Diff(want, page.ids()); diff != "" || page.HasMore != (page.NextPageToken != "") || page.HasMore != strings.Contains(request, "page_size") {
			t.Errorf("%s: %+v", request, page)
		}
		for _, job := range page.Data {
			if want := w.Get("/v1/video/generations/" + page.idOf(job)).Body; string(job) != want {
				t.Errorf("listed as %s, want %s", job, want)
			}
		}
	}
	request := &genbusv1.ListVideoTasksRequest{PageSize: 1}
	got, want := new(genbusv1.ListVideoTasksResponse), apitest.Must[*genbusv1.ListVideoTasksResponse](t)(client.ListVideoTasks(t.Context(), request))
	w.ask(n.List(subject.Video, "default"), request, got)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}

	repeat := &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(apitest.VideoBody)}, RetryOf: queued}}
	made := apitest.Must[*genbusv1.CreateVideoTaskResponse](t)(client.CreateVideoTask(t.Context(), repeat)).GetTask().GetId()
	w.Await("the task names the one that repeats it", func() bool {
		return strings.Contains(w.askJSON(n.Get(subject.Video, "default"), `{"id":"`+queued+`"}`), `"replaced_by":["`+made+`"]`)
	})
	var replaced genbusv1.GetVideoTaskResponse
	if w.ask(n.Get(subject.Video, "default"), &genbusv1.GetVideoTaskRequest{Id: queued}, &replaced); !slices.Equal(replaced.GetReplacedBy(), []string{made}) {
		t.Errorf("repeated by %s: %v", made, &replaced)
	}
}

// page is a list in JSON.
type page struct {
	Data          []json.RawMessage
	HasMore       bool   `json:"has_more"`
	NextPageToken string `json:"next_page_token"`
}

func pageOf(t testing.TB, answer string) (p page) {
	t.Helper()
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	return p
}

func (p page) idOf(job json.RawMessage) string { return apitest.AnyID.FindString(string(job)) }

func (p page) ids() (out []string) {
	for _, job := range p.Data {
		out = append(out, p.idOf(job))
	}
	return out
}

func TestChatsByRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	n := w.Broker.Names()
	queued, ended := w.SubmitChat("one"), w.SubmitChat("two")
	w.EndChat(w.StartChat("default", ended), apitest.ReplyJSON, 0)
	async := []string{"Idempotency-Key", "two", "Prefer", "respond-async"}
	if got, want := w.askJSON(n.Get(subject.Chat, "default"), `{"id":"`+ended+`"}`), w.Post("/v1/chat/completions", apitest.StreamBody, async...).Body; got != want || !strings.Contains(got, apitest.ReplyJSON) {
		t.Errorf("got %s, want %s", got, want)
	}
	client := genbusv1grpc.NewChatServiceClient(w.Dial())
	request := &genbusv1.GetChatCompletionRequest{Id: ended}
	got, want := new(genbusv1.GetChatCompletionResponse), apitest.Must[*genbusv1.GetChatCompletionResponse](t)(client.GetChatCompletion(t.Context(), request))
	w.ask(n.Get(subject.Chat, "default"), request, got)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" || got.GetCompletion() == nil {
		t.Error(diff)
	}
	if job := w.askJSON(n.Cancel(subject.Chat, "default"), `{"id":"`+queued+`"}`); !strings.Contains(job, `"status":"cancelled"`) {
		t.Errorf("cancelled: %s", job)
	}
	var unchanged genbusv1.CancelChatCompletionResponse
	w.ask(n.Cancel(subject.Chat, "default"), &genbusv1.CancelChatCompletionRequest{Id: ended}, &unchanged)
	if unchanged.GetChat().GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Errorf("a cancel of an ended chat: %v", &unchanged)
	}

	w.Await("the list", func() bool {
		return slices.Equal(pageOf(t, w.askJSON(n.List(subject.Chat, "default"), `{"status":"cancelled"}`)).ids(), []string{queued}) &&
			slices.Equal(pageOf(t, w.askJSON(n.List(subject.Chat, "default"), `{"status":"completed"}`)).ids(), []string{ended})
	})
	if got, want := w.askJSON(n.List(subject.Chat, "default"), `{}`), w.Get("/v1/chat/completions?order=desc").Body; got != want || strings.Contains(got, "one two") || !strings.Contains(got, ended) {
		t.Errorf("got %s, want %s", got, want)
	}
	list := &genbusv1.ListChatCompletionsRequest{PageSize: 1}
	listed, wanted := new(genbusv1.ListChatCompletionsResponse), apitest.Must[*genbusv1.ListChatCompletionsResponse](t)(client.ListChatCompletions(t.Context(), list))
	w.ask(n.List(subject.Chat, "default"), list, listed)
	if diff := cmp.Diff(wanted, listed, protocmp.Transform()); diff != "" || len(listed.GetChats()) != 1 || listed.GetChats()[0].GetReplyJson() != nil {
		t.Errorf("%v\n%s", listed, diff)
	}
}

func TestModelsByRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	models := w.Broker.Names().Models("default")
	if got, want := w.askJSON(models, ``), w.Get("/v1/models").Body; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var chats genbusv1.ListModelsResponse
	w.ask(models, &genbusv1.ListModelsRequest{Kind: "chat"}, &chats)
	if len(chats.GetModels()) == 0 || slices.ContainsFunc(chats.GetModels(), func(m *genbusv1.Model) bool { return m.GetKind() != "chat" }) {
		t.Errorf("%v", &chats)
	}
}

// TestWrongRequests checks that errors about requests are precise, in the encoding of the request.
func TestWrongRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	n := w.Broker.Names()
	get, list := n.Get(subject.Video, "acme"), n.List(subject.Video, "acme")
	for name, row := range map[string]struct {
		subject, data, status, code, says string
	}{
		"an unknown member":   {get, `{"task_id":"video_x"}`, "400", "invalid_request", "task_id: is unknown; use one of id"},
		"a wrong type":        {get, `{"id":7}`, "400", "invalid_request", "id: must be a string"},
		"no object":           {get, `[]`, "400", "invalid_json", "genbus.v1.GetVideoTaskRequest"},
		"a member twice":      {get, `{"id":"a","id":"b"}`, "400", "invalid_json", ""},
		"no such task":        {get, `{"id":"video_x"}`, "404", "task_not_found", "video_x"},
		"no ID":               {get, ``, "404", "task_not_found", ""},
		"no such chat":        {n.Cancel(subject.Chat, "acme"), `{"id":"video_aaaaaaaaaaaaaaaaaaaaaaaaaa"}`, "404", "chat_not_found", ""},
		"a status":            {list, `{"status":"done"}`, "400", "invalid_request", "status: must be queued, in_progress, completed"},
		"a time":              {list, `{"created_after":"yesterday"}`, "400", "invalid_request", "created_after: must be a time such as"},
		"a number":            {list, `{"page_size":"many"}`, "400", "invalid_request", "page_size: must be an integer"},
		"a negative number":   {list, `{"page_size":-1}`, "400", "invalid_request", "page_size: must be 0 to 100"},
		"a page token":        {list, `{"page_token":"!"}`, "400", "invalid_page_token", ""},
		"a kind of models":    {n.Models("acme"), `{"kind":"audio"}`, "400", "invalid_request", "kind: must be video, chat or empty"},
		"an illegal tenant":   {n.Get(subject.Video, "a%b"), `{"id":"video_x"}`, "400", "invalid_request", "subject: "},
		"a negative offset":   {n.Content("acme"), `{"offset":-1}`, "400", "invalid_request", "offset: must not be negative"},
		"content of no task":  {n.Content("acme"), `{"id":"video_x"}`, "404", "task_not_found", ""},
		"an unknown range":    {n.Content("acme"), `{"range":"bytes=0-"}`, "400", "invalid_request", "range: is unknown; use one of id, index, offset, length"},
		"a negative length":   {n.Content("acme"), `{"length":-1}`, "400", "invalid_request", "must not be negative"},
		"an ID in the list":   {list, `{"id":"x"}`, "400", "invalid_request", "id: is unknown; use one of status, created_after, created_before, page_size, page_token"},
		"a member of another": {n.Get(subject.Chat, "acme"), `{"resume_token":"x"}`, "400", "invalid_request", "use one of id"},
	} {
		m := w.Call(row.subject, asJSON, []byte(row.data))
		h := m.Header
		if h.Get("Nats-Service-Error-Code") != row.status || h.Get(subject.HeaderErrorCode) != row.code || !strings.Contains(string(m.Data), row.says) {
			t.Errorf("%s: %v %s", name, h, m.Data)
		}
	}
	for name, row := range map[string]struct {
		media, data, code string
	}{
		"Protobuf":     {"", "\xff", "invalid_request"},
		"a media type": {"text/plain", "", "unsupported_media_type"},
	} {
		m := w.Call(get, nats.Header{"content-type": {row.media}}, []byte(row.data))
		var e genbusv1.TaskError
		if err := proto.Unmarshal(m.Data, &e); err != nil || e.GetCode() != row.code {
			t.Errorf("%s: %v %v, %v", name, m.Header, &e, err)
		}
	}
	w.Drain(nil)
	if m := w.Call(get, asJSON, []byte(`{"id":"video_x"}`)); m.Header.Get(subject.HeaderErrorCode) != "shutting_down" {
		t.Errorf("while draining: %v", m.Header)
	}
}

// TestPagesFitIntoMessages checks that a page of large jobs is shorter, and that the next page
// continues it.
func TestPagesFitIntoMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	const jobs = 8
	large := []byte(`{"a":"` + strings.Repeat("x", int(w.Broker.Conn().MaxPayload())/4/jobs+1) + `"}`)
	for range jobs {
		id := w.CreateVideo()
		e := w.StartVideo("default", id)
		next, err := task.Completed(core.VideoOf(e), time.Now(), task.Result{Videos: []*genbusv1.Video{{Url: "http://x/1.mp4"}}, Metadata: large})
		w.Commit(e, next, err)
		w.Listed(id, genbusv1.JobStatus_JOB_STATUS_COMPLETED)
	}
	var sizes []int
	seen := map[string]bool{}
	for request := (&genbusv1.ListVideoTasksRequest{}); ; {
		var page genbusv1.ListVideoTasksResponse
		w.ask(w.Broker.Names().List(subject.Video, "default"), request, &page)
		sizes = append(sizes, len(page.GetTasks()))
		for _, v := range page.GetTasks() {
			seen[v.GetId()] = true
		}
		if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
			break
		}
	}
	if !slices.Equal(sizes, []int{jobs / 2, jobs / 2}) || len(seen) != jobs {
		t.Errorf("pages of %v, %d jobs", sizes, len(seen))
	}
}

// TestLongRepliesByRequest checks that a reply in the object store is in the answer.
func TestLongRepliesByRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	id := w.SubmitChat("long")
	long := strings.Replace(apitest.ReplyJSON, "one two", strings.Repeat("long ", 100_000), 1)
	w.storeReply("default", id, long)
	var job struct {
		Status   string
		Response json.RawMessage
	}
	answer := w.askJSON(w.Broker.Names().Get(subject.Chat, "default"), `{"id":"`+id+`"}`)
	if err := json.Unmarshal([]byte(answer), &job); err != nil || job.Status != "completed" || string(job.Response) != long {
		t.Errorf("%s with a reply of %d bytes, %v", job.Status, len(job.Response), err)
	}
}
