package natsapi_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	n := w.Broker.Names()
	t.Run("video", func(t *testing.T) {
		m := w.Call(n.Call(subject.Video, "acme"), nil, marshal(t, apitest.VideoRequest("a").GetRequest()))
		var got genbusv1.CreateVideoTaskResponse
		if err := proto.Unmarshal(m.Data, &got); err != nil || got.GetTask().GetTenant() != "acme" ||
			m.Header.Get("genbus-job-id") != got.GetTask().GetId() || m.Header.Get("content-type") != "application/protobuf" {
			t.Errorf("%v %v %v", m.Header, &got, err)
		}
		if w.Entry(subject.Video, "acme", got.GetTask().GetId()).Version() != 1 {
			t.Error("the task is not in the log")
		}
	})
	t.Run("chat", func(t *testing.T) {
		req := &genbusv1.ChatRequest{RequestId: "r", Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(apitest.ChatBody)}}
		var ids []string
		for range 2 {
			m := w.Call(n.Call(subject.Chat, "acme"), nil, marshal(t, req))
			var got genbusv1.SubmitChatCompletionResponse
			if err := proto.Unmarshal(m.Data, &got); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, got.GetChat().GetId())
		}
		if ids[0] == "" || ids[0] != ids[1] {
			t.Errorf("one request id, two chats: %v", ids)
		}
	})
	t.Run("JSON", func(t *testing.T) {
		header := nats.Header{"content-type": {"application/json"}, "genbus-request-id": {"j"}, "genbus-labels": {"a=b"}}
		for kind, data := range map[subject.Kind]string{subject.Video: apitest.VideoBody, subject.Chat: apitest.ChatBody} {
			m := w.Call(n.Call(kind, "acme"), header, []byte(data))
			var got map[string]any
			if err := json.Unmarshal(m.Data, &got); err != nil || got["status"] != "queued" || got["id"] != m.Header.Get("genbus-job-id") || m.Header.Get("content-type") != "application/json" {
				t.Errorf("%s: %v %s %v", kind, m.Header, m.Data, err)
			}
			if e := w.Entry(kind, "acme", m.Header.Get("genbus-job-id")); e.Job.GetLabels()["a"] != "b" || e.Job.GetRequestId() != "j" {
				t.Errorf("%s: %v", kind, e.Job)
			}
		}
	})
}

// TestMessageID checks that the Nats-Msg-Id of a video is its request ID if it fits and the request
// has no other.
func TestMessageID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	typed, named := apitest.VideoRequest("a").GetRequest(), apitest.VideoRequest("a").GetRequest()
	named.RequestId = "own"
	for name, row := range map[string]struct {
		kind   subject.Kind
		header nats.Header
		data   []byte
		want   string
	}{
		"Protobuf":               {subject.Video, nats.Header{"Nats-Msg-Id": {"m 1"}}, marshal(t, typed), "m 1"},
		"stored":                 {subject.Video, nats.Header{"Nats-Msg-Id": {"m2"}}, w.upload("stored", typed), "m2"},
		"JSON, in lower case":    {subject.Video, nats.Header{"content-type": {"application/json"}, "nats-msg-id": {"m3"}}, []byte(apitest.VideoBody), "m3"},
		"one in the message":     {subject.Video, nats.Header{"Nats-Msg-Id": {"m4"}}, marshal(t, named), "own"},
		"one in a stored":        {subject.Video, nats.Header{"Nats-Msg-Id": {"m5"}}, w.upload("named", named), "own"},
		"one in a header":        {subject.Video, nats.Header{"Nats-Msg-Id": {"m6"}, "genbus-request-id": {"h"}}, marshal(t, typed), "h"},
		"longer than 255":        {subject.Video, nats.Header{"Nats-Msg-Id": {strings.Repeat("a", 256)}}, marshal(t, typed), ""},
		"not in printable ASCII": {subject.Video, nats.Header{"Nats-Msg-Id": {"order-ä"}}, marshal(t, typed), ""},
		"of a chat":              {subject.Chat, nats.Header{"content-type": {"application/json"}, "Nats-Msg-Id": {"m7"}}, []byte(apitest.ChatBody), ""},
	} {
		subj := w.Broker.Names().Call(row.kind, "acme")
		m := w.Call(subj, row.header, row.data)
		id := m.Header.Get("genbus-job-id")
		if id == "" {
			t.Errorf("%s: %v", name, m.Header)
			continue
		}
		if got := w.Entry(row.kind, "acme", id).Job.GetRequestId(); got != row.want {
			t.Errorf("%s: the request ID is %q, want %q", name, got, row.want)
		}
	}
	again := func(data []byte) nats.Header {
		return w.Call(w.Broker.Names().Call(subject.Video, "acme"), nats.Header{"Nats-Msg-Id": {"again"}}, data).Header
	}
	first := again(marshal(t, typed))
	if second := again(marshal(t, typed)); first.Get("genbus-job-id") == "" || second.Get("genbus-job-id") != first.Get("genbus-job-id") {
		t.Errorf("sent twice: %v, then %v", first, second)
	}
	if other := again(marshal(t, apitest.VideoRequest("another prompt").GetRequest())); other.Get("genbus-error-code") != "idempotency_key_reused" {
		t.Errorf("with another body: %v", other)
	}
}

func TestCallErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	n := w.Broker.Names()
	for name, row := range map[string]struct {
		subject string
		header  nats.Header
		data    []byte
		status  string
		code    string
	}{
		"no message":       {n.Call(subject.Video, "acme"), nil, []byte("\xff"), "400", "invalid_request"},
		"an illegal name":  {"genbus.call.video.a*c", nil, marshal(t, apitest.VideoRequest("a").GetRequest()), "400", "invalid_request"},
		"no model":         {n.Call(subject.Video, "acme"), nil, marshal(t, apitest.NoModel().GetRequest()), "400", "invalid_request"},
		"a media type":     {n.Call(subject.Chat, "acme"), nats.Header{"content-type": {"text/plain"}}, []byte("x"), "415", "unsupported_media_type"},
		"JSON and no such": {n.Call(subject.Chat, "acme"), nats.Header{"content-type": {"application/json"}}, []byte(strings.Replace(apitest.ChatBody, "sandbox-chat", "x", 1)), "404", "model_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			m := w.Call(row.subject, row.header, row.data)
			h := m.Header
			if h.Get(micro.ErrorCodeHeader) != row.status || h.Get(micro.ErrorHeader) == "" || h.Get("genbus-error-code") != row.code {
				t.Errorf("%v", h)
			}
			var code string
			if h.Get("content-type") == "application/json" {
				code = apitest.Answer{Body: string(m.Data)}.ErrorCode(t)
			} else {
				var e genbusv1.TaskError
				if err := proto.Unmarshal(m.Data, &e); err != nil {
					t.Fatal(err)
				}
				code = e.GetCode()
			}
			if code != row.code {
				t.Errorf("data says %q", code)
			}
		})
	}
}

func (w *world) info() (info micro.Info) {
	w.T.Helper()
	m := w.Call("$SRV.INFO.genbus", nil, nil)
	if err := json.Unmarshal(m.Data, &info); err != nil {
		w.T.Fatalf("%s, %v", m.Data, err)
	}
	return info
}

// TestCallsAreAMicroService checks that "nats micro ls" and "nats micro info" show the service.
func TestCallsAreAMicroService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	info := w.info()
	if info.Name != "genbus" || info.Version != "1.2.3" || len(info.Endpoints) != 10 {
		t.Fatalf("%+v", info)
	}
	for _, e := range info.Endpoints {
		word, kind, _ := strings.Cut(e.Name, "-")
		want := "genbus." + word + "." + kind + ".*"
		switch {
		case kind == "" && subject.Kind(word).Valid():
			want = "genbus.call." + word + ".*"
		case kind == "":
			want = "genbus." + word + ".*"
		}
		if e.QueueGroup != "genbus" || e.Subject != want {
			t.Errorf("endpoint %+v", e)
		}
	}
}

// TestStopAnswersWhatHasArrived checks that requests received before the end are answered. On a
// busy machine those beyond maxCalls may be told to retry.
func TestStopAnswersWhatHasArrived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.Calls()
	const n, inFlight = 400, 256
	inbox := w.Broker.Conn().NewInbox()
	answers, err := w.Broker.Conn().SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	data := marshal(t, apitest.VideoRequest("a").GetRequest())
	for range n {
		if err := w.Broker.Conn().PublishRequest(w.Broker.Names().Call(subject.Video, "acme"), inbox, data); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	accepted := 0
	for i := range n {
		m, err := answers.NextMsg(brokertest.Patience)
		if err != nil {
			t.Fatalf("answer %d of %d: %v", i, n, err)
		}
		switch code := m.Header.Get("genbus-error-code"); errcode.Code(code) {
		case "":
			accepted++
		case errcode.QueueFull:
		default:
			t.Errorf("answer %d: %s", i, code)
		}
	}
	if accepted < inFlight {
		t.Errorf("%d of %d were accepted", accepted, n)
	}
}

func TestCallsWhileDraining(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	w.Drain(nil)
	m := w.Call(w.Broker.Names().Call(subject.Video, "acme"), nil, marshal(t, apitest.VideoRequest("a").GetRequest()))
	if m.Header.Get("genbus-error-code") != "shutting_down" || m.Header.Get(micro.ErrorCodeHeader) != "503" {
		t.Errorf("%v", m.Header)
	}
}

// TestAnswersNeverBecomeEvents checks that an answer is not published on a reserved subject that a
// caller names as reply subject.
func TestAnswersNeverBecomeEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.Calls()
	names, conn := w.Broker.Names(), w.Broker.Conn()
	data := marshal(t, apitest.VideoRequest("a").GetRequest())
	heard := map[string]*nats.Subscription{}
	for _, reply := range []string{
		names.Task(subject.Video, "globex", "video_x"), names.Request(subject.Video, "globex"),
		names.Done(subject.Video, "globex", "completed", "video_x"), "$JS.API.STREAM.PURGE." + names.Tasks(), conn.NewInbox(),
	} {
		sub, err := conn.SubscribeSync(reply)
		if err != nil {
			t.Fatal(err)
		}
		heard[reply] = sub
		if err := conn.PublishRequest(names.Call(subject.Video, "acme"), reply, data); err != nil {
			t.Fatal(err)
		}
	}
	stop() // answers requests that have arrived
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	for reply, sub := range heard {
		want := 0
		if strings.HasPrefix(reply, "_INBOX.") {
			want = 1
		}
		if n, _, err := sub.Pending(); err != nil || n != want {
			t.Errorf("%d answers went to %s (%v), want %d", n, reply, err, want)
		}
	}
}

// TestErrorsSayWhatWasSent checks that JSON errors on every path quote texts without HTML escapes
// such as \u003c.
func TestErrorsSayWhatWasSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Calls()
	const model = "<none>"
	said := map[string]string{
		"NATS": string(w.Call(w.Broker.Names().Call(subject.Video, "default"), nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}},
			[]byte(`{"model":"`+model+`","prompt":"x"}`)).Data),
	}
	for path, body := range map[string]string{
		"/v1/video/generations": `{"model":"<none>","prompt":"x"}`,
		"/v1/videos":            `{"model":"<none>","prompt":"x"}`,
		"/v1/chat/completions":  `{"model":"<none>","messages":[{"role":"user","content":"x"}]}`,
		"/genbus/v1/videos":     `{"video":{"model":"<none>","prompt":"x"}}`,
		apitest.KlingText:       `{"model_name":"<none>","prompt":"x"}`,
		apitest.JimengSubmit:    `{"req_key":"<none>","prompt":"x"}`,
	} {
		said[path] = w.Post(path, body).Body
	}
	for path, answer := range said {
		if !strings.Contains(answer, model) {
			t.Errorf("%s: %s", path, answer)
		}
	}
}
