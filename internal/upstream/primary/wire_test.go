package primary

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

func TestCreateRequest(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		got <- r
		_, _ = io.WriteString(w, `{"id":"t"}`)
	})
	client.ep.BaseURL += "/v1/"
	if sub := client.Create(t.Context(), aCreate); sub.Verdict != upstream.Accepted {
		t.Fatalf("submission = %+v", sub)
	}
	r := <-got
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodPost || r.URL.Path != "/v1/video/generations" || string(body) != string(aCreate.Body.Bytes()) {
		t.Errorf("request = %s %s %q", r.Method, r.URL.Path, body)
	}
	for name, want := range map[string]string{
		"Authorization": "Bearer sk-test-0123456789", "Content-Type": "application/json", "Idempotency-Key": "video_1", "Accept-Encoding": "identity",
	} {
		if value := r.Header.Get(name); value != want {
			t.Errorf("%s = %q, want %q", name, value, want)
		}
	}
}

func TestPollErrorsNeverFailATask(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckPollErrors(t, subject, outcomeCases)
}

func TestPollEscapesTheID(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 1)
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		paths <- r.RequestURI
		_, _ = io.WriteString(w, `{"status":"queued"}`)
	})
	if _, err := client.Poll(t.Context(), upstream.TaskRef{ID: "a/b?c#d e"}); err != nil {
		t.Fatal(err)
	}
	if got, want := <-paths, "/v1/video/generations/a%2Fb%3Fc%23d%20e"; got != want {
		t.Errorf("path = %s, want %s", got, want)
	}
	if _, err := client.Poll(t.Context(), upstream.TaskRef{ID: ""}); err == nil {
		t.Error("Poll without an id succeeded")
	}
}
