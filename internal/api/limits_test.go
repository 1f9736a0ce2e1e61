package api_test

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

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
)

// acmeMay limits acme; globex has no limits.
func acmeMay(l config.TenantLimits) func(*config.Config) {
	return func(c *config.Config) {
		twoTenants(c)
		c.Tenants = config.Tenants{"acme": config.TenantOverride(l)}
	}
}

var byAcme, byGlobex = []string{"Authorization", "Bearer key-acme"}, []string{"Authorization", "Bearer key-globex"}

// way sends one request of acme, and gives the code with which it was refused, or
// nothing.
type way func(w *world) fault.Code

// ways are all ways in that are refused at once; the inbox waits.
func (w *world) ways() map[string]way {
	c := caller{t: w.t, conn: w.dial()}
	byHTTP := func(method, path, body string) way {
		return func(w *world) fault.Code {
			a := w.do(method, path, body, byAcme...)
			if a.status == http.StatusTooManyRequests {
				if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds < 1 {
					w.t.Errorf("%s: Retry-After is %q", path, a.header.Get("Retry-After"))
				}
			}
			return fault.Code(a.header.Get("Genbus-Error-Code"))
		}
	}
	return map[string]way{
		"HTTP":         byHTTP(http.MethodGet, "/v1/models", ""),
		"the gateway":  byHTTP(http.MethodGet, "/genbus/v1/videos", ""),
		"Kling":        byHTTP(http.MethodGet, klingText, ""),
		"Jimeng":       byHTTP(http.MethodPost, jimengSubmit, jimengBody),
		"a job":        byHTTP(http.MethodPost, "/v1/videos", videosBody),
		"no such path": byHTTP(http.MethodGet, "/v1/videos/video_none/content", ""),
		"gRPC": func(w *world) fault.Code {
			_, err := c.call("key-acme", "/genbus.v1.ModelService/ListModels", `{}`)
			if err != nil && retryInfo(err) == nil {
				w.t.Errorf("no advice when to come back: %v", err)
			}
			return fault.Code(reason(err))
		},
		"a gRPC stream": func(*world) fault.Code {
			_, err := c.call("key-acme", "/genbus.v1.VideoService/WatchVideoTask", `{"id":"video_none"}`)
			return fault.Code(reason(err))
		},
		"NATS": func(w *world) fault.Code {
			m := w.call(w.broker.Names().Call(subject.Video, "acme"), nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}}, []byte(videoBody))
			code := fault.Code(m.Header.Get(subject.HeaderErrorCode))
			if after := m.Header.Get(subject.HeaderRetryAfter); (code == fault.RateLimited) != (after != "" && after != "0") {
				w.t.Errorf("%s by NATS: Retry-After is %q", code, after)
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

// TestRequestsOfATenantAreLimited, all ways in together, and each request counts
// once.
func TestRequestsOfATenantAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, acmeMay(config.TenantLimits{RequestsPerSecond: 0.001, Burst: 9}))
	w.calls()
	ways := w.ways()
	if len(ways) != 9 {
		t.Fatalf("%d ways, and a burst of 9", len(ways))
	}
	for name, send := range ways {
		if code := send(w); code == fault.RateLimited {
			t.Errorf("%s is refused before the burst is used", name)
		}
	}
	for name, send := range ways {
		if code := send(w); code != fault.RateLimited {
			t.Errorf("%s beyond the burst: %q", name, code)
		}
	}
	if a := w.get("/v1/models", byAcme...); a.status != http.StatusTooManyRequests || a.errorCode(t) != string(fault.RateLimited) {
		t.Errorf("HTTP: %d %s", a.status, a.body)
	}
	for range 20 {
		if a := w.get("/v1/models", byGlobex...); a.status != http.StatusOK {
			t.Fatalf("another tenant: %d %s", a.status, a.body)
		}
	}
	for _, path := range []string{"/healthz", "/metrics"} {
		if a := w.get(path); a.status != http.StatusOK {
			t.Errorf("%s: %d", path, a.status)
		}
	}
}

// TestNoBodyIsReadBeyondTheRate: who asks too often is told so before the body is
// there.
func TestNoBodyIsReadBeyondTheRate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, acmeMay(config.TenantLimits{RequestsPerSecond: 0.001, Burst: 1}))
	w.get("/v1/models", byAcme...)
	for _, path := range []string{"/v1/videos", "/v1/chat/completions", klingText, jimengSubmit, "/genbus/v1/videos"} {
		if a := w.begun(path, byAcme...); a.status != http.StatusTooManyRequests {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// TestJobsOfATenantAreLimited: new jobs are refused while there are too many, by
// every way, and one that was accepted is attached to all the same.
func TestJobsOfATenantAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, acmeMay(config.TenantLimits{MaxJobs: 3}))
	w.calls()
	id := w.createVideo(append(byAcme, "Idempotency-Key", "first")...)
	w.createVideo(byAcme...)
	if a := w.post("/v1/chat/completions", talkBody("hi"), append(byAcme, "Prefer", "respond-async", "Idempotency-Key", "talk")...); a.status != http.StatusAccepted {
		t.Fatalf("a third job: %d %s", a.status, a.body)
	}
	c := caller{t: t, conn: w.dial()}
	refused := func(name string, a answer) {
		t.Helper()
		if a.status != http.StatusTooManyRequests || a.header.Get("Genbus-Error-Code") != string(fault.TenantFull) || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v %s", name, a.status, a.header, a.body)
		}
	}
	refused("a video", w.post("/v1/videos", videosBody, byAcme...))
	refused("a queued chat", w.post("/v1/chat/completions", talkBody("hi"), append(byAcme, "Prefer", "respond-async")...))
	refused("an inline chat", w.post("/v1/chat/completions", talkBody("hi"), byAcme...))
	refused("an inline stream", w.post("/v1/chat/completions", `{"stream":true,`+talkBody("hi")[1:], byAcme...))
	refused("Kling", w.post(klingText, klingBody, byAcme...))
	_, err := c.call("key-acme", "/genbus.v1.VideoService/CreateVideoTask", `{"request":{"video":{"model":"sandbox-video","prompt":"p"}}}`)
	checkStatus(t, err, codes.ResourceExhausted, fault.TenantFull)
	m := w.call(w.broker.Names().Call(subject.Video, "acme"), nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}}, []byte(videoBody))
	if m.Header.Get(subject.HeaderErrorCode) != string(fault.TenantFull) {
		t.Errorf("NATS: %v", m.Header)
	}
	if again := w.createVideo(append(byAcme, "Idempotency-Key", "first")...); again != id {
		t.Errorf("the same request is job %s, and was %s", again, id)
	}
	for range 5 {
		w.createVideo(byGlobex...)
	}
	w.endVideo(w.startVideo("acme", id))
	w.await("a place", func() bool { return w.post("/v1/videos", videosBody, byAcme...).status == http.StatusOK })
	refused("full again", w.post("/v1/videos", videosBody, byAcme...))
}

// TestInlineChatsTakePlacesWhileTheyRun, and a queued job of the same tenant sees
// them.
func TestInlineChatsTakePlacesWhileTheyRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, acmeMay(config.TenantLimits{MaxJobs: 1}))
	open := w.open(w.request(http.MethodPost, "/v1/chat/completions",
		`{"stream":true,"model":"sandbox-chat:chunks=100000","messages":[{"role":"user","content":"hi"}]}`, byAcme...))
	open.next()
	if a := w.post("/v1/videos", videosBody, byAcme...); a.header.Get("Genbus-Error-Code") != string(fault.TenantFull) {
		t.Errorf("beside an inline chat: %d %s", a.status, a.body)
	}
	if err := open.res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	w.await("its place", func() bool { return w.post("/v1/videos", videosBody, byAcme...).status == http.StatusOK })
}

// TestPlacesAtOnce: of many requests at once no more are accepted than there
// are places, and those with one name are one job.
func TestPlacesAtOnce(t *testing.T) {
	t.Parallel()
	const most, tries = 5, 40
	w := newWorld(t, acmeMay(config.TenantLimits{MaxJobs: most}))
	answers := make(chan answer, tries)
	for i := range tries {
		go func() {
			answers <- w.post("/v1/videos", videosBody, append(byAcme, "Idempotency-Key", fmt.Sprintf("order-%d", i%(tries/2)))...)
		}()
	}
	accepted := map[string]bool{}
	for range tries {
		switch a := <-answers; a.header.Get("Genbus-Error-Code") {
		case "":
			accepted[a.header.Get("Genbus-Job-Id")] = true
		case string(fault.TenantFull):
		default:
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	if len(accepted) > most || len(accepted) == 0 {
		t.Errorf("%d jobs were accepted, and there are %d places", len(accepted), most)
	}
}

// TestBodiesOfATenantAreLimited by every way in.
func TestBodiesOfATenantAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, acmeMay(config.TenantLimits{MaxBodyBytes: 2 * config.KiB}))
	w.calls()
	long := strings.Repeat("x", 3<<10)
	c := caller{t: t, conn: w.dial()}
	for path, body := range map[string]string{
		"/v1/video/generations": `{"model":"sandbox-video","prompt":"` + long + `"}`,
		"/v1/videos":            `{"model":"sandbox-videos","prompt":"` + long + `"}`,
		"/v1/chat/completions":  talkBody(long),
		"/genbus/v1/videos":     `{"video":{"model":"sandbox-video","prompt":"` + long + `"}}`,
		klingText:               `{"model_name":"sandbox-kling","prompt":"` + long + `"}`,
		jimengSubmit:            `{"req_key":"sandbox-jimeng","prompt":"` + long + `"}`,
	} {
		a := w.post(path, body, byAcme...)
		if a.header.Get("Genbus-Error-Code") != string(fault.BodyTooLarge) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if a := w.post(path, body, byGlobex...); a.status != http.StatusOK {
			t.Errorf("%s of another tenant: %d %s", path, a.status, a.body)
		}
	}
	form := "--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsandbox-videos\r\n--x\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\n" + long + "\r\n--x--\r\n"
	if a := w.post("/v1/videos", form, append(byAcme, "Content-Type", "multipart/form-data; boundary=x")...); a.errorCode(t) != string(fault.BodyTooLarge) {
		t.Errorf("a form: %d %s", a.status, a.body)
	}
	_, err := c.call("key-acme", "/genbus.v1.VideoService/CreateVideoTask", `{"request":{"video":{"model":"sandbox-video","prompt":"`+long+`"}}}`)
	if reason(err) != string(fault.BodyTooLarge) {
		t.Errorf("gRPC: %v", err)
	}
	m := w.call(w.broker.Names().Call(subject.Video, "acme"), nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}}, []byte(`{"model":"sandbox-video","prompt":"`+long+`"}`))
	if m.Header.Get(subject.HeaderErrorCode) != string(fault.BodyTooLarge) {
		t.Errorf("NATS: %v", m.Header)
	}
}

// TestCancelledJobsLeaveTheQueue: a tenant that may have 3 unfinished jobs cancels 58, one
// after the other, while nothing takes them. They keep no room from another tenant.
func TestCancelledJobsLeaveTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, acmeMay(config.TenantLimits{MaxJobs: 3}), func(c *config.Config) {
		for i := range c.Routes {
			c.Routes[i].MaxQueued = 6
		}
	})
	if _, err := w.broker.EnsureConsumer(t.Context(), w.broker.Names().Work(), jetstream.ConsumerConfig{
		Durable: subject.WorkDurable(subject.Video, config.SandboxVideoRoute), AckPolicy: jetstream.AckExplicitPolicy,
		FilterSubject: w.broker.Names().WorkRoutePattern(subject.Video, config.SandboxVideoRoute),
	}); err != nil {
		t.Fatal(err)
	}
	for range 58 {
		id := w.createVideo(byAcme...)
		if a := w.post("/genbus/v1/videos/"+id+"/cancel", "", byAcme...); a.status != http.StatusOK {
			t.Fatalf("cancel: %d %s", a.status, a.body)
		}
		s, err := w.broker.Stream(t.Context(), w.broker.Names().Work())
		if err != nil || s.CachedInfo().State.Msgs != 0 {
			t.Fatalf("%d items are left: %v", s.CachedInfo().State.Msgs, err)
		}
	}
	for range 6 {
		w.createVideo(byGlobex...)
	}
}
