package natsapi_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// upload stores a request of acme and returns the message that names it.
func (w *world) upload(word string, request *genbusv1.VideoRequest) []byte {
	w.T.Helper()
	ref := brokertest.Upload(w.T, w.Broker.JetStream(), "acme", word, request)
	return marshal(w.T, &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}})
}

// uploads waits until acme has exactly the given uploads.
func (w *world) uploads(want ...string) {
	w.T.Helper()
	w.Await("the uploads "+strings.Join(want, " and "), func() bool {
		left := brokertest.Uploads(w.T, w.Broker.JetStream(), "acme")
		slices.Sort(left)
		return slices.Equal(left, want)
	})
}

// TestStoredCalls checks that an upload is removed after a definite answer, and that a stored
// request equals a sent one.
func TestStoredCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.Limits.Tenant = config.TenantLimits{MaxJobs: 1} })
	w.Calls()
	subj := w.Broker.Names().Call(subject.Video, "acme")
	request := func(id, prompt string) *genbusv1.VideoRequest {
		r := apitest.VideoRequest(prompt).GetRequest()
		r.RequestId = id
		return r
	}
	brokertest.Upload(t, w.Broker.JetStream(), "acme", "bystander", request("x", "a cat"))
	first := w.Call(subj, nil, w.upload("first", request("one", "a cat")))
	id := first.Header.Get("genbus-job-id")
	if w.Entry(subject.Video, "acme", id).Version() != 1 {
		t.Fatalf("%v %s", first.Header, first.Data)
	}
	for name, data := range map[string][]byte{
		"whole": marshal(t, request("one", "a cat")), "stored again": w.upload("second", request("one", "a cat")),
	} {
		if m := w.Call(subj, nil, data); m.Header.Get("genbus-job-id") != id || m.Header.Get("genbus-error-code") != "" {
			t.Errorf("%s: %v", name, m.Header)
		}
	}
	for name, row := range map[string]struct {
		data []byte
		code string
	}{
		"another body":      {w.upload("other", request("one", "a dog")), "idempotency_key_reused"},
		"no model":          {w.upload("bad", apitest.NoModel().GetRequest()), "invalid_request"},
		"sent twice":        {marshal(t, &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: &genbusv1.BlobRef{Name: "upload-first", Size: 1, Sha256: make([]byte, 32)}}}), "input_lost"},
		"beyond its limits": {w.upload("later", request("two", "a cat")), "tenant_full"},
	} {
		if m := w.Call(subj, nil, row.data); m.Header.Get("genbus-error-code") != row.code {
			t.Errorf("%s: %v", name, m.Header)
		}
	}
	w.uploads("upload-bystander", "upload-later")
}

// TestStoredCallsWithoutAPlace checks that a stored request without a free slot is told when to
// retry.
func TestStoredCallsWithoutAPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	subj := w.Broker.Names().Call(subject.Video, "acme")
	data := w.upload("a", apitest.VideoRequest("a cat").GetRequest())
	for {
		in := apitest.Must[natsreq.Incoming](t)(natsreq.Decode(w.Broker.Names(), subj, nil, data))
		release, err := w.Uploads.Complete(t.Context(), &in, 10*time.Millisecond)
		if errcode.CodeOf(err) == errcode.QueueFull {
			break
		}
		defer release()
	}
	m := w.Call(subj, nil, data)
	if h := m.Header; h.Get("genbus-error-code") != "queue_full" || h.Get("Retry-After") != "1" {
		t.Errorf("%v %s", h, m.Data)
	}
	if m := w.Call(subj, nats.Header{"content-type": {"application/json"}}, []byte(apitest.VideoBody)); m.Header.Get("genbus-error-code") != "" {
		t.Errorf("one that came whole: %v", m.Header)
	}
	w.uploads("upload-a")
}

// TestStoredIsForNATSOnly checks that gRPC and HTTP reject stored requests.
func TestStoredIsForNATSOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ref := &genbusv1.BlobRef{Name: "upload-a", Size: 1, Sha256: make([]byte, 32)}
	video := &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}}
	chat := &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Stored{Stored: ref}}
	conn := w.Dial()
	for name, call := range map[string]func(context.Context) error{
		"CreateVideoTask": func(ctx context.Context) error {
			_, err := genbusv1grpc.NewVideoServiceClient(conn).CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: video})
			return err
		},
		"SubmitChatCompletion": func(ctx context.Context) error {
			_, err := genbusv1grpc.NewChatServiceClient(conn).SubmitChatCompletion(ctx, &genbusv1.SubmitChatCompletionRequest{Request: chat})
			return err
		},
		"CreateChatCompletion": func(ctx context.Context) error {
			_, err := genbusv1grpc.NewChatServiceClient(conn).CreateChatCompletion(ctx, &genbusv1.CreateChatCompletionRequest{Request: chat})
			return err
		},
	} {
		if err := call(t.Context()); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "only in NATS messages") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, path := range []string{"/genbus/v1/videos", "/genbus/v1/chats"} {
		a := w.Post(path, `{"stored":{"name":"upload-a","size":"1"}}`)
		if a.Status != 400 || a.ErrorCode(t) != "invalid_request" || !strings.Contains(a.Body, "send the request itself") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if _, err := natsreq.FromVideo(video); errcode.CodeOf(err) != errcode.InvalidRequest {
		t.Error(err)
	}
}

// storeReply completes a chat with a reply in the object store.
func (w *world) storeReply(tenant, id, reply string) broker.Body {
	w.T.Helper()
	stored := apitest.Must[broker.Body](w.T)(broker.NewBodies(w.Broker).Put(w.T.Context(), tenant, "reply-", []byte(reply)))
	e := w.StartChat(tenant, id)
	next, err := task.Replied(core.ChatOf(e), time.Now(), task.Reply{Ref: publisher.BlobRef(stored)})
	w.Commit(e, next, err)
	return stored
}

// TestALongReplyIsNamed checks that the answer to a request that attaches to its chat references a
// long reply, in both formats.
func TestALongReplyIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	subj := w.Broker.Names().Call(subject.Chat, "acme")
	asJSON := nats.Header{"content-type": {"application/json"}, "genbus-request-id": {"one"}}
	id := w.Call(subj, asJSON, []byte(apitest.ChatBody)).Header.Get("genbus-job-id")
	stored := w.storeReply("acme", id, `{"choices":[]}`)

	var job struct {
		Status   string
		ReplyRef struct{ Name string } `json:"reply_ref"`
	}
	if m := w.Call(subj, asJSON, []byte(apitest.ChatBody)); json.Unmarshal(m.Data, &job) != nil || job.Status != "completed" || job.ReplyRef.Name != stored.Name {
		t.Errorf("as JSON the chat is %s", m.Data)
	}
	var answer genbusv1.SubmitChatCompletionResponse
	request := marshal(t, &genbusv1.ChatRequest{RequestId: "one", Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(apitest.ChatBody)}})
	if m := w.Call(subj, nil, request); proto.Unmarshal(m.Data, &answer) != nil || answer.GetChat().GetReplyRef().GetName() != stored.Name {
		t.Errorf("as Protobuf the chat is %v", &answer)
	}
}
