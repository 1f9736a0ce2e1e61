package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/task"
)

// TestContentIsNotAskedForBeforeCompletion: the client is told the status, and
// the upstream hears nothing.
func TestContentIsNotAskedForBeforeCompletion(t *testing.T) {
	t.Parallel()
	up := newHost(t, serveFilm)
	w := newWorld(t, upstreamAt(up))
	client := genbusv1.NewVideoServiceClient(w.dial())
	check := func(id, word string) {
		t.Helper()
		for _, path := range []string{contentOf(id), "/genbus" + contentOf(id)} {
			a := w.get(path)
			if message := fmt.Sprint(a.json(t)["error"]); a.status != http.StatusBadRequest || a.errorCode(t) != "content_not_ready" ||
				!strings.Contains(message, ", current status: "+word) || a.header.Get("Genbus-Job-Id") != id {
				t.Errorf("%s, %s: %d %s", path, word, a.status, a.body)
			}
		}
		if a := w.do(http.MethodHead, contentOf(id), ""); a.status != http.StatusBadRequest {
			t.Errorf("HEAD, %s: %d", word, a.status)
		}
		stream := must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(client.DownloadVideo(t.Context(), &genbusv1.DownloadVideoRequest{Id: id}))
		_, err := stream.Recv()
		checkStatus(t, err, codes.FailedPrecondition, fault.ContentNotReady)
	}
	id := w.newVideoObject()
	check(id, "QUEUED")
	e := w.startVideo("default", id)
	check(id, "IN_PROGRESS")
	next, err := task.FailedUpstream(videoOf(e), time.Now(), task.Failure{Status: "failed", Err: &genbusv1.TaskError{Code: "upstream_failed"}})
	w.commit(e, next, err)
	check(id, "FAILED")
	id = w.newVideoObject()
	if a := w.post("/genbus/v1/videos/"+id+"/cancel", ""); a.status != http.StatusOK {
		t.Fatalf("cancel: %d %s", a.status, a.body)
	}
	check(id, "CANCELLED")
	if n := len(up.requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
}

// TestContentRequestsThatAreWrong are refused before the upstream is asked.
func TestContentRequestsThatAreWrong(t *testing.T) {
	t.Parallel()
	up := newHost(t, serveFilm)
	w := newWorld(t, upstreamAt(up))
	path := contentOf(w.completed(&genbusv1.Video{}, &genbusv1.Video{}))
	for name, row := range map[string]struct {
		path   string
		status int
		code   string
	}{
		"an unknown id":           {contentOf("video_none"), 404, "task_not_found"},
		"a chat's id":             {contentOf("chat_aaaaaaaaaaaaaaaaaaaaaaaaaa"), 404, "task_not_found"},
		"a thumbnail":             {path + "?variant=thumbnail", 400, "invalid_request"},
		"a spritesheet":           {path + "?variant=spritesheet", 400, "invalid_request"},
		"an index out of range":   {path + "?index=2", 400, "invalid_request"},
		"an index below 0":        {path + "?index=-1", 400, "invalid_request"},
		"an index that is a word": {path + "?index=first", 400, "invalid_request"},
	} {
		if a := w.get(row.path); a.status != row.status || a.errorCode(t) != row.code {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if n := len(up.requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
	for _, good := range []string{"?variant=video", "?index=1", "?variant=&index=0"} {
		if a := w.get(path + good); a.status != http.StatusOK || a.body != string(film) {
			t.Errorf("%s: %d %.80s", good, a.status, a.body)
		}
	}
}

func TestContentOfAnotherTenantDoesNotExist(t *testing.T) {
	t.Parallel()
	up := newHost(t, serveFilm)
	w := newWorld(t, twoTenants, upstreamAt(up))
	id := w.newVideoObject("Authorization", "Bearer key-acme")
	if a := w.get(contentOf(id), "Authorization", "Bearer key-globex"); a.status != http.StatusNotFound || a.errorCode(t) != "task_not_found" {
		t.Errorf("another tenant: %d %s", a.status, a.body)
	}
	if a := w.get(contentOf(id)); a.status != http.StatusUnauthorized {
		t.Errorf("nobody: %d %s", a.status, a.body)
	}
}

// ranges are requests of the film's 1000 bytes and their answers.
var ranges = map[string]struct {
	header, ifRange string
	status          int
	part            string // Content-Range
	from, to        int
}{
	"none":                   {"", "", 200, "", 0, 1000},
	"closed":                 {"bytes=4-11", "", 206, "bytes 4-11/1000", 4, 12},
	"open":                   {"bytes=990-", "", 206, "bytes 990-999/1000", 990, 1000},
	"suffix":                 {"bytes=-10", "", 206, "bytes 990-999/1000", 990, 1000},
	"longer than the file":   {"bytes=990-5000", "", 206, "bytes 990-999/1000", 990, 1000},
	"a long suffix":          {"bytes=-5000", "", 206, "bytes 0-999/1000", 0, 1000},
	"beyond the file":        {"bytes=1000-", "", 416, "bytes */1000", 0, 0},
	"several":                {"bytes=0-1,5-6", "", 200, "", 0, 1000},
	"the wrong way":          {"bytes=9-4", "", 200, "", 0, 1000},
	"of another unit":        {"items=0-1", "", 200, "", 0, 1000},
	"no range":               {"bytes=x", "", 200, "", 0, 1000},
	"if the tag is the same": {"bytes=4-11", filmTag, 206, "bytes 4-11/1000", 4, 12},
	"if the date is equal":   {"bytes=4-11", filmTime, 206, "bytes 4-11/1000", 4, 12},
	"if the tag is another":  {"bytes=4-11", `"film-2"`, 200, "", 0, 1000},
	"if the tag is weak":     {"bytes=4-11", "W/" + filmTag, 200, "", 0, 1000},
}

// TestContentRanges: with an upstream that knows ranges and with one that does
// not the client hears the same.
func TestContentRanges(t *testing.T) {
	t.Parallel()
	for upstream, handler := range map[string]http.HandlerFunc{
		"an upstream that knows ranges": serveFilm,
		"one that ignores them": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "video/mp4")
			w.Header().Set("ETag", filmTag)
			w.Header().Set("Last-Modified", filmTime)
			w.Header().Set("Content-Length", strconv.Itoa(len(film)))
			_, _ = w.Write(film)
		},
	} {
		t.Run(upstream, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, upstreamAt(newHost(t, handler)))
			w.checkRanges(w.completed(&genbusv1.Video{}), filmTag, filmTime)
		})
	}
}

// checkRanges reads the film with each range; tag and date are its validators,
// empty for none.
func (w *world) checkRanges(id, tag, date string) {
	w.t.Helper()
	for name, row := range ranges {
		if row.ifRange == filmTime && date == "" {
			continue
		}
		headers := []string{"Range", row.header}
		if row.header == "" {
			headers = nil
		}
		if row.ifRange != "" {
			headers = append(headers, "If-Range", strings.Replace(row.ifRange, filmTag, tag, 1))
		}
		a := w.get(contentOf(id), headers...)
		if a.status != row.status || a.header.Get("Content-Range") != row.part || a.body != string(film[row.from:row.to]) {
			w.t.Errorf("%s: %d %v, %d bytes", name, a.status, a.header, len(a.body))
		}
		if a.header.Get("Content-Length") != strconv.Itoa(row.to-row.from) || a.header.Get("Accept-Ranges") != "bytes" {
			w.t.Errorf("%s: headers %v", name, a.header)
		}
		if a.status != 416 && (a.header.Get("Etag") != tag || a.header.Get("Content-Type") != "video/mp4") {
			w.t.Errorf("%s: headers %v", name, a.header)
		}
	}
}

func TestContentHead(t *testing.T) {
	t.Parallel()
	up := newHost(t, serveFilm)
	w := newWorld(t, upstreamAt(up))
	id := w.completed(&genbusv1.Video{})
	for _, headers := range [][]string{nil, {"Range", "bytes=4-11"}} {
		a := w.do(http.MethodHead, contentOf(id), "", headers...)
		if a.status != http.StatusOK || a.body != "" || a.header.Get("Content-Length") != "1000" || a.header.Get("Content-Type") != "video/mp4" ||
			a.header.Get("Content-Disposition") != `attachment; filename="`+id+`.mp4"` || a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Genbus-Job-Id") != id {
			t.Errorf("HEAD with %v: %d %v", headers, a.status, a.header)
		}
	}
	for _, r := range up.requests() {
		// Signed URLs often allow GET alone.
		if r.Method != http.MethodGet || r.Header.Get("Range") != "" {
			t.Errorf("the upstream saw %s with %v", r.Method, r.Header)
		}
	}
}

// TestContentKeyStaysWithItsUpstream: whether by a result's URL, a redirect or a
// JSON answer, another host gets neither the key nor the configured headers, nor
// anything of the client's.
func TestContentKeyStaysWithItsUpstream(t *testing.T) {
	t.Parallel()
	cdn := newHost(t, serveFilm)
	up := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/json") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"data":{"url":%q}}`, cdn.URL+"/from-json.mp4?signature=s3cret")
			return
		}
		http.Redirect(w, r, cdn.URL+"/from-redirect.mp4?signature=s3cret", http.StatusFound)
	})
	w := newWorld(t, upstreamAt(up), privateResults)
	for _, url := range []string{"", up.URL + "/json", cdn.URL + "/direct.mp4"} {
		id := w.completed(&genbusv1.Video{Url: url})
		a := w.get(contentOf(id), "Range", "bytes=0-7", "Cookie", "session=1", "Authorization", "Bearer the-callers-own", "Referer", "http://x/")
		if a.status != http.StatusPartialContent || a.body != "genbus! " {
			t.Errorf("%q: %d %s", url, a.status, a.body)
		}
	}
	if n := len(up.requests()); n != 2 {
		t.Fatalf("the upstream saw %d requests", n)
	}
	for _, r := range up.requests() {
		if r.Header.Get("Authorization") != "Bearer sk-upstream" || r.Header.Get("X-Account") != "ours" || r.Header.Get("Cookie") != "" {
			t.Errorf("the upstream saw %v", r.Header)
		}
	}
	if n := len(cdn.requests()); n != 3 {
		t.Fatalf("the other host saw %d requests", n)
	}
	for _, r := range cdn.requests() {
		for _, name := range []string{"Authorization", "X-Account", "Cookie", "Referer"} {
			if v := r.Header.Get(name); v != "" {
				t.Errorf("%s: the other host saw %s: %s", r.URL, name, v)
			}
		}
	}
}

// TestContentAtForbiddenAddresses: other schemes never, and other ports of this
// machine only where private_results allows them.
func TestContentAtForbiddenAddresses(t *testing.T) {
	t.Parallel()
	other := newHost(t, serveFilm)
	up := newHost(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	})
	file := up.URL + "/to?to=file:///etc/passwd"
	blocked := map[string]string{
		"a file": file, "a file itself": "file:///etc/passwd", "ftp": up.URL + "/to?to=ftp://x/y",
		"another port": up.URL + "/to?to=" + other.URL, "another port itself": other.URL + "/a?signature=s3cret",
		"link-local": "http://169.254.169.254/latest/meta-data/", "nowhere": up.URL + "/to",
	}
	w := newWorld(t, upstreamAt(up))
	for name, url := range blocked {
		a := w.get(contentOf(w.completed(&genbusv1.Video{Url: url})))
		if a.status != http.StatusForbidden || a.errorCode(t) != "content_blocked" || strings.Contains(a.body, "s3cret") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if n := len(other.requests()); n != 0 {
		t.Errorf("the other port saw %d requests", n)
	}
	w = newWorld(t, upstreamAt(up), privateResults)
	for name, want := range map[string]int{"another port": 200, "another port itself": 200, "a file": 403, "a file itself": 403} {
		if a := w.get(contentOf(w.completed(&genbusv1.Video{Url: blocked[name]}))); a.status != want {
			t.Errorf("%s with private_results: %d %s", name, a.status, a.body)
		}
	}
}

// TestContentThatTheUpstreamDoesNotGive: what each answer of an upstream means to
// the client.
func TestContentThatTheUpstreamDoesNotGive(t *testing.T) {
	t.Parallel()
	say := func(status int, kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	const js = "application/json"
	for name, row := range map[string]struct {
		handler http.HandlerFunc
		foreign bool
		status  int
		code    string
		says    string
	}{
		"gone":                   {say(404, js, `{"error":{"message":"Video has expired"}}`), false, 404, "content_expired", "Video has expired"},
		"gone for good":          {say(410, "text/plain", "x"), false, 404, "content_expired", ""},
		"a stale signature":      {say(403, "application/xml", "<Error><Code>AccessDenied</Code></Error>"), true, 404, "content_expired", ""},
		"its own key refused":    {say(403, js, `{"error":{"message":"no access"}}`), false, 502, "content_unavailable", "no access"},
		"not ready after all":    {say(400, js, `{"error":{"message":"Task is not completed yet"}}`), false, 502, "content_unavailable", "not completed yet"},
		"down":                   {say(503, "text/html", "<html>"), false, 502, "content_unavailable", "503"},
		"an error with 200":      {say(200, js, `{"error":{"message":"quota","code":"q"}}`), false, 502, "content_unavailable", "quota"},
		"a page with 200":        {say(200, "text/html", "<html>sign in"), false, 502, "content_unavailable", "page"},
		"JSON that holds no URL": {say(200, js, `{"a":1}`), false, 502, "content_unavailable", "JSON"},
	} {
		up := newHost(t, row.handler)
		w, url := newWorld(t, upstreamAt(up)), ""
		if row.foreign {
			w, url = newWorld(t, upstreamAt(newHost(t, serveFilm)), privateResults), up.URL+"/x?X-Signature=s3cret"
		}
		a := w.get(contentOf(w.completed(&genbusv1.Video{Url: url})))
		if a.status != row.status || a.errorCode(t) != row.code || !strings.Contains(a.body, row.says) || strings.Contains(a.body, "s3cret") || strings.Contains(a.body, "sk-upstream") {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		if name == "down" && a.header.Get("Retry-After") != "7" {
			t.Errorf("%s: headers %v", name, a.header)
		}
	}
}
