package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
)

// TestRefusedMessages checks that bodies below /genbus/v1 are refused in genbus' words, with the
// member that is wrong.
func TestRefusedMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.WithOperator)
	const videos, chats, drop, redrive, attach = "/genbus/v1/videos", "/genbus/v1/chats", operatorPrefix + "dead-letters/drop", operatorPrefix + "dead-letters/1/redrive", operatorPrefix + "dead-letters/attach"
	deep := strings.Repeat("[", 300) + strings.Repeat("]", 300)
	for _, row := range []struct{ path, body, code, param, says string }{
		{videos, `{`, "invalid_json", "", "the body is not valid JSON: it ends too early; this path takes a genbus.v1.VideoRequest"},
		{videos, `{"video":`, "invalid_json", "", "the body is not valid JSON: it ends too early"},
		{videos, `{"video":{}} {}`, "invalid_json", "", "the body has more than one JSON value: text follows at byte 12"},
		{videos, `{"video":{},}`, "invalid_json", "", "the body is not valid JSON: syntax error near byte"},
		{videos, `model=x`, "invalid_json", "", "the body is not valid JSON: syntax error near byte 0"},
		{videos, `null`, "invalid_json", "", "the body is null; it must be a JSON object"},
		{videos, `[]`, "invalid_json", "", "the body is an array; it must be a JSON object"},
		{videos, `"x"`, "invalid_json", "", "the body is a string; it must be a JSON object"},
		{videos, `{"video":{"model":"m","model":"n"}}`, "invalid_json", "", "the body has a duplicate member in an object, before byte"},
		{videos, "{\"video\":{\"prompt\":\"\xff\"}}", "invalid_json", "", "the body is not valid UTF-8"},
		{videos, `{"video":{"extra_json":` + deep + `}}`, "invalid_request", "", "the body is nested deeper than 200 levels"},
		{videos, `{"nothing":1}`, "invalid_request", "nothing", "nothing: is unknown; use one of request_id, "},
		{videos, `{"video":{"modell":"m"}}`, "invalid_request", "video.modell", "video.modell: is unknown; use one of model, prompt, "},
		{videos, `{"video":{"prompt":5}}`, "invalid_request", "video.prompt", "video.prompt: must be a string of valid Unicode"},
		{videos, `{"video":{"prompt":"\ud83d"}}`, "invalid_request", "video.prompt", "video.prompt: must be a string of valid Unicode"},
		{videos, `{"video":{"model":"m","duration":"five"}}`, "invalid_request", "video.duration", "video.duration: must be a number"},
		{videos, `{"video":{"width":1.5}}`, "invalid_request", "video.width", "video.width: must be an integer from 0 to 2147483647"},
		{videos, `{"video":{"seed":"x"}}`, "invalid_request", "video.seed", "video.seed: must be an integer"},
		{videos, `{"video":{"metadata_json":{"a":1}}}`, "invalid_request", "video.metadata_json", "video.metadata_json: must be a string in Base64"},
		{videos, `{"video":"x"}`, "invalid_request", "video", "video: must be an object"},
		{videos, `{"video":{},"raw_json":"e30="}`, "invalid_request", "raw_json", "raw_json: cannot be used with video"},
		{videos, `{"requestId":"a","request_id":"a"}`, "invalid_request", "request_id", "request_id: is given more than once"},
		{videos, `{"labels":{"a":1}}`, "invalid_request", "labels.a", "labels.a: must be a string of valid Unicode"},
		{videos, `{"labels":[]}`, "invalid_request", "labels", "labels: must be an object"},
		{videos, `{"expires_at":"tomorrow"}`, "invalid_request", "expires_at", "expires_at: must be a time such as 2026-01-31T12:00:00Z"},
		{chats, `{"chat":{"messages":[{"role":"user","text":"x"},{"role":1}]}}`, "invalid_request", "chat.messages[1].role", "chat.messages[1].role: must be a string of valid Unicode"},
		{chats, `{"chat":{"messages":{}}}`, "invalid_request", "chat.messages", "chat.messages: must be an array"},
		{chats, `{"chat":{"temperature":"warm"}}`, "invalid_request", "chat.temperature", "chat.temperature: must be a number"},
		{"/genbus/v1/videos/video_x/cancel", `{"reason":1}`, "invalid_request", "reason", "reason: is unknown; this path takes no members"},
		{drop, `{`, "invalid_json", "", "the body is not valid JSON: it ends too early; this path takes a genbus.v1.DropDeadLettersRequest"},
		{drop, `{"dry_run":"yes"}`, "invalid_request", "dry_run", "dry_run: must be true or false"},
		{drop, `{"filter":{"color":"red"}}`, "invalid_request", "filter.color", "filter.color: is unknown; use one of kind, tenant, code"},
		{redrive, `{"raw":1}`, "invalid_request", "raw", "raw: is unknown; this path takes no members"},
		{operatorPrefix + "routes/video/none/pause", `{"raw":1}`, "invalid_request", "raw", "raw: is unknown; use one of reason, duration\""},
		{operatorPrefix + "routes/video/none/pause", `{"duration":"2h"}`, "invalid_request", "duration", "duration: must be a duration in seconds such as 7200s"},
		{operatorPrefix + "routes/video/none/resume", `{"raw":1}`, "invalid_request", "raw", "raw: is unknown; this path takes no members"},
		{operatorPrefix + "dead-letters/1/attach", `{"raw":1}`, "invalid_request", "raw", "raw: is unknown; use one of upstream_task_id\""},
		{attach, `{"tasks":[{"sequence":-1}]}`, "invalid_request", "tasks[0].sequence", "tasks[0].sequence: must be an integer from 0 to 18446744073709551615"},
		{attach, `{"tasks":[{"sequence":1.5}]}`, "invalid_request", "tasks[0].sequence", "tasks[0].sequence: must be an integer from 0 to 18446744073709551615"},
		{attach, `{"tasks":[{"sequence":"18446744073709551616"}]}`, "invalid_request", "tasks[0].sequence", "tasks[0].sequence: must be an integer from 0 to 18446744073709551615"},
		{attach, `{"tasks":[{"sequence":18446744073709551616}]}`, "invalid_request", "tasks[0].sequence", "tasks[0].sequence: must be an integer from 0 to 18446744073709551615"},
		{operatorPrefix + "dead-letters/first/redrive", `{}`, "invalid_request", "sequence", `sequence: must be an integer from 0 to 18446744073709551615, not \"first\"`},
	} {
		var headers []string
		if strings.HasPrefix(row.path, operatorPrefix) {
			headers = apitest.ByOperator
		}
		a := w.Post(row.path, row.body, headers...)
		refusal, _ := a.JSON(t)["error"].(map[string]any)
		if param, _ := refusal["param"].(string); a.Status != http.StatusBadRequest || a.ErrorCode(t) != row.code || param != row.param || !strings.Contains(a.Body, `"message":"`+row.says) {
			t.Errorf("%s %s: %d %s", row.path, row.body, a.Status, a.Body)
		}
		for _, word := range []string{"proto:", "(line", "unmarshal", "invalid character", "strconv", "grpc"} {
			if strings.Contains(a.Body, word) {
				t.Errorf("%s %s: %s", row.path, row.body, a.Body)
			}
		}
	}
	for method, path := range map[string]string{http.MethodGet: "dead-letters/first", http.MethodDelete: "dead-letters/-1"} {
		if a := w.Do(method, operatorPrefix+path, "", apitest.ByOperator...); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"message":"sequence: must be an integer`) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if a := w.Get(videos, "Grpc-Timeout", "soon"); a.Status != http.StatusOK {
		t.Errorf("a header of gRPC: %d %s", a.Status, a.Body)
	}
}

// TestEveryBodyIsJSON checks every path below /genbus/v1 that reads a body.
func TestEveryBodyIsJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.WithOperator)
	fill := strings.NewReplacer("{id}", apitest.Never("video_"), "{sequence}", "1000", "{kind}", "video", "{name}", "none")
	n := 0
	for _, pattern := range w.Handler.Patterns() {
		method, path, _ := strings.Cut(fill.Replace(pattern), " ")
		if method != http.MethodPost || !strings.HasPrefix(path, "/genbus/v1/") {
			continue
		}
		var headers []string
		if strings.HasPrefix(path, operatorPrefix) {
			headers = apitest.ByOperator
		}
		if a := w.Post(path, `{"a":1`, headers...); a.Status != http.StatusBadRequest || a.ErrorCode(t) != "invalid_json" {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		if a := w.Post(path, `{"no_such_member":1}`, headers...); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, `"message":"no_such_member: is unknown; `) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		n++
	}
	if n < 15 {
		t.Errorf("%d paths", n)
	}
}

// TestAcceptedMessages checks that what the JSON form of Protobuf allows stays allowed.
func TestAcceptedMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, body := range []string{
		`{"video":{"model":"sandbox-video","prompt":"p","seed":"12345678901","duration":"5"},"requestId":"a"}`,
		`{"video":{"model":"sandbox-video","prompt":"p","width":1e3,"fps":null},"raw_json":null,"labels":{}}`,
		` {"raw_json":"eyJtb2RlbCI6InNhbmRib3gtdmlkZW8iLCJwcm9tcHQiOiJwIn0=","expires_at":"2099-01-31T12:00:00+01:00"}
`,
	} {
		if a := w.Post("/genbus/v1/videos", body); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
}

// TestMessagesAboveTheLimitOfGRPC checks a body that HTTP accepts and the service behind it does not.
func TestMessagesAboveTheLimitOfGRPC(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *config.Config) { c.GRPC.MaxMessageBytes = config.MiB })
	a := w.Post("/genbus/v1/videos", `{"video":{"model":"sandbox-video","prompt":"`+strings.Repeat("p", 2<<20)+`"}}`)
	if a.Status != http.StatusRequestEntityTooLarge || a.ErrorCode(t) != "body_too_large" || !strings.Contains(a.Body, "grpc.max_message_bytes") {
		t.Errorf("%d %.300s", a.Status, a.Body)
	}
}
