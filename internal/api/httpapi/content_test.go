package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/task"
)

// TestContentIsNotAskedForBeforeCompletion checks that the client of an unfinished task gets its
// status and the upstream gets no request.
func TestContentIsNotAskedForBeforeCompletion(t *testing.T) {
	t.Parallel()
	up := apitest.NewHost(t, apitest.ServeFilm)
	w := newWorld(t, apitest.UpstreamAt(up))
	client := genbusv1grpc.NewVideoServiceClient(w.Dial())
	check := func(id, word string) {
		t.Helper()
		for _, path := range []string{apitest.ContentOf(id), "/genbus" + apitest.ContentOf(id)} {
			a := w.Get(path)
			if message := fmt.Sprint(a.JSON(t)["error"]); a.Status != http.StatusBadRequest || a.ErrorCode(t) != "content_not_ready" ||
				!strings.Contains(message, ", current status: "+word) || a.Header.Get("Genbus-Job-Id") != id {
				t.Errorf("%s, %s: %d %s", path, word, a.Status, a.Body)
			}
		}
		if a := w.Do(http.MethodHead, apitest.ContentOf(id), ""); a.Status != http.StatusBadRequest {
			t.Errorf("HEAD, %s: %d", word, a.Status)
		}
		stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(client.DownloadVideo(t.Context(), &genbusv1.DownloadVideoRequest{Id: id}))
		_, err := stream.Recv()
		apitest.CheckStatus(t, err, codes.FailedPrecondition, errcode.ContentNotReady)
	}
	id := w.NewVideoObject()
	check(id, "QUEUED")
	e := w.StartVideo("default", id)
	check(id, "IN_PROGRESS")
	next, err := task.FailedUpstream(core.VideoOf(e), time.Now(), task.Failure{Status: "failed", Err: &genbusv1.TaskError{Code: "upstream_failed"}})
	w.Commit(e, next, err)
	check(id, "FAILED")
	id = w.NewVideoObject()
	if a := w.Post("/genbus/v1/videos/"+id+"/cancel", ""); a.Status != http.StatusOK {
		t.Fatalf("cancel: %d %s", a.Status, a.Body)
	}
	check(id, "CANCELLED")
	if n := len(up.Requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
}

// TestContentRequestsThatAreWrong checks that invalid requests are refused without asking the
// upstream.
func TestContentRequestsThatAreWrong(t *testing.T) {
	t.Parallel()
	up := apitest.NewHost(t, apitest.ServeFilm)
	w := newWorld(t, apitest.UpstreamAt(up))
	path := apitest.ContentOf(w.Completed(&genbusv1.Video{}, &genbusv1.Video{}))
	for name, row := range map[string]struct {
		path   string
		status int
		code   string
	}{
		"an unknown id":           {apitest.ContentOf("video_none"), 404, "task_not_found"},
		"a chat's id":             {apitest.ContentOf("chat_aaaaaaaaaaaaaaaaaaaaaaaaaa"), 404, "task_not_found"},
		"a thumbnail":             {path + "?variant=thumbnail", 400, "invalid_request"},
		"a spritesheet":           {path + "?variant=spritesheet", 400, "invalid_request"},
		"an index out of range":   {path + "?index=2", 400, "invalid_request"},
		"an index below 0":        {path + "?index=-1", 400, "invalid_request"},
		"an index that is a word": {path + "?index=first", 400, "invalid_request"},
	} {
		if a := w.Get(row.path); a.Status != row.status || a.ErrorCode(t) != row.code {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if n := len(up.Requests()); n != 0 {
		t.Errorf("the upstream saw %d requests", n)
	}
	for _, good := range []string{"?variant=video", "?index=1", "?variant=&index=0"} {
		if a := w.Get(path + good); a.Status != http.StatusOK || a.Body != string(apitest.Film) {
			t.Errorf("%s: %d %.80s", good, a.Status, a.Body)
		}
	}
}

func TestContentOfAnotherTenantDoesNotExist(t *testing.T) {
	t.Parallel()
	up := apitest.NewHost(t, apitest.ServeFilm)
	w := newWorld(t, apitest.TwoTenants, apitest.UpstreamAt(up))
	id := w.NewVideoObject("Authorization", "Bearer key-acme")
	if a := w.Get(apitest.ContentOf(id), "Authorization", "Bearer key-globex"); a.Status != http.StatusNotFound || a.ErrorCode(t) != "task_not_found" {
		t.Errorf("another tenant: %d %s", a.Status, a.Body)
	}
	if a := w.Get(apitest.ContentOf(id)); a.Status != http.StatusUnauthorized {
		t.Errorf("nobody: %d %s", a.Status, a.Body)
	}
}

// ranges are requests for the film's 1000 bytes and their answers.
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
	"if the tag is the same": {"bytes=4-11", apitest.FilmTag, 206, "bytes 4-11/1000", 4, 12},
	"if the date is equal":   {"bytes=4-11", apitest.FilmTime, 206, "bytes 4-11/1000", 4, 12},
	"if the tag is another":  {"bytes=4-11", `"film-2"`, 200, "", 0, 1000},
	"if the tag is weak":     {"bytes=4-11", "W/" + apitest.FilmTag, 200, "", 0, 1000},
}

// TestContentRanges checks that ranges work whether or not the upstream supports them.
func TestContentRanges(t *testing.T) {
	t.Parallel()
	for upstream, handler := range map[string]http.HandlerFunc{
		"an upstream that knows ranges": apitest.ServeFilm,
		"one that ignores them": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "video/mp4")
			w.Header().Set("ETag", apitest.FilmTag)
			w.Header().Set("Last-Modified", apitest.FilmTime)
			w.Header().Set("Content-Length", strconv.Itoa(len(apitest.Film)))
			_, _ = w.Write(apitest.Film)
		},
	} {
		t.Run(upstream, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, handler)))
			w.checkRanges(w.Completed(&genbusv1.Video{}), apitest.FilmTag, apitest.FilmTime)
		})
	}
}

// checkRanges reads the film with each range. tag and date are its validators; an empty date means
// that it has none.
func (w *world) checkRanges(id, tag, date string) {
	w.T.Helper()
	for name, row := range ranges {
		if row.ifRange == apitest.FilmTime && date == "" {
			continue
		}
		headers := []string{"Range", row.header}
		if row.header == "" {
			headers = nil
		}
		if row.ifRange != "" {
			headers = append(headers, "If-Range", strings.Replace(row.ifRange, apitest.FilmTag, tag, 1))
		}
		a := w.Get(apitest.ContentOf(id), headers...)
		if a.Status != row.status || a.Header.Get("Content-Range") != row.part || a.Body != string(apitest.Film[row.from:row.to]) {
			w.T.Errorf("%s: %d %v, %d bytes", name, a.Status, a.Header, len(a.Body))
		}
		if a.Header.Get("Content-Length") != strconv.Itoa(row.to-row.from) || a.Header.Get("Accept-Ranges") != "bytes" {
			w.T.Errorf("%s: headers %v", name, a.Header)
		}
		if a.Status != 416 && (a.Header.Get("Etag") != tag || a.Header.Get("Content-Type") != "video/mp4") {
			w.T.Errorf("%s: headers %v", name, a.Header)
		}
	}
}

func TestContentHead(t *testing.T) {
	t.Parallel()
	up := apitest.NewHost(t, apitest.ServeFilm)
	w := newWorld(t, apitest.UpstreamAt(up))
	id := w.Completed(&genbusv1.Video{})
	for _, headers := range [][]string{nil, {"Range", "bytes=4-11"}} {
		a := w.Do(http.MethodHead, apitest.ContentOf(id), "", headers...)
		if a.Status != http.StatusOK || a.Body != "" || a.Header.Get("Content-Length") != "1000" || a.Header.Get("Content-Type") != "video/mp4" ||
			a.Header.Get("Content-Disposition") != `attachment; filename="`+id+`.mp4"` || a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Genbus-Job-Id") != id {
			t.Errorf("HEAD with %v: %d %v", headers, a.Status, a.Header)
		}
	}
	for _, r := range up.Requests() {
		// Signed URLs often allow only GET.
		if r.Method != http.MethodGet || r.Header.Get("Range") != "" {
			t.Errorf("the upstream saw %s with %v", r.Method, r.Header)
		}
	}
}

// TestContentKeyStaysWithItsUpstream checks that another host gets neither the key nor configured
// headers nor anything from the client, whether reached by a result's URL, a redirect or a JSON
// answer.
func TestContentKeyStaysWithItsUpstream(t *testing.T) {
	t.Parallel()
	cdn := apitest.NewHost(t, apitest.ServeFilm)
	up := apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/json") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"data":{"url":%q}}`, cdn.URL+"/from-json.mp4?signature=s3cret")
			return
		}
		http.Redirect(w, r, cdn.URL+"/from-redirect.mp4?signature=s3cret", http.StatusFound)
	})
	w := newWorld(t, apitest.UpstreamAt(up), privateResults)
	for _, url := range []string{"", up.URL + "/json", cdn.URL + "/direct.mp4"} {
		id := w.Completed(&genbusv1.Video{Url: url})
		a := w.Get(apitest.ContentOf(id), "Range", "bytes=0-7", "Cookie", "session=1", "Authorization", "Bearer the-callers-own", "Referer", "http://x/")
		if a.Status != http.StatusPartialContent || a.Body != "genbus! " {
			t.Errorf("%q: %d %s", url, a.Status, a.Body)
		}
	}
	if n := len(up.Requests()); n != 2 {
		t.Fatalf("the upstream saw %d requests", n)
	}
	for _, r := range up.Requests() {
		if r.Header.Get("Authorization") != "Bearer sk-upstream" || r.Header.Get("X-Account") != "ours" || r.Header.Get("Cookie") != "" {
			t.Errorf("the upstream saw %v", r.Header)
		}
	}
	if n := len(cdn.Requests()); n != 3 {
		t.Fatalf("the other host saw %d requests", n)
	}
	for _, r := range cdn.Requests() {
		for _, name := range []string{"Authorization", "X-Account", "Cookie", "Referer"} {
			if v := r.Header.Get(name); v != "" {
				t.Errorf("%s: the other host saw %s: %s", r.URL, name, v)
			}
		}
	}
}

// TestContentAtForbiddenAddresses checks that other schemes are always blocked, and other ports of
// this machine unless private_results allows them.
func TestContentAtForbiddenAddresses(t *testing.T) {
	t.Parallel()
	other := apitest.NewHost(t, apitest.ServeFilm)
	up := apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	})
	file := up.URL + "/to?to=file:///etc/passwd"
	blocked := map[string]string{
		"a file": file, "a file itself": "file:///etc/passwd", "ftp": up.URL + "/to?to=ftp://x/y",
		"another port": up.URL + "/to?to=" + other.URL, "another port itself": other.URL + "/a?signature=s3cret",
		"link-local": "http://169.254.169.254/latest/meta-data/", "nowhere": up.URL + "/to",
	}
	w := newWorld(t, apitest.UpstreamAt(up))
	for name, url := range blocked {
		a := w.Get(apitest.ContentOf(w.Completed(&genbusv1.Video{Url: url})))
		if a.Status != http.StatusForbidden || a.ErrorCode(t) != "content_blocked" || strings.Contains(a.Body, "s3cret") {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if n := len(other.Requests()); n != 0 {
		t.Errorf("the other port saw %d requests", n)
	}
	w = newWorld(t, apitest.UpstreamAt(up), privateResults)
	for name, want := range map[string]int{"another port": 200, "another port itself": 200, "a file": 403, "a file itself": 403} {
		if a := w.Get(apitest.ContentOf(w.Completed(&genbusv1.Video{Url: blocked[name]}))); a.Status != want {
			t.Errorf("%s with private_results: %d %s", name, a.Status, a.Body)
		}
	}
}

// TestContentThatTheUpstreamDoesNotGive checks the meaning of each upstream answer for the client.
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
		up := apitest.NewHost(t, row.handler)
		w, url := newWorld(t, apitest.UpstreamAt(up)), ""
		if row.foreign {
			w, url = newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, apitest.ServeFilm)), privateResults), up.URL+"/x?X-Signature=s3cret"
		}
		a := w.Get(apitest.ContentOf(w.Completed(&genbusv1.Video{Url: url})))
		if a.Status != row.status || a.ErrorCode(t) != row.code || !strings.Contains(a.Body, row.says) || strings.Contains(a.Body, "s3cret") || strings.Contains(a.Body, "sk-upstream") {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
		if name == "down" && a.Header.Get("Retry-After") != "7" {
			t.Errorf("%s: headers %v", name, a.Header)
		}
	}
}

// TestFreshContentIsAskedForAgain checks that a client that downloads a video at once gets it,
// although the upstream refuses it for a moment.
func TestFreshContentIsAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusForbidden} {
		var seen atomic.Int32
		w := newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
			if seen.Add(1) == 1 {
				w.WriteHeader(status)
				return
			}
			apitest.ServeFilm(w, r)
		})))
		if a := w.Get(apitest.ContentOf(w.Completed(&genbusv1.Video{}))); a.Status != http.StatusOK || a.Body != string(apitest.Film) {
			t.Errorf("%d: got %d %.80s", status, a.Status, a.Body)
		}
	}
}

func privateResults(c *config.Config) {
	u := c.Upstreams["sandbox"]
	u.PrivateResults = true
	c.Upstreams["sandbox"] = u
}
