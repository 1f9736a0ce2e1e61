package sandbox_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/sandbox"
)

// creates are valid creates of every protocol.
var creates = []struct{ model, path, body string }{
	{"sandbox-video", "/v1/video/generations", `{"model":"sandbox-video","prompt":"p"}`},
	{"sandbox-videos", "/v1/videos", `{"model":"sandbox-videos","prompt":"p"}`},
	{"sandbox-kling-v1", "/kling/v1/videos/text2video", `{"model_name":"sandbox-kling-v1","prompt":"p"}`},
	{"sandbox_jimeng_t2v", "/jimeng/" + submitQuery, `{"req_key":"sandbox_jimeng_t2v","prompt":"p"}`},
	{"sandbox-chat-fast", "/v1/chat/completions", `{"model":"sandbox-chat-fast","messages":[{"role":"user","content":"hi"}]}`},
}

func TestCreatesPerAuthorization(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	const body = `{"req_key":"sandbox_jimeng_t2v","prompt":"p"}`
	for _, c := range creates[:4] {
		b.do(t, http.MethodPost, c.path, c.body, "Authorization", "Bearer sk-1")
		b.do(t, http.MethodPost, c.path, c.body)
	}
	b.create(t, creates[0].body, "Authorization", "Bearer sk-2")
	// Tokens and signatures of one access key count as one account.
	b.do(t, http.MethodPost, creates[2].path, creates[2].body, "Authorization", jwt("ak-1", "x", time.Minute, 0))
	b.do(t, http.MethodPost, creates[2].path, creates[2].body, "Authorization", jwt("ak-1", "x", time.Hour, 0))
	b.do(t, http.MethodPost, "/jimeng/"+submitQuery, body, sign(b, "ak-1", "x", "/jimeng/", submitQuery, body, time.Now())...)
	stats := b.Sandbox.Stats()
	want := map[string]int{sandbox.Fingerprint("sk-1"): 4, sandbox.Fingerprint("sk-2"): 1, sandbox.Fingerprint("ak-1"): 3}
	if diff := cmp.Diff(want, stats.CreatesPerAuthorization); diff != "" {
		t.Errorf("creates per authorization (-want +got):\n%s", diff)
	}
	perProtocol := map[string]int{"primary": 3, "videos": 2, "kling": 4, "jimeng": 3}
	if diff := cmp.Diff(perProtocol, stats.CreatesPerProtocol); diff != "" {
		t.Errorf("creates per protocol (-want +got):\n%s", diff)
	}
	answer := string(b.do(t, http.MethodGet, "/stats", "").body)
	if !strings.Contains(answer, `"creates_per_authorization":{`) || strings.Contains(answer, "sk-1") || strings.Contains(answer, "ak-1") {
		t.Errorf("stats: %s", answer)
	}
	if answer := string(b.do(t, http.MethodGet, "/stats?keys=0", "").body); strings.Contains(answer, "per_authorization") {
		t.Errorf("stats without keys: %s", answer)
	}
}

// TestOneLedger proves that an Idempotency-Key names one task across all protocols.
func TestOneLedger(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for _, c := range creates[:4] {
		if a := b.do(t, http.MethodPost, c.path, c.body, "Idempotency-Key", "k"); a.status != 200 {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
	}
	if stats := b.Sandbox.Stats(); stats.Tasks != 1 || stats.MaxAcceptsPerKey != 4 || stats.CreatesPerKey["k"] != 4 {
		t.Errorf("stats: %+v", stats)
	}
	for _, c := range creates[1:4] {
		if a := b.do(t, http.MethodPost, c.path, c.body, "Idempotency-Key", strings.Repeat("k", 256)); a.status != 400 {
			t.Errorf("%s with a long key: %d %s", c.path, a.status, a.body)
		}
	}
}

// TestGatewayPaths proves that the gateway paths find the tasks of every protocol and answer in the
// gateway's words.
func TestGatewayPaths(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	ids := []string{
		b.createVideos(t, `{"model":"sandbox-videos:duration_ms=0,fail=x","prompt":"p"}`),
		b.createKling(t, "/v1/videos/text2video", `{"model_name":"sandbox-kling:duration_ms=0,fail=x","prompt":"p"}`),
		b.submit(t, `{"req_key":"sandbox-jimeng:duration_ms=0,fail=x","prompt":"p"}`),
		idOf(t, b.create(t, `{"model":"sandbox-video:duration_ms=0,fail=x","prompt":"p"}`)),
	}
	for _, id := range ids {
		if v := b.poll(t, id).json(t); v["status"] != "failed" || v["task_id"] != id {
			t.Errorf("on the primary path: %v", v)
		}
		if v := b.do(t, http.MethodGet, "/v1/videos/"+id, "").json(t); v["status"] != "failed" || at(v, "error", "message") != "x" {
			t.Errorf("on the compatible path: %v", v)
		}
	}
}

func TestAnswersWithoutAnID(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for _, c := range creates[:4] {
		a := b.do(t, http.MethodPost, c.path, c.body, "X-Sandbox", `{"no_id":true}`)
		if v := a.json(t); a.status != 200 || v["id"] != nil || at(v, "data", "task_id") != nil {
			t.Errorf("%s: %d %s", c.path, a.status, a.body)
		}
	}
	if n := b.Sandbox.Stats().Tasks; n != 4 {
		t.Errorf("%d tasks, want one for each protocol", n)
	}
}
