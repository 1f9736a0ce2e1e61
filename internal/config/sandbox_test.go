package config

import (
	"strings"
	"testing"
	"time"
)

func TestAddSandboxToNothing(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, "")
	if err := c.AddSandbox("http://127.0.0.1:9"); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{KindVideo: SandboxVideoRoute, KindChat: SandboxChatRoute} {
		route, ok := c.Route(kind, "sandbox-"+kind+":status=429")
		if !ok || route.Name != want || route.Upstream != SandboxUpstream {
			t.Errorf("%s goes to %q, %v", kind, route.Name, ok)
		}
		if _, ok := c.Route(kind, "gpt-5"); ok {
			t.Errorf("another %s model goes to the sandbox", kind)
		}
	}
	if video, _ := c.Route(KindVideo, "sandbox-video"); video.Poll.Interval != 250*time.Millisecond {
		t.Errorf("polled every %v", video.Poll.Interval)
	}
	if !c.Sandbox.Enabled || c.Upstreams[SandboxUpstream].BaseURL != "http://127.0.0.1:9" {
		t.Errorf("sandbox %+v, upstreams %v", c.Sandbox, c.Upstreams)
	}
}

func TestAddSandboxBesideAnUpstream(t *testing.T) {
	t.Parallel()
	loaded := mustLoad(t, "", "GENBUS_UPSTREAM_URL=http://h")
	unprepared := Default()
	unprepared.Upstreams = Upstreams{"default": NewUpstream("http://h")}
	for _, c := range []*Config{loaded, unprepared} {
		if err := c.AddSandbox("http://127.0.0.1:9"); err != nil {
			t.Fatal(err)
		}
		for model, want := range map[string]string{"sandbox-video": SandboxVideoRoute, "wan-2": "video"} {
			if route, _ := c.Route(KindVideo, model); route.Name != want {
				t.Errorf("%s goes to %q, want %q", model, route.Name, want)
			}
		}
	}
}

func TestAddSandboxChangesNothingOnAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"upstreams: {sandbox: {base_url: http://h}}",
		"upstreams: {u: {base_url: http://h}}\nroutes: [{name: sandbox-chat, kind: chat, upstream: u, models: [m]}]",
		"upstreams: {u: {base_url: http://h}}\nroutes: [{name: r, kind: video, upstream: u, models: ['sandbox-video*']}]",
	} {
		c, want := mustLoad(t, text), mustLoad(t, text)
		err := c.AddSandbox("http://127.0.0.1:9")
		if err == nil || !strings.Contains(err.Error(), "; want ") {
			t.Errorf("err = %v", err)
		}
		if d := diff(want, c); d != "" {
			t.Error(d)
		}
		if _, ok := c.Route(KindChat, "sandbox-chat-x"); ok && !strings.Contains(text, "upstreams: {sandbox") {
			t.Error("the look-up has changed")
		}
	}
}
