package consumer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// dense returns text with the longest JSON encoding: six bytes for each byte.
func dense(length int) string { return strings.Repeat("\x01", length) }

// largest returns a request that has the most of everything that a job keeps.
func largest(kind subject.Kind, model string) admission.Request {
	r := admission.Request{
		Kind: kind, Tenant: strings.Repeat("t", 64), RequestID: strings.Repeat(`"`, 255), RetryOf: subject.JobID(kind, "acme", "x"), Labels: map[string]string{},
	}
	for i := range 16 {
		r.Labels[dense(127)+string(rune(i))] = dense(128)
	}
	raw, _ := json.Marshal(map[string]any{
		"model": model + strings.Repeat(`"`, 256-len(model)), "prompt": "a dog", "size": dense(32 << 10), "messages": []map[string]string{{"role": "user", "content": "hi"}},
	})
	r.Body = body.Parse(raw)
	return r
}

// TestTheLargestEndIsBounded proves the bound of the log bytes of a submitted job with the largest
// possible texts of caller and upstream, and of its dead letter; the rest goes to the object store.
func TestTheLargestEndIsBounded(t *testing.T) {
	t.Parallel()
	for encoding, most := range map[string]uint64{config.EncodingProtobuf: 96 << 10, config.EncodingJSON: 384 << 10} {
		for _, kind := range subject.Kinds {
			t.Run(encoding+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				testLargestEnd(t, encoding, kind, most)
			})
		}
	}
}

func testLargestEnd(t *testing.T, encoding string, kind subject.Kind, most uint64) {
	b := brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Limits: broker.Limits{TasksMaxBytes: 32 << 20},
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true},
	})
	used := func() uint64 {
		s, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
		if err != nil {
			t.Error(err)
		}
		return s.CachedInfo().State.Bytes
	}
	called, filled := make(chan struct{}), make(chan struct{})
	call := func() {
		close(called)
		<-filled
	}
	polls := 0
	extra := fmt.Sprintf(`{"prompt_tokens":1,"x":%q}`, strings.Repeat("u", 2000))
	url := scripted(t, map[string]http.HandlerFunc{
		createPath: func(w http.ResponseWriter, _ *http.Request) {
			call()
			respond(`{"task_id":%q,"status":%q}`, strings.Repeat(`"`, upstream.MaxTaskID), "queued")(w, nil)
		},
		"GET /v1/video/generations/{id...}": func(w http.ResponseWriter, r *http.Request) {
			if polls++; polls == 1 {
				respond(`{"status":"processing"}`)(w, r)
				return
			}
			var videos []map[string]any
			for i := range 20 {
				u := fmt.Sprintf("http://%s/file/%d?%s", r.Host, i, strings.Repeat(`"`, 200))
				switch {
				case i == 0:
					u = "data:video/mp4," + dense(1000)
				case i > 14:
					u = "http://10.0.0.1/" + strings.Repeat("x", 15<<10)
				}
				videos = append(videos, map[string]any{"url": u, "format": dense(32), "duration": 1.0 / 3, "width": 12345, "height": 12345, "expires_at": 1900000000})
			}
			text, _ := json.Marshal(map[string]any{
				"status": "completed", "videos": videos, "metadata": map[string]string{"x": strings.Repeat("m", 60<<10)}, "usage": json.RawMessage(extra),
			})
			_, _ = w.Write(text)
		},
		filePath: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "video/mp4; x="+strings.Repeat("y", 200))
			_, _ = w.Write([]byte("video"))
		},
		"POST /v1/chat/completions": func(w http.ResponseWriter, _ *http.Request) {
			call()
			respond(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":%s}`,
				strings.Repeat("r", 1700), extra)(w, nil)
		},
	})
	r := newReplica(t, b, testConfig(t, url, videoRoutes(func(r *config.Route) { r.Archive, r.Timeouts.Create = true, patience }), func(c *config.Config) { c.Events.Encoding = encoding }))
	ctx := telemetry.Extract(t.Context(), map[string]string{
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=" + strings.Repeat("s", 250) + ",b=" + strings.Repeat("s", 250),
	})
	e, err := r.Admission.Admit(ctx, largest(kind, "sandbox-"+string(kind)))
	if err != nil {
		t.Fatal(err)
	}
	<-called
	stored, err := r.Queue.Items.Find(t.Context(), e.Name())
	if err != nil {
		t.Fatal(err)
	}
	item, err := stored.Decode()
	if err != nil {
		t.Fatal(err)
	}
	letter := deadletter.FromJob(item, e.Job, errcode.New(errcode.Internal, "%s", dense(4<<10)))
	if n := proto.Size(letter) - len(letter.GetData()); n > 15<<10 {
		t.Errorf("a dead letter has %d bytes beside its body", n)
	}
	fillLog(t, b, 0.9)
	shortly(t, "the log is seen to be full", func() bool { return r.log.Capacity.Check(t.Context()) != nil })
	before := used()
	close(filled)
	allEnded(t, b, r.log, []subject.JobName{e.Name()})
	took := used() - before
	t.Logf("%d bytes", took)
	if took > most || kind == subject.Video && took < most/2 {
		t.Errorf("%d bytes from the submission on, want at most %d", took, most)
	}
	end, err := r.log.Get(t.Context(), e.Name())
	if err != nil {
		t.Fatal(err)
	}
	v, isVideo := end.Job.(*genbusv1.VideoTask)
	if !isVideo {
		return
	}
	types := map[string]int{}
	for _, f := range v.GetArchive().GetFiles() {
		types[f.GetContentType()]++
	}
	if types["application/json"] != 1 || types["text/uri-list"] != 1 || len(v.GetArchive().GetFiles()) != 17 {
		t.Errorf("stored files: %v", types)
	}
	if v.GetVersion() != 6 || len(v.GetVideos()) != 16 || v.GetArchive().GetError().GetCode() != string(errcode.ContentBlocked) {
		t.Errorf("version %d, %d videos, %v", v.GetVersion(), len(v.GetVideos()), v.GetArchive().GetError())
	}
}

// TestABacklogOfTheLargestJobsEnds proves that all of the largest jobs that fit a log can end while
// they wait and leave a tenth of it to submitted jobs. For JSON this holds with labels of printable
// text.
func TestABacklogOfTheLargestJobsEnds(t *testing.T) {
	t.Parallel()
	t.Run(config.EncodingProtobuf, func(t *testing.T) {
		t.Parallel()
		testLargestBacklog(t, config.EncodingProtobuf, func(*admission.Request) {})
	})
	t.Run(config.EncodingJSON, func(t *testing.T) {
		t.Parallel()
		testLargestBacklog(t, config.EncodingJSON, func(r *admission.Request) {
			r.Labels = map[string]string{}
			for i := range 16 {
				r.Labels[strings.Repeat("k", 127)+string(rune('a'+i))] = strings.Repeat("v", 128)
			}
		})
	})
}

func testLargestBacklog(t *testing.T, encoding string, change func(*admission.Request)) {
	const size = 8 << 20
	b := brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Limits: broker.Limits{TasksMaxBytes: size},
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true},
	})
	cfg := testConfig(t, "http://127.0.0.1:1", func(c *config.Config) { c.Events.Encoding = encoding })
	var replicas []*replica
	for range 8 {
		replicas = append(replicas, idleReplica(t, b, cfg))
	}
	var waiting []joblog.Entry
	for i := 0; ; i++ {
		request := largest(subject.Video, "sandbox-video")
		request.RequestID += strconv.Itoa(i)
		request.RequestID = request.RequestID[len(request.RequestID)-255:]
		change(&request)
		e, err := replicas[i%len(replicas)].Admission.Admit(t.Context(), request)
		if errcode.CodeOf(err) == errcode.StorageFull {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, e)
	}
	l := replicas[0].log
	for _, e := range waiting {
		end, err := task.Failed(e.Job, time.Now(), errcode.New(errcode.QueueTimeout, "job %s was not submitted in time", e.Job.GetId()).TaskError())
		if err != nil {
			t.Fatal(err)
		}
		if e, err = l.Commit(t.Context(), end, e.Seq); err == nil {
			err = l.Finish(t.Context(), e)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
	if err != nil {
		t.Fatal(err)
	}
	used := float64(s.CachedInfo().State.Bytes) / size
	t.Logf("%d jobs ended; %.2f of the log is used", len(waiting), used)
	if used > 0.9 || used < 0.5 {
		t.Errorf("%.2f of the log is used by %d jobs that ended", used, len(waiting))
	}
}
