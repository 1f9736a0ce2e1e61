package videos

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

// aFileCreate is sent as a form.
var aFileCreate = upstream.VideoCreate{JobID: "video_1", Body: body.Parse([]byte(`{"model":"m","prompt":"p","input_reference":"data:image/png;base64,iVBORw0KGgo="}`))}

// bothWays runs a test with a create sent as JSON and one sent as a form.
func bothWays(t *testing.T, test func(t *testing.T, create upstream.VideoCreate)) {
	t.Helper()
	for name, create := range map[string]upstream.VideoCreate{"json": aCreate, "form": aFileCreate} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, create)
		})
	}
}

func TestCreateRequest(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, create upstream.VideoCreate) {
		got := make(chan http.Header, 1)
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.Path != "/v1/videos" {
				t.Errorf("request = %s %s", r.Method, r.URL.Path)
			}
			got <- r.Header
			_, _ = io.WriteString(w, `{"id":"v"}`)
		})
		client.ep.BaseURL += "/v1/"
		wantVerdict(t, client.Create(t.Context(), create), upstream.Accepted, true)
		header := <-got
		if header.Get("Authorization") != "Bearer sk-test-0123456789" || header.Get("Idempotency-Key") != "video_1" {
			t.Errorf("header = %v", header)
		}
	})
}

// TestCreateDeadConnection checks that a create is not resent if the server kills a reused
// connection after reading it. net/http would resend it because of its Idempotency-Key.
func TestCreateDeadConnection(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, create upstream.VideoCreate) {
		var requests atomic.Int64
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if requests.Add(1) > 1 {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, `{"id":"v"}`)
		})
		wantVerdict(t, client.Create(t.Context(), create), upstream.Accepted, true)
		wantVerdict(t, client.Create(t.Context(), create), upstream.Unknown, true)
		if n := requests.Load(); n != 2 {
			t.Errorf("the upstream got %d requests, want 2", n)
		}
	})
}

func TestCreateRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, create upstream.VideoCreate) {
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
		t.Cleanup(other.Close)
		client := serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/v1/videos", http.StatusTemporaryRedirect)
		})
		wantVerdict(t, client.Create(t.Context(), create), upstream.RefusedForGood, true)
	})
}

func TestCreateNotReached(t *testing.T) {
	t.Parallel()
	bothWays(t, func(t *testing.T, create upstream.VideoCreate) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		client := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("another server was called") })
		client.ep.BaseURL = server.URL
		wantVerdict(t, client.Create(t.Context(), create), upstream.RefusedForNow, false)
	})
}

func TestCreateEmptyBody(t *testing.T) {
	t.Parallel()
	client := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
	wantVerdict(t, client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1"}), upstream.RefusedForGood, false)
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
	ref := upstream.TaskRef{ID: "a/b?c#d e"}
	if _, err := client.Poll(t.Context(), ref); err != nil {
		t.Fatal(err)
	}
	const want = "/v1/videos/a%2Fb%3Fc%23d%20e"
	if got := <-paths; got != want {
		t.Errorf("path = %s, want %s", got, want)
	}
	if got := client.ContentPath(ref); got != want+"/content" {
		t.Errorf("content path = %s, want %s", got, want+"/content")
	}
	if _, err := client.Poll(t.Context(), upstream.TaskRef{}); err == nil {
		t.Error("Poll without an id succeeded")
	}
}

// TestFailureWait checks that a failure's wait is read from the headers that newer servers pass on.
func TestFailureWait(t *testing.T) {
	t.Parallel()
	for headers, want := range map[string]time.Duration{
		`{"Retry-After":"20"}`:                         20 * time.Second,
		`{"retry-after":"20","Retry-After-Ms":"1500"}`: 1500 * time.Millisecond,
		`{"retry-after":7}`:                            0,
		`null`:                                         0,
	} {
		a, err := lax.Decode[answer]([]byte(`{"status":"failed","error":{"code":"x","message":"m","headers":` + headers + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		state, _ := a.state(&http.Response{StatusCode: http.StatusOK, Header: http.Header{"X-Request-Id": {"req-1"}}})
		if state.Err.RetryAfter != want || state.Err.RequestID != "req-1" || state.Err.HTTPStatus != http.StatusOK {
			t.Errorf("%s: error = %+v, want to wait %v", headers, state.Err, want)
		}
	}
}

func TestDimensions(t *testing.T) {
	t.Parallel()
	for size, want := range map[string][2]int{
		"1280x720": {1280, 720}, "720X1280\n": {720, 1280}, "16:9": {}, "": {}, "x": {}, "1280x": {}, "0x720": {}, "-1x2": {}, "720p": {},
		"99999999999x1": {}, "1x2x3": {},
	} {
		if w, h := dimensions(size); w != want[0] || h != want[1] {
			t.Errorf("dimensions(%q) = %d, %d, want %v", size, w, h, want)
		}
	}
}

func wantVerdict(t *testing.T, sub upstream.Submission, want upstream.Verdict, written bool) {
	t.Helper()
	if sub.Verdict != want {
		t.Errorf("verdict = %v, want %v (%v)", sub.Verdict, want, sub.Err)
	}
	if sub.Err != nil && sub.Err.Written != written {
		t.Errorf("written = %v, want %v (%v)", sub.Err.Written, written, sub.Err)
	}
	if e := sub.Err; e != nil && strings.Contains(e.Error(), "iVBORw0") {
		t.Errorf("error %v holds the request", e)
	}
	if (sub.Err == nil) != (sub.Verdict == upstream.Accepted) {
		t.Errorf("error %v does not fit the verdict %v", sub.Err, sub.Verdict)
	}
}
