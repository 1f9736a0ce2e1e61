package main

import (
	"io"
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
		resp, _ := post(t, s, job.path, job.body, job.prefer)
		id := resp.Header.Get("Genbus-Job-Id")
		if id == "" {
			t.Fatalf("%s: %s, and no id", route, resp.Status)
		}
		want := `msg="upstream call failed" job_id=` + id + " tenant=default route=" + route + " upstream=up-" + route + " "
		await(t, want, func() bool { return strings.Contains(log.String(), want) })
	}
}

func post(t *testing.T, s *servicetest.Running, path, body, prefer string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.HTTPAddr().String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Prefer", prefer)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}

// TestARefusedKeyIsTheOperatorsProblem checks that callers get a server error of genbus for a key
// that the upstream refuses, and that operators see the failures in the upstream's state.
func TestARefusedKeyIsTheOperatorsProblem(t *testing.T) {
	t.Parallel()
	const operatorKey = "gb_operator-0123456789abcdef"
	s := servicetest.New(t, servicetest.Options{Change: func(c *config.Config) {
		c.OperatorKeys = []config.OperatorKey{{Name: "op", KeyEnv: "OP", Key: config.NewSecret(operatorKey)}}
	}})
	base := "http://" + s.HTTPAddr().String()

	resp, answer := post(t, s, "/v1/chat/completions", `{"model":"sandbox-chat:status=402","messages":[{"role":"user","content":"hello"}]}`, "")
	if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("X-Should-Retry") != "false" ||
		!strings.Contains(answer, `"type":"server_error"`) || !strings.Contains(answer, `"code":"upstream_quota"`) {
		t.Errorf("%s %s", resp.Status, answer)
	}

	resp, answer = post(t, s, "/v1/video/generations", `{"model":"sandbox-video:status=401","prompt":"a cat"}`, "")
	id := resp.Header.Get("Genbus-Job-Id")
	if id == "" {
		t.Fatalf("%s %s", resp.Status, answer)
	}
	await(t, "the video fails", func() bool {
		_, answer = getJSON(t, base+"/v1/video/generations/"+id, "")
		return strings.Contains(answer, `"failed"`)
	})
	if !strings.Contains(answer, "the upstream refused genbus's key, not yours") {
		t.Errorf("the task is %s", answer)
	}
	_, answer = getJSON(t, base+"/genbus/v1/videos/"+id, "")
	if !strings.Contains(answer, `"upstream_key_refused"`) {
		t.Errorf("the task is %s", answer)
	}

	_, answer = getJSON(t, base+"/genbus/v1/operator/upstreams", operatorKey)
	if !strings.Contains(answer, `"calls_failed":"2"`) || !strings.Contains(answer, `"last_error":"status 401`) {
		t.Errorf("the upstreams are %s", answer)
	}
	_, answer = getJSON(t, base+"/genbus/v1/operator/overview", operatorKey)
	if !strings.Contains(answer, `"calls_failed":"2"`) || strings.Contains(answer, `"breakers_not_closed":1`) {
		t.Errorf("the overview is %s", answer)
	}
}
