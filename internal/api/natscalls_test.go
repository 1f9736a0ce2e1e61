package api_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
)

// calls starts the endpoints on the world's own connection.
func (w *world) calls() (stop func()) {
	w.t.Helper()
	end, err := w.api.StartCalls(w.broker.Conn())
	if err != nil {
		w.t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := end(); err != nil {
			w.t.Error(err)
		}
		if err := end(); err != nil {
			w.t.Errorf("a second stop: %v", err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *world) call(subj string, header nats.Header, data []byte) *nats.Msg {
	w.t.Helper()
	m, err := w.broker.Conn().RequestMsg(&nats.Msg{Subject: subj, Header: header, Data: data}, 10*time.Second)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

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
	w.calls()
	n := w.broker.Names()
	t.Run("video", func(t *testing.T) {
		m := w.call(n.Call(subject.Video, "acme"), nil, marshal(t, videoRequest("a").GetRequest()))
		var got genbusv1.CreateVideoTaskResponse
		if err := proto.Unmarshal(m.Data, &got); err != nil || got.GetTask().GetTenant() != "acme" ||
			m.Header.Get("genbus-job-id") != got.GetTask().GetId() || m.Header.Get("content-type") != "application/protobuf" {
			t.Errorf("%v %v %v", m.Header, &got, err)
		}
		if w.entry(subject.Video, "acme", got.GetTask().GetId()).Version() != 1 {
			t.Error("the task is not in the log")
		}
	})
	t.Run("chat", func(t *testing.T) {
		req := &genbusv1.ChatRequest{RequestId: "r", Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(chatBody)}}
		var ids []string
		for range 2 {
			m := w.call(n.Call(subject.Chat, "acme"), nil, marshal(t, req))
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
		for kind, data := range map[subject.Kind]string{subject.Video: videoBody, subject.Chat: chatBody} {
			m := w.call(n.Call(kind, "acme"), header, []byte(data))
			var got map[string]any
			if err := json.Unmarshal(m.Data, &got); err != nil || got["status"] != "queued" || got["id"] != m.Header.Get("genbus-job-id") || m.Header.Get("content-type") != "application/json" {
				t.Errorf("%s: %v %s %v", kind, m.Header, m.Data, err)
			}
			if e := w.entry(kind, "acme", m.Header.Get("genbus-job-id")); e.Job.GetLabels()["a"] != "b" || e.Job.GetRequestId() != "j" {
				t.Errorf("%s: %v", kind, e.Job)
			}
		}
	})
}

func TestCallErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.calls()
	n := w.broker.Names()
	for name, row := range map[string]struct {
		subject string
		header  nats.Header
		data    []byte
		status  string
		code    string
	}{
		"no message":       {n.Call(subject.Video, "acme"), nil, []byte("\xff"), "400", "invalid_request"},
		"an illegal name":  {"genbus.call.video.a*c", nil, marshal(t, videoRequest("a").GetRequest()), "400", "invalid_request"},
		"no model":         {n.Call(subject.Video, "acme"), nil, marshal(t, noModel().GetRequest()), "400", "invalid_request"},
		"a media type":     {n.Call(subject.Chat, "acme"), nats.Header{"content-type": {"text/plain"}}, []byte("x"), "415", "unsupported_media_type"},
		"JSON and no such": {n.Call(subject.Chat, "acme"), nats.Header{"content-type": {"application/json"}}, []byte(strings.Replace(chatBody, "sandbox-chat", "x", 1)), "404", "model_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			m := w.call(row.subject, row.header, row.data)
			h := m.Header
			if h.Get(micro.ErrorCodeHeader) != row.status || h.Get(micro.ErrorHeader) == "" || h.Get("genbus-error-code") != row.code {
				t.Errorf("%v", h)
			}
			var code string
			if h.Get("content-type") == "application/json" {
				code = answer{body: string(m.Data)}.errorCode(t)
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

// TestCallsAreAMicroService: nats micro ls and info show it.
func TestCallsAreAMicroService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.calls()
	m := w.call("$SRV.INFO.genbus", nil, nil)
	var info micro.Info
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Name != "genbus" || info.Version != "1.2.3" || len(info.Endpoints) != 2 {
		t.Fatalf("%s, %v", m.Data, err)
	}
	for _, e := range info.Endpoints {
		if e.QueueGroup != "genbus" || e.Subject != "genbus.call."+e.Name+".*" {
			t.Errorf("endpoint %+v", e)
		}
	}
}

// TestStopAnswersWhatHasArrived: requests that reached the service before its end
// are answered.
func TestStopAnswersWhatHasArrived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.calls()
	const n = 400 // more than are in flight at a time
	inbox := w.broker.Conn().NewInbox()
	answers, err := w.broker.Conn().SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	data := marshal(t, videoRequest("a").GetRequest())
	for range n {
		if err := w.broker.Conn().PublishRequest(w.broker.Names().Call(subject.Video, "acme"), inbox, data); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	for i := range n {
		m, err := answers.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatalf("answer %d of %d: %v", i, n, err)
		}
		if code := m.Header.Get("genbus-error-code"); code != "" {
			t.Errorf("answer %d: %s", i, code)
		}
	}
}

func TestCallsWhileDraining(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.calls()
	w.api.Drain(nil)
	m := w.call(w.broker.Names().Call(subject.Video, "acme"), nil, marshal(t, videoRequest("a").GetRequest()))
	if m.Header.Get("genbus-error-code") != "shutting_down" || m.Header.Get(micro.ErrorCodeHeader) != "503" {
		t.Errorf("%v", m.Header)
	}
}

// TestAnswersNeverBecomeEvents: a caller may name any subject for the answer, and
// the answer has the service's rights.
func TestAnswersNeverBecomeEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.calls()
	names, conn := w.broker.Names(), w.broker.Conn()
	data := marshal(t, videoRequest("a").GetRequest())
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
	stop() // answers what has arrived
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

// TestErrorsSayWhatWasSent, on every path that answers with JSON: not \u003c, which
// is for HTML.
func TestErrorsSayWhatWasSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.calls()
	const model = "<none>"
	said := map[string]string{
		"NATS": string(w.call(w.broker.Names().Call(subject.Video, "default"), nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}},
			[]byte(`{"model":"`+model+`","prompt":"x"}`)).Data),
	}
	for path, body := range map[string]string{
		"/v1/video/generations": `{"model":"<none>","prompt":"x"}`,
		"/v1/videos":            `{"model":"<none>","prompt":"x"}`,
		"/v1/chat/completions":  `{"model":"<none>","messages":[{"role":"user","content":"x"}]}`,
		"/genbus/v1/videos":     `{"video":{"model":"<none>","prompt":"x"}}`,
		klingText:               `{"model_name":"<none>","prompt":"x"}`,
		jimengSubmit:            `{"req_key":"<none>","prompt":"x"}`,
	} {
		said[path] = w.post(path, body).body
	}
	for path, answer := range said {
		if !strings.Contains(answer, model) {
			t.Errorf("%s: %s", path, answer)
		}
	}
}
