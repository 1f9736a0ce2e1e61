package body

import (
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func at(seconds int64) *timestamppb.Timestamp {
	return timestamppb.New(time.Unix(seconds, 500_000_000))
}

func TestVideoAnswers(t *testing.T) {
	t.Parallel()
	completed := &genbusv1.VideoTask{
		Id: "video_a", Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED, Progress: 100, Model: `m"`, Tenant: "secret-tenant",
		CreatedAt: at(10), CompletedAt: at(20), MetadataJson: []byte(`{"duration": 5.0}`), RequestId: "r", RetryOf: "video_b",
		Videos: []*genbusv1.Video{
			{Url: "https://x/1?a=b&c", Format: "mp4", DurationSeconds: 5.1, Width: 1280, Height: 720, ExpiresAt: at(30)}, {Url: "https://x/2"}},
		Usage: &genbusv1.Usage{TotalTokens: proto.Int64(3), ExtraJson: []byte(`{"cost":0.10}`)}, Labels: map[string]string{"b": "2", "a": "1"},
		Execution: &genbusv1.Execution{Route: "secret-route"},
	}
	failed := &genbusv1.VideoTask{
		Id: "video_a", Status: genbusv1.JobStatus_JOB_STATUS_FAILED, Progress: 40, CreatedAt: at(10), CompletedAt: at(20),
		Error: &genbusv1.TaskError{Code: "upstream_failed", Message: "it\nfailed", UpstreamCode: "50413", Type: "t", Param: "p"},
	}
	odd := &genbusv1.VideoTask{
		Model: "\xff", MetadataJson: []byte(`{broken`), Videos: []*genbusv1.Video{{Url: "u", DurationSeconds: math.NaN()}},
		Usage: &genbusv1.Usage{PromptTokens: proto.Int64(1), ExtraJson: []byte(`{"prompt_tokens":2,"x":1}`)},
	}
	for _, test := range []struct {
		got  []byte
		want string
	}{
		{VideoCreatedJSON(&genbusv1.VideoTask{Id: "video_a", Model: "m", Status: genbusv1.JobStatus_JOB_STATUS_QUEUED, CreatedAt: at(10)}),
			`{"task_id":"video_a","id":"video_a","object":"video","model":"m","status":"queued","progress":0,"created_at":10}`},
		{VideoTaskJSON(completed, []string{"video_c", "video_d"}), `{"task_id":"video_a","id":"video_a","object":"video","model":"m\"","status":"completed","progress":100,` +
			`"created_at":10,"completed_at":20,"url":"https://x/1?a=b&c","format":"mp4","videos":[{"url":"https://x/1?a=b&c","format":"mp4",` +
			`"duration":5.1,"width":1280,"height":720,"expires_at":30},{"url":"https://x/2"}],"metadata":{"duration": 5.0},` +
			`"usage":{"total_tokens":3,"cost":0.10},"request_id":"r","retry_of":"video_b","replaced_by":["video_c","video_d"],"labels":{"a":"1","b":"2"}}`},
		{VideoTaskJSON(failed, nil), `{"task_id":"video_a","id":"video_a","object":"video","model":"","status":"failed","progress":40,` +
			`"created_at":10,"completed_at":20,"error":{"code":"upstream_failed","message":"it\nfailed","type":"t","param":"p",` +
			`"retryable":false,"upstream_code":"50413"}}`},
		{VideoTaskJSON(odd, nil), `{"task_id":"","id":"","object":"video","model":"` + "\ufffd" + `","status":"unknown","progress":0,"url":"u",` +
			`"videos":[{"url":"u"}],"metadata":"{broken","usage":{"prompt_tokens":1,"x":1}}`},
		{VideoTaskJSON(nil, nil), `{"task_id":"","id":"","object":"video","model":"","status":"unknown","progress":0}`},
	} {
		if string(test.got) != test.want {
			t.Errorf("\n got %s\nwant %s", test.got, test.want)
		}
		requireValidJSON(t, test.got)
	}
}

func TestChatJSON(t *testing.T) {
	t.Parallel()
	chat := &genbusv1.Chat{
		Id: "chat_a", Status: genbusv1.JobStatus_JOB_STATUS_CANCELLED, Model: "m", Attempt: 2, CreatedAt: at(10), CompletedAt: at(20),
		Error: &genbusv1.TaskError{Code: "cancelled", Message: "by the caller", Retryable: true}, Labels: map[string]string{"a": "1"},
		RequestId: "r", RetryOf: "chat_b", ReplyJson: []byte("not this one"),
	}
	want := `{"id":"chat_a","object":"chat.completion.job","status":"cancelled","model":"m","attempt":2,"created_at":10,"completed_at":20,` +
		`"error":{"code":"cancelled","message":"by the caller","retryable":true},"request_id":"r","retry_of":"chat_b","replaced_by":["chat_c"],"labels":{"a":"1"}`
	if got := ChatJSON(chat, nil, []string{"chat_c"}); string(got) != want+"}" {
		t.Errorf("without a reply:\n got %s\nwant %s", got, want+"}")
	}
	reply := "{\n \"id\" : \"c\", \"n\": 1.0 }"
	if got := ChatJSON(chat, []byte(reply), []string{"chat_c"}); string(got) != want+`,"response":`+reply+"}" {
		t.Errorf("with a reply: got %s", got)
	}
	chat.ReplyRef = &genbusv1.BlobRef{Bucket: "b", Name: "n", Size: 300 << 10}
	if got := ChatJSON(chat, nil, []string{"chat_c"}); string(got) != want+`,"reply_ref":{"bucket":"b","name":"n","size":307200}}` {
		t.Errorf("with a reply elsewhere: got %s", got)
	}
}

func TestModelJSON(t *testing.T) {
	t.Parallel()
	models := []*genbusv1.Model{
		{Id: "a", Created: 7, OwnedBy: "o", ExtraJson: []byte(`{"object":"other","shutdown_date":null}`)}, {Id: "b"}}
	want := `{"object":"list","data":[{"id":"a","object":"model","created":7,"owned_by":"o","shutdown_date":null},` +
		`{"id":"b","object":"model","created":0,"owned_by":""}]}`
	if got := ModelListJSON(models); string(got) != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got := ModelListJSON(nil); string(got) != `{"object":"list","data":[]}` {
		t.Errorf("no models: %s", got)
	}
	if got := ModelJSON(models[1]); string(got) != `{"id":"b","object":"model","created":0,"owned_by":""}` {
		t.Errorf("one model: %s", got)
	}
}
