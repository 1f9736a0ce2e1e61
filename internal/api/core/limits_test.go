package core_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// way sends one request of acme and returns the code of its refusal, or an empty code.
type way func(w *world) errcode.Code

// ways returns all ingresses that refuse at once. The inbox waits instead.
func (w *world) ways() map[string]way {
	c := apitest.Caller{T: w.T, Conn: w.Dial()}
	byHTTP := func(method, path, body string) way {
		return func(w *world) errcode.Code {
			a := w.Do(method, path, body, apitest.ByAcme...)
			if a.Status == http.StatusTooManyRequests {
				if seconds, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || seconds < 1 {
					w.T.Errorf("%s: Retry-After is %q", path, a.Header.Get("Retry-After"))
				}
			}
			return errcode.Code(a.Header.Get("Genbus-Error-Code"))
		}
	}
	return map[string]way{
		"HTTP":         byHTTP(http.MethodGet, "/v1/models", ""),
		"the gateway":  byHTTP(http.MethodGet, "/genbus/v1/videos", ""),
		"Kling":        byHTTP(http.MethodGet, apitest.KlingText, ""),
		"Jimeng":       byHTTP(http.MethodPost, apitest.JimengSubmit, apitest.JimengBody),
		"a job":        byHTTP(http.MethodPost, "/v1/videos", apitest.VideosBody),
		"no such path": byHTTP(http.MethodGet, "/v1/videos/video_none/content", ""),
		"gRPC": func(w *world) errcode.Code {
			_, err := c.Call("key-acme", "/genbus.v1.ModelService/ListModels", `{}`)
			if err != nil && retryInfo(err) == nil {
				w.T.Errorf("no advice when to come back: %v", err)
			}
			return errcode.Code(apitest.Reason(err))
		},
		"a gRPC stream": func(*world) errcode.Code {
			_, err := c.Call("key-acme", "/genbus.v1.VideoService/WatchVideoTask", `{"id":"video_none"}`)
			return errcode.Code(apitest.Reason(err))
		},
		"NATS": func(w *world) errcode.Code {
			m := w.Call(w.Broker.Names().Call(subject.Video, "acme"), nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}}, []byte(apitest.VideoBody))
			code := errcode.Code(m.Header.Get(subject.HeaderErrorCode))
			if after := m.Header.Get(subject.HeaderRetryAfter); (code == errcode.RateLimited) != (after != "" && after != "0") {
				w.T.Errorf("%s by NATS: Retry-After is %q", code, after)
			}
			return code
		},
	}
}

func retryInfo(err error) *errdetails.RetryInfo {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok && info.GetRetryDelay().AsDuration() > 0 {
			return info
		}
	}
	return nil
}

// TestRequestsOfATenantAreLimited checks that all ingresses share one rate limit and count each
// request once.
func TestRequestsOfATenantAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.AcmeMay(config.TenantLimits{RequestsPerSecond: 0.001, Burst: 9}))
	w.Calls()
	ways := w.ways()
	if len(ways) != 9 {
		t.Fatalf("%d ways, and a burst of 9", len(ways))
	}
	for name, send := range ways {
		if code := send(w); code == errcode.RateLimited {
			t.Errorf("%s is refused before the burst is used", name)
		}
	}
	for name, send := range ways {
		if code := send(w); code != errcode.RateLimited {
			t.Errorf("%s beyond the burst: %q", name, code)
		}
	}
	if a := w.Get("/v1/models", apitest.ByAcme...); a.Status != http.StatusTooManyRequests || a.ErrorCode(t) != string(errcode.RateLimited) {
		t.Errorf("HTTP: %d %s", a.Status, a.Body)
	}
	for range 20 {
		if a := w.Get("/v1/models", apitest.ByGlobex...); a.Status != http.StatusOK {
			t.Fatalf("another tenant: %d %s", a.Status, a.Body)
		}
	}
	for _, path := range []string{"/healthz", "/metrics"} {
		if a := w.Get(path); a.Status != http.StatusOK {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
}

// TestNoBodyIsReadBeyondTheRate checks that a request over the rate limit is refused before its
// body arrives.
func TestNoBodyIsReadBeyondTheRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.AcmeMay(config.TenantLimits{RequestsPerSecond: 0.001, Burst: 1}))
	w.Get("/v1/models", apitest.ByAcme...)
	for _, path := range []string{"/v1/videos", "/v1/chat/completions", apitest.KlingText, apitest.JimengSubmit, "/genbus/v1/videos"} {
		if a := w.Begun(path, apitest.ByAcme...); a.Status != http.StatusTooManyRequests {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}

// TestJobsOfATenantAreLimited checks that every ingress refuses new jobs over the limit and
// attaches to accepted ones.
func TestJobsOfATenantAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.AcmeMay(config.TenantLimits{MaxJobs: 3}))
	w.Calls()
	id := w.CreateVideo(append(apitest.ByAcme, "Idempotency-Key", "first")...)
	w.CreateVideo(apitest.ByAcme...)
	if a := w.Post("/v1/chat/completions", apitest.TalkBody("hi"), append(apitest.ByAcme, "Prefer", "respond-async", "Idempotency-Key", "talk")...); a.Status != http.StatusAccepted {
		t.Fatalf("a third job: %d %s", a.Status, a.Body)
	}
	c := apitest.Caller{T: t, Conn: w.Dial()}
	refused := func(name string, a apitest.Answer) {
		t.Helper()
		if a.Status != http.StatusTooManyRequests || a.Header.Get("Genbus-Error-Code") != string(errcode.TenantFull) || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s", name, a.Status, a.Header, a.Body)
		}
	}
	refused("a video", w.Post("/v1/videos", apitest.VideosBody, apitest.ByAcme...))
	refused("a queued chat", w.Post("/v1/chat/completions", apitest.TalkBody("hi"), append(apitest.ByAcme, "Prefer", "respond-async")...))
	refused("an inline chat", w.Post("/v1/chat/completions", apitest.TalkBody("hi"), apitest.ByAcme...))
	refused("an inline stream", w.Post("/v1/chat/completions", `{"stream":true,`+apitest.TalkBody("hi")[1:], apitest.ByAcme...))
	refused("Kling", w.Post(apitest.KlingText, apitest.KlingBody, apitest.ByAcme...))
	_, err := c.Call("key-acme", "/genbus.v1.VideoService/CreateVideoTask", `{"request":{"video":{"model":"sandbox-video","prompt":"p"}}}`)
	apitest.CheckStatus(t, err, codes.ResourceExhausted, errcode.TenantFull)
	m := w.Call(w.Broker.Names().Call(subject.Video, "acme"), nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}}, []byte(apitest.VideoBody))
	if m.Header.Get(subject.HeaderErrorCode) != string(errcode.TenantFull) {
		t.Errorf("NATS: %v", m.Header)
	}
	if again := w.CreateVideo(append(apitest.ByAcme, "Idempotency-Key", "first")...); again != id {
		t.Errorf("the same request is job %s, and was %s", again, id)
	}
	for range 5 {
		w.CreateVideo(apitest.ByGlobex...)
	}
	w.EndVideo(w.StartVideo("acme", id))
	w.Await("a place", func() bool {
		return w.Post("/v1/videos", apitest.VideosBody, apitest.ByAcme...).Status == http.StatusOK
	})
	refused("full again", w.Post("/v1/videos", apitest.VideosBody, apitest.ByAcme...))
}

// TestInlineChatsTakePlacesWhileTheyRun checks that a running inline chat counts against the job
// limit.
func TestInlineChatsTakePlacesWhileTheyRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.AcmeMay(config.TenantLimits{MaxJobs: 1}))
	open := w.Open(w.Request(http.MethodPost, "/v1/chat/completions",
		`{"stream":true,"model":"sandbox-chat:chunks=100000","messages":[{"role":"user","content":"hi"}]}`, apitest.ByAcme...))
	open.Next()
	if a := w.Post("/v1/videos", apitest.VideosBody, apitest.ByAcme...); a.Header.Get("Genbus-Error-Code") != string(errcode.TenantFull) {
		t.Errorf("beside an inline chat: %d %s", a.Status, a.Body)
	}
	if err := open.Res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	w.Await("its place", func() bool {
		return w.Post("/v1/videos", apitest.VideosBody, apitest.ByAcme...).Status == http.StatusOK
	})
}

// TestPlacesAtOnce checks that concurrent requests do not exceed the job limit, and that equal
// request ids make one job.
func TestPlacesAtOnce(t *testing.T) {
	t.Parallel()
	const most, tries = 5, 40
	w := newWorld(t, apitest.AcmeMay(config.TenantLimits{MaxJobs: most}))
	answers := make(chan apitest.Answer, tries)
	for i := range tries {
		go func() {
			answers <- w.Post("/v1/videos", apitest.VideosBody, append(apitest.ByAcme, "Idempotency-Key", fmt.Sprintf("order-%d", i%(tries/2)))...)
		}()
	}
	accepted := map[string]bool{}
	for range tries {
		switch a := <-answers; a.Header.Get("Genbus-Error-Code") {
		case "":
			accepted[a.Header.Get("Genbus-Job-Id")] = true
		case string(errcode.TenantFull):
		default:
			t.Errorf("%d %s", a.Status, a.Body)
		}
	}
	if len(accepted) > most || len(accepted) == 0 {
		t.Errorf("%d jobs were accepted, and there are %d places", len(accepted), most)
	}
}

// TestBodiesOfATenantAreLimited checks that every ingress limits bodies, except for a request that
// was accepted under a higher limit.
func TestBodiesOfATenantAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.AcmeMay(config.TenantLimits{MaxBodyBytes: 2 * config.KiB}))
	w.Calls()
	long := strings.Repeat("x", 3<<10)
	c := apitest.Caller{T: t, Conn: w.Dial()}
	for path, sent := range map[string]string{
		"/v1/video/generations": `{"model":"sandbox-video","prompt":"` + long + `"}`,
		"/v1/videos":            `{"model":"sandbox-videos","prompt":"` + long + `"}`,
		"/v1/chat/completions":  apitest.TalkBody(long),
		"/genbus/v1/videos":     `{"video":{"model":"sandbox-video","prompt":"` + long + `"}}`,
		apitest.KlingText:       `{"model_name":"sandbox-kling","prompt":"` + long + `"}`,
		apitest.JimengSubmit:    `{"req_key":"sandbox-jimeng","prompt":"` + long + `"}`,
	} {
		a := w.Post(path, sent, apitest.ByAcme...)
		if a.Header.Get("Genbus-Error-Code") != string(errcode.BodyTooLarge) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		if a := w.Post(path, sent, apitest.ByGlobex...); a.Status != http.StatusOK {
			t.Errorf("%s of another tenant: %d %s", path, a.Status, a.Body)
		}
	}
	accepted := `{"model":"sandbox-video","prompt":"` + long + `"}`
	sum := body.Parse([]byte(accepted)).Fingerprint()
	item := &genbusv1.WorkItem{
		Id: apitest.JobID(subject.Video, "acme", "before"), Kind: "video", Tenant: "acme", Route: config.SandboxVideoRoute, Model: "sandbox-video", Protocol: "primary",
		RequestId: "before", Fingerprint: sum[:], AcceptedAt: timestamppb.Now(),
	}
	if _, err := w.Log.Commit(t.Context(), task.FromWork(item), 0); err != nil {
		t.Fatal(err)
	}
	if a := w.Post("/v1/video/generations", accepted, append(apitest.ByAcme, "Idempotency-Key", "before")...); a.Status != http.StatusOK || !strings.Contains(a.Body, item.GetId()) {
		t.Errorf("the repeat of an accepted request: %d %s", a.Status, a.Body)
	}
	form := "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsandbox-videos\r\n--x\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\n" + long + "\r\n--x--\r\n"
	if a := w.Post("/v1/videos", form, append(apitest.ByAcme, "Content-Type", "multipart/form-data; boundary=x")...); a.ErrorCode(t) != string(errcode.BodyTooLarge) {
		t.Errorf("a form: %d %s", a.Status, a.Body)
	}
	_, err := c.Call("key-acme", "/genbus.v1.VideoService/CreateVideoTask", `{"request":{"video":{"model":"sandbox-video","prompt":"`+long+`"}}}`)
	if apitest.Reason(err) != string(errcode.BodyTooLarge) {
		t.Errorf("gRPC: %v", err)
	}
	m := w.Call(w.Broker.Names().Call(subject.Video, "acme"), nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}}, []byte(`{"model":"sandbox-video","prompt":"`+long+`"}`))
	if m.Header.Get(subject.HeaderErrorCode) != string(errcode.BodyTooLarge) {
		t.Errorf("NATS: %v", m.Header)
	}
}

// TestCancelledJobsLeaveTheQueue checks that cancelled jobs free the queue for other tenants, even
// if nothing consumes them.
func TestCancelledJobsLeaveTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.AcmeMay(config.TenantLimits{MaxJobs: 3}), func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].MaxQueued = 6
		}
	})
	if _, err := w.Broker.Streams().EnsureConsumer(t.Context(), w.Broker.Names().Work(), jetstream.ConsumerConfig{
		Durable: subject.WorkDurable(subject.Video, config.SandboxVideoRoute), AckPolicy: jetstream.AckExplicitPolicy,
		FilterSubject: w.Broker.Names().WorkRoutePattern(subject.Video, config.SandboxVideoRoute),
	}); err != nil {
		t.Fatal(err)
	}
	for range 58 {
		id := w.CreateVideo(apitest.ByAcme...)
		if a := w.Post("/genbus/v1/videos/"+id+"/cancel", "", apitest.ByAcme...); a.Status != http.StatusOK {
			t.Fatalf("cancel: %d %s", a.Status, a.Body)
		}
		s, err := w.Broker.Stream(t.Context(), w.Broker.Names().Work())
		if err != nil || s.CachedInfo().State.Msgs != 0 {
			t.Fatalf("%d items are left: %v", s.CachedInfo().State.Msgs, err)
		}
	}
	for range 6 {
		w.CreateVideo(apitest.ByGlobex...)
	}
}
