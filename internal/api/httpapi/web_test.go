package httpapi_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// counter sums the samples of a counter with the given labels.
func (w *world) counter(name string, labels map[string]string) float64 {
	w.T.Helper()
	families, err := w.Metrics.Gatherer().Gather()
	if err != nil {
		w.T.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metrics:
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if want, ok := labels[l.GetName()]; ok && want != l.GetValue() {
					continue metrics
				}
			}
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

// admissions counts the admissions of a kind.
func (w *world) admissions(kind subject.Kind) (n uint64) {
	w.T.Helper()
	families, err := w.Metrics.Gatherer().Gather()
	if err != nil {
		w.T.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "genbus_admission_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "kind" && l.GetValue() == string(kind) {
					n += m.GetHistogram().GetSampleCount()
				}
			}
		}
	}
	return n
}

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, row := range map[string]struct {
		method, allow string
		status        int
		code          string
	}{
		"/":                              {http.MethodGet, "", 404, "not_found"},
		"/v1/nothing":                    {http.MethodPost, "", 404, "not_found"},
		"/genbus/v1/nothing":             {http.MethodGet, "", 404, "not_found"},
		"/v1/video/generations":          {http.MethodGet, "POST", 405, "method_not_allowed"},
		"/v1/models":                     {http.MethodDelete, "GET, HEAD", 405, "method_not_allowed"},
		"/genbus/v1/videos":              {http.MethodPut, "GET, HEAD, POST", 405, "method_not_allowed"},
		"/genbus/v1/videos/video_x":      {http.MethodPost, "DELETE, GET, HEAD", 405, "method_not_allowed"},
		"/genbus/v1/videos/a%2Fb/cancel": {http.MethodPost, "", 404, ""},
	} {
		a := w.Do(row.method, path, "")
		if a.Status != row.status || a.Header.Get("Allow") != row.allow || row.code != "" && a.ErrorCode(t) != row.code {
			t.Errorf("%s %s: %d %v %s", row.method, path, a.Status, a.Header, a.Body)
		}
		if a.Header.Get("Content-Type") != "application/json" || a.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s %s: headers %v", row.method, path, a.Header)
		}
	}
	if n := w.counter("genbus_http_requests_total", map[string]string{"route": "unmatched"}); n != 6 {
		t.Errorf("%v requests without a pattern were counted", n)
	}
}

// TestEmptyIDs checks that a path with an empty id is not found, because the mux would redirect it
// to another resource. Other double slashes are still redirected.
func TestEmptyIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, call := range []string{
		"POST /genbus/v1/videos//cancel", "GET /genbus/v1/videos//events", "POST /genbus/v1/chats//cancel", "GET /v1/video/generations//events",
		"GET /v1/videos//content", "HEAD /v1/videos//content", "POST /genbus/v1/operator/jobs//cancel",
	} {
		method, path, _ := strings.Cut(call, " ")
		a := w.Do(method, path, "")
		if a.Status != http.StatusNotFound || a.Header.Get("Content-Type") != "application/json" || a.Header.Get("X-Request-Id") == "" || a.Header.Get("Genbus-Error-Code") != "not_found" {
			t.Errorf("%s: %d %v %s", call, a.Status, a.Header, a.Body)
		}
		if method != http.MethodHead && !strings.Contains(a.Body, "the id in "+path+" is empty") {
			t.Errorf("%s: %s", call, a.Body)
		}
	}
	for path, part := range map[string]string{
		"dead-letters//redrive": "sequence", "routes/video//pause": "kind or the name", "routes//none/pause": "kind or the name", "orphans/video//fail": "kind or the name",
	} {
		if a := w.Post(operatorPrefix+path, ""); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "the "+part+" in "+operatorPrefix+path+" is empty") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	for _, path := range []string{"//v1/models", "/v1//models", "/v1/./models"} {
		if a := w.Get(path); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}

// TestUnmatchedSaysWhatThereIs checks that errors of the mux name the documentation or the path's
// methods.
func TestUnmatchedSaysWhatThereIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if a := w.Get("/"); !strings.Contains(a.Body, "/docs") {
		t.Errorf("/: %s", a.Body)
	}
	if a := w.Get("/v1/video/generations"); !strings.Contains(a.Body, "supports only POST") {
		t.Errorf("a wrong method: %s", a.Body)
	}
}

func TestProbes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants) // probes need no key
	for path, want := range map[string]string{"/healthz": `"ok"`, "/readyz": `"ready"`, "/readyz/jobs": `"ready"`, "/metrics": "genbus_build_info"} {
		if a := w.Get(path); a.Status != http.StatusOK || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := w.Get("/v1/models")
	data, _ := list.JSON(t)["data"].([]any)
	var ids []string
	for _, m := range data {
		m, _ := m.(map[string]any)
		id, _ := m["id"].(string)
		ids = append(ids, id)
	}
	if list.Status != http.StatusOK || !slices.Contains(ids, "sandbox-chat") || !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("%d %v", list.Status, ids)
	}
	one := w.Get("/v1/models/sandbox-chat")
	if one.Status != http.StatusOK || one.JSON(t)["object"] != "model" || one.JSON(t)["id"] != "sandbox-chat" {
		t.Errorf("%d %s", one.Status, one.Body)
	}
	if a := w.Get("/v1/models/vendor/none"); a.Status != http.StatusNotFound || a.ErrorCode(t) != "model_not_found" {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for given, kept := range map[string]bool{"a-1": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "a b": false, `a"b`: false, "ä": false} {
		got := w.Get("/v1/models", "X-Request-Id", given).Header.Get("X-Request-Id")
		if (got == given) != kept || got == "" {
			t.Errorf("%q became %q", given, got)
		}
	}
}

// TestHalfABody checks that an incomplete body is not forwarded.
func TestHalfABody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.HTTP.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n" + apitest.ChatBody
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	data, _ := io.ReadAll(conn)
	if !bytes.HasPrefix(data, []byte("HTTP/1.1 400")) {
		t.Errorf("answer %q", data)
	}
	if n := w.Sandbox.Sandbox.Stats().Chats; n != 0 {
		t.Errorf("%d chats reached the upstream", n)
	}
}

// TestTooLargeByItsOwnWord checks that a body announced as too large is refused before it is sent.
func TestTooLargeByItsOwnWord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.HTTP.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(brokertest.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d", res.StatusCode)
	}
}

// TestBodyThatDoesNotCome checks that an incomplete body is given up, and that its deadline does
// not bound the answer.
func TestBodyThatDoesNotCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Core.BodyTimeout = 2 * time.Second // longer than a complete body may take
	var stream sync.WaitGroup
	defer stream.Wait()
	long := w.Request(http.MethodPost, "/v1/chat/completions", strings.Replace(apitest.StreamBody, "sandbox-chat", "sandbox-chat:chunks=10,chunk_interval_ms=300", 1))
	stream.Go(func() {
		res, err := w.Client.Do(long)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		if all, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(all), "[DONE]") {
			t.Errorf("a long stream ended with %q, %v", all, err)
		}
	})
	for path, want := range map[string]string{"/v1/chat/completions": "HTTP/1.1 400", "/nothing": "HTTP/1.1 404"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(w.HTTP.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(brokertest.Patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(data), want) {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
}

func TestConnectionSurvivesAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		if a := w.Post("/v1/chat/completions", strings.Replace(apitest.StreamBody, "sandbox-chat", "none", 1)); a.Status != http.StatusNotFound {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		if s := w.Open(w.Request(http.MethodPost, "/v1/chat/completions", apitest.StreamBody)); len(s.Rest()) < 5 {
			t.Fatal("no stream after an error")
		}
	}
}

// TestPanics checks that a panic in one call becomes an answer, a log line and a count, and other
// calls go on.
func TestPanics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Core.Jobs = nil
	for _, path := range []string{"/v1/videos", "/genbus/v1/videos"} {
		a := w.Get(path)
		if a.Status != http.StatusInternalServerError || a.ErrorCode(t) != "internal" || a.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %d %v %s", path, a.Status, a.Header, a.Body)
		}
	}
	if a := w.Post(apitest.KlingText, apitest.KlingBody); a.Status != http.StatusInternalServerError || a.VendorCode(t) != 5000 {
		t.Errorf("a vendor's path: %d %s", a.Status, a.Body)
	}
	if n := w.counter("genbus_http_requests_total", map[string]string{"code": "500"}); n != 3 {
		t.Errorf("%v panics were counted", n)
	}
	if a := w.Get("/healthz"); a.Status != http.StatusOK {
		t.Errorf("healthz: %d", a.Status)
	}
}
