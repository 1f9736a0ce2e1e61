package routes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
)

// TestAddressesOfVendors checks that the configuration accepts each address in
// testdata/addresses.txt, and where genbus then calls it.
func TestAddressesOfVendors(t *testing.T) {
	t.Parallel()
	corpus, err := os.ReadFile("testdata/addresses.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(corpus)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if n++; len(fields) < 4 {
			t.Errorf("%q has no source", line)
			continue
		}
		cfg, err := config.Load(config.Source{File: written(t, fields[0], fields[1])})
		if err != nil {
			t.Errorf("%s: %v", fields[0], err)
			continue
		}
		built, err := routes.New(cfg, telemetry.NewMetrics("v1"), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(built.Close)
		want := []routes.Call{{Route: "c", Upstream: "u", Request: "POST " + fields[2]}}
		if diff := cmp.Diff(want, built.Calls()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", fields[0], diff)
		}
	}
	if n < 30 {
		t.Errorf("only %d addresses", n)
	}
}

// written writes a configuration with one upstream.
func written(t *testing.T, baseURL, versionPath string) (file string) {
	t.Helper()
	text := "upstreams:\n  u:\n    base_url: " + baseURL + "\n"
	if versionPath != "-" {
		text += "    version_path: " + versionPath + "\n"
	}
	file = filepath.Join(t.TempDir(), "genbus.yaml")
	if err := os.WriteFile(file, []byte(text+"routes: [{name: c, kind: chat, upstream: u, models: ['*']}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestEveryCallHasTheVersionOfTheUpstream checks all calls of an upstream whose base URL has a
// version, and of one that has none at all.
func TestEveryCallHasTheVersionOfTheUpstream(t *testing.T) {
	t.Parallel()
	url, calls := recorder(t)
	bare := config.NewUpstream(url + "/llm")
	bare.VersionPath = "/"
	for name, u := range map[string]config.Upstream{"/api/v3": config.NewUpstream(url + "/api/v3/"), "/llm": bare} {
		built := table(t, config.Upstreams{"u": u}, route("p", "primary", "u"), route("v", "videos", "u"), config.NewRoute("c", config.KindChat, "u", "*"))
		for _, protocol := range []string{"p", "v"} {
			r, _ := built.Video(protocol)
			client, _ := r.Client(pool.UpstreamKey{Upstream: "u"})
			client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"model":"m","prompt":"x"}`))})
			_, _ = client.Poll(t.Context(), upstream.TaskRef{ID: "1"})
		}
		chats, _ := built.Chat("c")
		_, _ = chats.Caller.Complete(t.Context(), pool.ChatRequest{Model: "m", Body: body.Parse([]byte(`{"model":"m","messages":[]}`))})
		built.Models(t.Context(), "")
		place, err := built.Place(&genbusv1.VideoTask{Protocol: "videos", UpstreamTaskId: "1", Execution: &genbusv1.Execution{Route: "v", Upstream: "u"}}, "")
		if err != nil {
			t.Fatal(err)
		}
		got := append(calls(), "GET "+strings.TrimPrefix(place.Endpoint.URL(place.Path), url)+" ")
		want := []string{
			"POST " + name + "/video/generations ", "GET " + name + "/video/generations/1 ", "POST " + name + "/videos ", "GET " + name + "/videos/1 ",
			"POST " + name + "/chat/completions ", "GET " + name + "/models ", "GET " + name + "/videos/1/content ",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
}
