package main

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/service/servicetest"
)

// TestFailedCallsNameTheirJob proves that the log entry for an unreachable upstream names the job,
// tenant and route, for each ingress.
func TestFailedCallsNameTheirJob(t *testing.T) {
	t.Parallel()
	log := &lockedBuffer{}
	nowhere := "http://" + freeAddr(t)
	s := servicetest.New(t, servicetest.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Change: func(c *config.Config) {
		for _, r := range []config.Route{ // separate upstreams, because each logs at most once a minute
			config.NewRoute("films", config.KindVideo, "up-films", "a-film"),
			config.NewRoute("talks", config.KindChat, "up-talks", "a-talk"),
			config.NewRoute("later", config.KindChat, "up-later", "a-talk-later"),
		} {
			c.Routes = append(c.Routes, r)
			c.Upstreams[r.Upstreams[0].Name] = config.NewUpstream(nowhere)
		}
	}})
	for route, job := range map[string]struct{ path, body, prefer string }{
		"films": {"/v1/video/generations", `{"model":"a-film","prompt":"a cat"}`, ""},
		"talks": {"/v1/chat/completions", `{"model":"a-talk","messages":[{"role":"user","content":"hello"}]}`, ""},
		"later": {"/v1/chat/completions", `{"model":"a-talk-later","messages":[{"role":"user","content":"hello"}]}`, "respond-async"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.HTTPAddr().String()+job.path, strings.NewReader(job.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Prefer", job.prefer)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		id := resp.Header.Get("Genbus-Job-Id")
		if id == "" {
			t.Fatalf("%s: %s, and no id", route, resp.Status)
		}
		want := `msg="upstream call failed" job_id=` + id + " tenant=default route=" + route + " upstream=up-" + route + " "
		await(t, want, func() bool { return strings.Contains(log.String(), want) })
	}
}
