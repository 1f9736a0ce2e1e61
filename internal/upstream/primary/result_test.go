package primary

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// resultPlaces lists where servers put the URL of a result, in the order of precedence. A number is
// an index into a list.
var resultPlaces = []string{
	"url", "result_url", "video_url",
	"data.result_url", "data.url", "data.fail_reason",
	"content.result_url", "content.video_url", "metadata.url",
	"output.video_url", "outputs.video_url", "unsigned_urls.0",
	"data.data.task_result.videos.0.url", "data.data.data.video_url",
}

// TestResultPlacesInOrder checks that the first place with a URL wins, whichever level has the
// status.
func TestResultPlacesInOrder(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"status", "data.status"} {
		for i, place := range resultPlaces {
			body := map[string]any{}
			put(body, level, "completed")
			for n, later := range resultPlaces[i:] {
				put(body, later, fmt.Sprintf("https://cdn.example.com/%d", i+n))
			}
			checkResult(t, level+" "+place, body, fmt.Sprintf("https://cdn.example.com/%d", i))
			// A place without a URL is skipped.
			if i+1 < len(resultPlaces) {
				put(body, place, "videos/1.mp4")
				checkResult(t, level+" without "+place, body, fmt.Sprintf("https://cdn.example.com/%d", i+1))
			}
		}
	}
}

// put sets a member of nested objects and creates the objects as needed.
func put(object map[string]any, path, value string) {
	name, rest, more := strings.Cut(path, ".")
	switch {
	case !more:
		object[name] = value
	case rest == "0":
		object[name] = []any{value}
	case strings.HasPrefix(rest, "0."):
		object[name] = []any{map[string]any{strings.TrimPrefix(rest, "0."): value}}
	default:
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		put(inner, rest, value)
	}
}

func checkResult(t *testing.T, name string, body map[string]any, want string) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	a, err := lax.Decode[answer](raw)
	if err != nil {
		t.Fatal(err)
	}
	state, ok := a.state(&http.Response{StatusCode: http.StatusOK, Header: http.Header{}})
	if !ok || state.Progression != upstream.Completed || len(state.Videos) != 1 || state.Videos[0].URL != want {
		t.Errorf("%s: %+v, want %s, in %s", name, state, want, raw)
	}
}
