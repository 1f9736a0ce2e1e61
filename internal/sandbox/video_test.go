package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/sandbox"
)

func TestFlatLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupInBubble(sandbox.Options{VideoDuration: time.Second})
		a := b.create(t, `{"model":"sandbox-video","prompt":"a cat","duration":4.5,"width":640,"height":"360","fps":24,"seed":7}`)
		created := a.json(t)
		if a.status != http.StatusOK || created["status"] != "queued" || created["object"] != "video" ||
			created["model"] != "sandbox-video" || created["progress"] != 0.0 || created["id"] != created["task_id"] {
			t.Fatalf("create answered %d %s", a.status, a.body)
		}
		if !regexp.MustCompile(`^task_[0-9A-Za-z]{32}$`).MatchString(idOf(t, a)) {
			t.Errorf("id %v, want task_ and 32 letters or digits", created["id"])
		}
		var words []string
		progress := -1.0
		for ; len(words) == 0 || words[len(words)-1] != "completed"; <-time.After(pollEvery) {
			v := b.poll(t, idOf(t, a)).json(t)
			word, _ := v["status"].(string)
			if len(words) == 0 || words[len(words)-1] != word {
				words = append(words, word)
			}
			if now := v["progress"].(float64); now < progress || (now == 100) != (word == "completed") {
				t.Fatalf("progress %v after %v while %s", now, progress, word)
			} else {
				progress = now
			}
			if word != "completed" && v["url"] != nil {
				t.Fatalf("a url while %s", word)
			}
		}
		if diff := cmp.Diff([]string{"queued", "in_progress", "completed"}, words); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
		got := b.poll(t, idOf(t, a)).json(t)
		want := map[string]any{"duration": 4.5, "fps": 24.0, "width": 640.0, "height": 360.0, "seed": 7.0}
		if diff := cmp.Diff(want, got["metadata"]); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
		if got["url"] != b.URL()+"/files/"+idOf(t, a)+".mp4" || got["format"] != "mp4" || got["error"] != nil {
			t.Errorf("completed: %v", got)
		}
	})
}

func TestEnvelopedLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupInBubble(sandbox.Options{VideoDuration: time.Second})
		id := idOf(t, b.create(t, `{"model":"sandbox-video-enveloped","prompt":"a cat","image":"https://x.example/i.png","n":2}`))
		running := b.until(t, id, envelopeStatus, "IN_PROGRESS")
		if p, _ := at(running, "data", "progress").(string); !regexp.MustCompile(`^\d\d?%$`).MatchString(p) {
			t.Errorf("progress %q, want a percent string", p)
		}
		done := b.until(t, id, envelopeStatus, "SUCCESS")
		first := b.URL() + "/files/" + id + ".mp4"
		for _, c := range []struct{ got, want any }{
			{at(done, "code"), "success"},
			{at(done, "data", "task_id"), id},
			{at(done, "data", "id"), 1.0},
			{at(done, "data", "progress"), "100%"},
			{at(done, "data", "fail_reason"), ""},
			{at(done, "data", "result_url"), first},
			{at(done, "data", "action"), "generate"},
			{at(done, "data", "properties", "origin_model_name"), "sandbox-video-enveloped"},
			{at(done, "data", "data", "data", "task_result", "videos", 0, "url"), first},
			{at(done, "data", "data", "data", "task_result", "videos", 1, "url"), strings.Replace(first, ".mp4", ".2.mp4", 1)},
		} {
			if c.got != c.want {
				t.Errorf("got %v, want %v", c.got, c.want)
			}
		}
	})
}

func TestFailedTasks(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	id := idOf(t, b.create(t, `{"model":"sandbox-video","prompt":"p","metadata":{"sandbox":{"duration_ms":0,"fail":"text \"risk\" 风险","fail_code":"50413"}}}`))
	got := b.until(t, id, flatStatus, "failed")
	want := map[string]any{"code": 50413.0, "message": `text "risk" 风险`}
	if diff := cmp.Diff(want, got["error"]); diff != "" {
		t.Errorf("flat error (-want +got):\n%s", diff)
	}
	id = idOf(t, b.create(t, `{"model":"sandbox-video-enveloped:duration_ms=0,fail=Post Text Risk","prompt":"p"}`))
	got = b.until(t, id, envelopeStatus, "FAILURE")
	if at(got, "data", "fail_reason") != "Post Text Risk" || at(got, "data", "result_url") != "Post Text Risk" ||
		at(got, "data", "data", "code") != "generation_failed" {
		t.Errorf("enveloped failure: %v", got)
	}
	a := b.do(t, http.MethodGet, "/v1/videos/"+id+"/content", "")
	if a.status != http.StatusBadRequest {
		t.Errorf("content of a failed task: %d, want 400", a.status)
	}
}

func TestSeveralVideos(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	id := idOf(t, b.create(t, `{"model":"sandbox-video:duration_ms=0","prompt":"p","n":3}`))
	v := b.poll(t, id).json(t)
	videos, _ := v["videos"].([]any)
	if len(videos) != 3 || at(videos[0], "url") != v["url"] {
		t.Fatalf("videos: %v", v)
	}
	for _, video := range videos {
		url, _ := at(video, "url").(string)
		if a := b.do(t, http.MethodGet, strings.TrimPrefix(url, b.URL()), ""); a.status != http.StatusOK {
			t.Errorf("%s: %d, want 200", url, a.status)
		}
	}
	for _, name := range []string{id + ".4.mp4", id + ".1.mp4", id + ".02.mp4", id + ".mov", "task_none.mp4"} {
		if a := b.do(t, http.MethodGet, "/files/"+name, ""); a.status != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", name, a.status)
		}
	}
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setupInBubble(sandbox.Options{})
		id := idOf(t, b.create(t, `{"model":"sandbox-video","prompt":"p","metadata":"{\"sandbox\":{\"duration_ms\":900,\"statuses\":[\"NOT_START\",\"weird_word\",\"SUCCESS\"]}}"}`))
		var words []any
		for ; len(words) == 0 || words[len(words)-1] != "SUCCESS"; <-time.After(pollEvery) {
			if word := b.poll(t, id).json(t)["status"]; len(words) == 0 || words[len(words)-1] != word {
				words = append(words, word)
			}
		}
		if diff := cmp.Diff([]any{"NOT_START", "weird_word", "SUCCESS"}, words); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
		// A task whose last word is unknown never ends.
		id = idOf(t, b.create(t, `{"model":"sandbox-video:duration_ms=0,statuses=queued|pondering","prompt":"p"}`))
		if v := b.poll(t, id).json(t); v["status"] != "pondering" || v["url"] != nil || v["progress"] != 99.0 {
			t.Errorf("unending task: %v", v)
		}
	})
}

func TestPollFaults(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	id := idOf(t, b.create(t, `{"model":"sandbox-video:duration_ms=0,poll_status=502,poll_fail_times=2","prompt":"p"}`))
	for i, want := range []int{502, 502, 200, 200} {
		if a := b.poll(t, id); a.status != want {
			t.Errorf("poll %d: %d, want %d", i, a.status, want)
		}
	}
	id = idOf(t, b.create(t, `{"model":"sandbox-video:poll_status=400,poll_code=task_not_exist","prompt":"p"}`))
	for range 3 {
		if a := b.poll(t, id); a.status != 400 || a.json(t)["code"] != "task_not_exist" {
			t.Errorf("poll: %d %s", a.status, a.body)
		}
	}
	id = idOf(t, b.create(t, `{"model":"sandbox-video:poll_delay_ms=60","prompt":"p"}`))
	before := time.Now()
	b.poll(t, id)
	if took := time.Since(before); took < 60*time.Millisecond {
		t.Errorf("poll took %v, want at least 60ms", took)
	}
}

func TestVideoRefusals(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for _, c := range []struct {
		name, body string
		status     int
		nested     bool
		code       string
	}{
		{"no prompt", `{"model":"sandbox-video"}`, 400, false, "invalid_request"},
		{"no model", `{"prompt":"p"}`, 400, true, ""},
		{"unknown model", `{"model":"kling-v1","prompt":"p"}`, 503, true, "model_not_found"},
		{"chat model", `{"model":"sandbox-chat","prompt":"p"}`, 503, true, "model_not_found"},
		{"not JSON", `{"model":`, 400, false, "invalid_request"},
		{"n too large", `{"model":"sandbox-video","prompt":"p","n":11}`, 400, false, "invalid_request"},
		{"n not integer", `{"model":"sandbox-video","prompt":"p","n":1.5}`, 400, false, "invalid_request"},
		{"duration of nothing", `{"model":"sandbox-video","prompt":"p","duration":0}`, 400, false, "invalid_request"},
		{"misspelt fault", `{"model":"sandbox-video:statu=429","prompt":"p"}`, 400, false, "invalid_request"},
		{"odd drop", `{"model":"sandbox-video:drop=sometimes","prompt":"p"}`, 400, false, "invalid_request"},
		{"odd status", `{"model":"sandbox-video:status=99","prompt":"p"}`, 400, false, "invalid_request"},
		{"negative delay", `{"model":"sandbox-video:delay_ms=-1","prompt":"p"}`, 400, false, "invalid_request"},
		{"nothing to count by", `{"model":"sandbox-video:status=429,times=1","prompt":"p"}`, 400, false, "invalid_request"},
	} {
		a := b.create(t, c.body)
		v := a.json(t)
		code := v["code"]
		if c.nested {
			code = at(v, "error", "code")
		}
		if a.status != c.status || code != c.code {
			t.Errorf("%s: %d %s, want %d with code %q", c.name, a.status, a.body, c.status, c.code)
		}
	}
	if a := b.poll(t, "task_unknown"); a.status != 400 || string(a.body) != `{"code":"task_not_exist","message":"task_not_exist","data":null}` {
		t.Errorf("unknown task: %d %s", a.status, a.body)
	}
	if a := b.do(t, http.MethodGet, "/v1/videos/task_unknown/content", ""); a.status != 404 {
		t.Errorf("unknown content: %d, want 404", a.status)
	}
	if a := b.do(t, http.MethodDelete, "/v1/x", ""); a.status != 404 || at(a.json(t), "error", "message") != "Invalid URL (DELETE /v1/x)" {
		t.Errorf("unknown path: %d %s", a.status, a.body)
	}
	if n := b.Sandbox.Stats().Tasks; n != 0 {
		t.Errorf("%d tasks after refusals only", n)
	}
	idOf(t, b.create(t, `{"model":"sandbox-video","image":"https://x.example/i.png"}`)) // an image needs no prompt
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	for _, repeat := range []bool{false, true} {
		t.Run(fmt.Sprintf("repeat=%v", repeat), func(t *testing.T) {
			t.Parallel()
			b := setup(t, sandbox.Options{RepeatCreates: repeat})
			const body = `{"model":"sandbox-video","prompt":"p"}`
			first := idOf(t, b.create(t, body, "Idempotency-Key", "k1"))
			second := idOf(t, b.create(t, body, "Idempotency-Key", "k1"))
			idOf(t, b.create(t, body, "Idempotency-Key", "k2"))
			idOf(t, b.create(t, body))
			if (first == second) == repeat {
				t.Errorf("tasks %s and %s of one key", first, second)
			}
			want := sandbox.Stats{
				Requests: 4, Creates: 4, Tasks: 3, MaxCreatesPerKey: 2, MaxAcceptsPerKey: 2,
				CreatesPerKey: map[string]int{"k1": 2, "k2": 1}, ChatsPerKey: map[string]int{},
				CreatesPerProtocol: map[string]int{"primary": 4}, CreatesPerAuthorization: map[string]int{},
			}
			if repeat {
				want.Tasks = 4
			}
			if diff := cmp.Diff(want, b.Sandbox.Stats()); diff != "" {
				t.Errorf("stats (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{MaxTasks: 2})
	const body = `{"model":"sandbox-video","prompt":"p"}`
	idOf(t, b.create(t, body, "Idempotency-Key", "a"))
	idOf(t, b.create(t, body))
	for _, headers := range [][]string{nil, {"Idempotency-Key", "b"}, {"Idempotency-Key", "c"}} {
		if a := b.create(t, body, headers...); a.status != 503 || at(a.json(t), "error", "code") != "system_memory_overloaded" {
			t.Errorf("%v: %d %s", headers, a.status, a.body)
		}
	}
	idOf(t, b.create(t, body, "Idempotency-Key", "a")) // a known key still works
}

// TestLateResult checks that a completed task's answer has no URL until result_after_ms have
// passed, in both dialects, and that nested moves the answer to a create one level down.
func TestLateResult(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for model, done := range map[string]string{"sandbox-video": `"status":"completed"`, "sandbox-video-enveloped": `"status":"SUCCESS"`} {
		for after, want := range map[string]bool{"0": true, "60000": false} {
			created := b.do(t, http.MethodPost, "/v1/video/generations", `{"model":"`+model+`:duration_ms=0,nested,result_after_ms=`+after+`","prompt":"p"}`)
			var answer struct{ Result struct{ ID string } }
			if err := json.Unmarshal(created.body, &answer); err != nil || answer.Result.ID == "" {
				t.Fatalf("%s: %s", model, created.body)
			}
			polled := string(b.do(t, http.MethodGet, "/v1/video/generations/"+answer.Result.ID, "").body)
			if !strings.Contains(polled, done) || strings.Contains(polled, "/files/") != want {
				t.Errorf("%s, after %s ms: %s", model, after, polled)
			}
		}
	}
}
