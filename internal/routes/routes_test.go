package routes_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func table(t *testing.T, upstreams config.Upstreams, list ...config.Route) *routes.Table {
	t.Helper()
	cfg := config.Default()
	cfg.Upstreams, cfg.Routes = upstreams, list
	if err := cfg.Prepare(); err != nil {
		t.Fatal(err)
	}
	built, err := routes.New(cfg, telemetry.NewMetrics("v1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(built.Close)
	return built
}

func route(name, protocol string, upstreams ...string) config.Route {
	r := config.NewRoute(name, config.KindVideo, "", name+"*")
	r.Protocol = protocol
	for _, u := range upstreams {
		r.Upstreams = append(r.Upstreams, config.Target{Name: u})
	}
	return r
}

func signed(url string) config.Upstream {
	u := config.NewUpstream(url)
	u.Auth = config.AuthSigned
	u.AccessKey, u.SecretKey = config.NewSecret("access"), config.NewSecret("secret")
	return u
}

// recorder starts an upstream that accepts everything and records the calls.
func recorder(t *testing.T) (url string, calls func() []string) {
	t.Helper()
	seen := make(chan string, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		seen <- r.Method + " " + r.URL.RequestURI() + " " + scheme
		_, _ = w.Write([]byte(`{"id":"1","task_id":"1","code":0,"data":{"task_id":"1","task_status":"submitted"}}`))
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		var all []string
		for len(seen) > 0 {
			all = append(all, <-seen)
		}
		return all
	}
}

// TestWhereEachProtocolIsCalled checks the path, the path prefix and the kind of credentials with
// which each protocol calls a gateway and a vendor.
func TestWhereEachProtocolIsCalled(t *testing.T) {
	t.Parallel()
	url, calls := recorder(t)
	gateway := config.NewUpstream(url)
	gateway.Key = config.NewSecret("sk-1")
	elsewhere := gateway
	elsewhere.VendorPath = "/vendors/k/"
	bare := gateway
	bare.VendorPath = "/"
	versioned := gateway
	versioned.BaseURL += "/v1"
	built := table(
		t, config.Upstreams{"gateway": gateway, "vendor": signed(url), "elsewhere": elsewhere, "bare": bare, "versioned": versioned, "vendor1": signed(url + "/v1")},
		route("p", "primary", "gateway", "versioned"), route("v", "videos", "gateway", "versioned"),
		route("k", "kling", "gateway", "vendor", "elsewhere", "bare", "versioned", "vendor1"), route("j", "jimeng", "gateway", "vendor", "versioned"),
	)
	for _, c := range []struct{ route, upstream, body, want string }{
		{"p", "gateway", `{"model":"m","prompt":"x"}`, "POST /v1/video/generations Bearer"},
		{"v", "gateway", `{"model":"m","prompt":"x"}`, "POST /v1/videos Bearer"},
		{"k", "gateway", `{"model_name":"m","prompt":"x"}`, "POST /kling/v1/videos/text2video Bearer"},
		{"k", "vendor", `{"model_name":"m","prompt":"x","image":"http://h/i.png"}`, "POST /v1/videos/image2video Bearer"},
		{"k", "elsewhere", `{"model_name":"m","prompt":"x"}`, "POST /vendors/k/v1/videos/text2video Bearer"},
		{"k", "bare", `{"model_name":"m","prompt":"x"}`, "POST /v1/videos/text2video Bearer"},
		{"j", "gateway", `{"req_key":"m","prompt":"x"}`, "POST /jimeng/?Action=CVSync2AsyncSubmitTask&Version=2022-08-31 Bearer"},
		{"p", "versioned", `{"model":"m","prompt":"x"}`, "POST /v1/video/generations Bearer"},
		{"v", "versioned", `{"model":"m","prompt":"x"}`, "POST /v1/videos Bearer"},
		{"k", "versioned", `{"model_name":"m","prompt":"x"}`, "POST /kling/v1/videos/text2video Bearer"},
		{"k", "vendor1", `{"model_name":"m","prompt":"x"}`, "POST /v1/videos/text2video Bearer"},
		{"j", "versioned", `{"req_key":"m","prompt":"x"}`, "POST /jimeng/?Action=CVSync2AsyncSubmitTask&Version=2022-08-31 Bearer"},
		{"j", "vendor", `{"req_key":"m","prompt":"x"}`, "POST /?Action=CVSync2AsyncSubmitTask&Version=2022-08-31 HMAC-SHA256"},
	} {
		r, _ := built.Video(c.route)
		client, ok := r.Client(pool.UpstreamKey{Upstream: c.upstream})
		if !ok {
			t.Fatalf("%s has no client for %s", c.route, c.upstream)
		}
		client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(c.body))})
		if diff := cmp.Diff([]string{c.want}, calls()); diff != "" {
			t.Errorf("%s at %s (-want +got):\n%s", c.route, c.upstream, diff)
		}
	}
}

func TestATaskKeepsItsKeyWhileThereIsOne(t *testing.T) {
	t.Parallel()
	two := config.NewUpstream("http://two")
	for _, name := range []string{"a", "b"} {
		two.Keys = append(two.Keys, config.UpstreamKey{Name: name, Key: config.NewSecret("sk-" + name)})
	}
	built := table(t, config.Upstreams{"one": config.NewUpstream("http://one"), "two": two}, route("p", "primary", "one"))
	r, _ := built.Video("p")
	for key, want := range map[pool.UpstreamKey]struct{ create, read bool }{
		{Upstream: "one"}:                 {true, true},
		{Upstream: "two", Key: "b"}:       {true, true},   // no longer on the route
		{Upstream: "one", Key: "renamed"}: {false, true},  // renamed: the upstream has only one key
		{Upstream: "two", Key: "gone"}:    {false, false}, // ambiguous: either key may know the task
		{Upstream: "gone"}:                {false, false},
	} {
		_, create := r.Client(key)
		_, read := built.Client(&genbusv1.VideoTask{Protocol: "primary", Execution: &genbusv1.Execution{
			Route: "p", Upstream: key.Upstream, UpstreamKey: key.Key,
		}})
		if create != want.create || read != want.read || r.HasKey(key) != create {
			t.Errorf("clients for %v: create %v, read %v", key, create, read)
		}
	}
}

// TestPlaceOfAResult checks that a result is read from its URL or else its protocol's content path,
// also if the task's route was removed.
func TestPlaceOfAResult(t *testing.T) {
	t.Parallel()
	private := config.NewUpstream("http://one")
	private.PrivateResults = true
	built := table(t, config.Upstreams{"one": private}, route("v", "videos", "one"), route("p", "primary", "one"))
	task := func(route, protocol, upstream string) *genbusv1.VideoTask {
		return &genbusv1.VideoTask{
			Id: "video_1", Protocol: protocol, UpstreamTaskId: "a/b", Execution: &genbusv1.Execution{Route: route, Upstream: upstream},
		}
	}
	at, err := built.Place(task("v", "videos", "one"), "")
	if err != nil || at.Path != "/v1/videos/a%2Fb/content" || at.URL != "" || !at.PrivateOK || at.Endpoint.BaseURL != "http://one" {
		t.Errorf("by id: %+v, %v", at, err)
	}
	at, err = built.Place(task("renamed", "videos", "one"), "http://cdn/x.mp4")
	if err != nil || at.URL != "http://cdn/x.mp4" || at.Path != "" {
		t.Errorf("by URL: %+v, %v", at, err)
	}
	if _, err = built.Place(task("p", "primary", "gone"), "http://cdn/x.mp4"); errcode.CodeOf(err) != errcode.UpstreamRemoved {
		t.Errorf("without its upstream: %v", err)
	}
}

// TestPlaceOfAStoppedSandbox checks that files of an earlier sandbox are reported as expired, while
// data URLs and files of the running sandbox can be read.
func TestPlaceOfAStoppedSandbox(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	if err := cfg.AddSandbox("http://127.0.0.1:7002"); err != nil {
		t.Fatal(err)
	}
	built, err := routes.New(cfg, telemetry.NewMetrics("v1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(built.Close)
	task := &genbusv1.VideoTask{
		Id: "video_1", Protocol: "primary", UpstreamTaskId: "t", Execution: &genbusv1.Execution{Route: config.SandboxVideoRoute, Upstream: config.SandboxUpstream},
	}
	for url, want := range map[string]errcode.Code{
		"http://127.0.0.1:7001/files/t.mp4": errcode.ContentExpired, "http://127.0.0.1:7001/a.mp4": "", "file:///files/../etc": "", "http://127.0.0.1:7002/files/t.mp4": "", "data:video/mp4;base64,AAAA": "",
	} {
		if _, err := built.Place(task, url); errcode.CodeOf(err) != want {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// TestModelsAreMerged checks that exact names and the upstreams' lists are merged into one entry
// per model and kind.
func TestModelsAreMerged(t *testing.T) {
	t.Parallel()
	list := func(body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		t.Cleanup(server.Close)
		return server.URL
	}
	one := list(`{"object":"list","success":true,"data":[{"id":"pa","object":"model","created":7,"owned_by":"lab","supported_endpoint_types":["x"]},{"id":"other"}]}`)
	two := list(`{"data":[{"id":"pa","created":9},{"id":"pb","owned_by":"studio"}]}`)
	p := route("p", "primary", "one", "two", "dead")
	p.Models, p.Modes, p.Group = []string{"p*", "exact"}, []string{"text_to_video"}, "films"
	chat := config.NewRoute("c", config.KindChat, "two", "c*", "pb")
	built := table(t, config.Upstreams{
		"one": config.NewUpstream(one), "two": config.NewUpstream(two), "dead": config.NewUpstream("http://127.0.0.1:1"),
	}, p, chat)
	var got []string
	for _, m := range built.Models(t.Context(), "") {
		got = append(got, strings.Join([]string{m.GetId(), m.GetKind(), m.GetOwnedBy(), m.GetGroup(), m.GetProtocol(), strings.Join(m.GetModes(), "+"), string(m.GetExtraJson())}, " "))
	}
	want := []string{
		`exact video one films primary text_to_video `,
		`pa video lab films primary text_to_video {"supported_endpoint_types":["x"]}`,
		`pb chat studio chat   {}`,
		`pb video studio films primary text_to_video {}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
	if n := len(built.Models(t.Context(), "chat")); n != 1 {
		t.Errorf("%d chat models", n)
	}
}

func TestWhatCannotBeSignedIsRefused(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]config.Route{
		"primary has no signature": route("p", "primary", "vendor"),
		"chats have none":          config.NewRoute("c", config.KindChat, "vendor", "*"),
	} {
		cfg := config.Default()
		cfg.Upstreams, cfg.Routes = config.Upstreams{"vendor": signed("http://vendor")}, []config.Route{r}
		// Prepare rejects this too, but still fills in the defaults.
		if err := cfg.Prepare(); err == nil || !strings.Contains(err.Error(), "auth: signed") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := routes.New(cfg, telemetry.NewMetrics("v1"), nil); err == nil || !strings.Contains(err.Error(), "vendor") || !strings.Contains(err.Error(), "signed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestConnectionsOfAnUpstream checks that creates reuse connections only if configured to, and that
// polls reuse them unless max_idle_conns is 0.
func TestConnectionsOfAnUpstream(t *testing.T) {
	t.Parallel()
	const calls = 3
	for name, c := range map[string]struct {
		set            func(*config.Upstream)
		creates, polls int64
	}{
		"by default":   {func(*config.Upstream) {}, calls, 1},
		"reuse":        {func(u *config.Upstream) { u.ReuseConnectionsForCreates = true }, 1, 0}, // polls reuse the connection of the creates
		"nothing idle": {func(u *config.Upstream) { u.MaxIdleConns = 0 }, calls, calls},
	} {
		var conns atomic.Int64
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, `{"id":"1","task_id":"1","status":"queued"}`)
		}))
		server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				conns.Add(1)
			}
		}
		server.Start()
		t.Cleanup(server.Close)
		u := config.NewUpstream(server.URL)
		c.set(&u)
		r, _ := table(t, config.Upstreams{"u": u}, route("p", "primary", "u")).Video("p")
		client, _ := r.Client(pool.UpstreamKey{Upstream: "u"})
		for range calls {
			if s := client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"model":"m","prompt":"x"}`))}); s.Verdict != upstream.Accepted {
				t.Fatalf("%s: %v", name, s.Err)
			}
		}
		if n := conns.Swap(0); n != c.creates {
			t.Errorf("%s: %d creates made %d connections, want %d", name, calls, n, c.creates)
		}
		for range calls {
			if _, err := client.Poll(t.Context(), upstream.TaskRef{ID: "1"}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if n := conns.Load(); n != c.polls {
			t.Errorf("%s: %d polls made %d connections, want %d", name, calls, n, c.polls)
		}
	}
}
