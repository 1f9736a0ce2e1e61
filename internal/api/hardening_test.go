package api_test

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/jimeng"
	"github.com/genbus/genbus/internal/upstream/kling"
)

const (
	pairKey    = "ak-acme"
	pairSecret = "sk-acme-0123456789"
)

// onlyAPair configures one tenant that has a key pair and no API key.
func onlyAPair(c *config.Config) {
	c.APIKeys = []config.APIKey{{Tenant: "acme", AccessKey: pairKey, SecretKey: config.NewSecret(pairSecret)}}
}

// signedBy gives the header that signs a request, and the others that go with it.
func (w *world) signedBy(signer upstream.Authorizer, method, path, body string) []string {
	w.t.Helper()
	r := w.request(method, path, body)
	var raw []byte
	if body != "" {
		raw = []byte(body)
	}
	if err := signer.Authorize(r, raw); err != nil {
		w.t.Fatal(err)
	}
	var headers []string
	for name, values := range r.Header {
		headers = append(headers, name, values[0])
	}
	return headers
}

// begun sends the head of a POST and the first byte of a body that does not come,
// and reads the answer.
func (w *world) begun(path string, headers ...string) answer {
	w.t.Helper()
	conn := must[net.Conn](w.t)(net.Dial("tcp", strings.TrimPrefix(w.http.URL, "http://")))
	defer func() { _ = conn.Close() }()
	var head strings.Builder
	fmt.Fprintf(&head, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", path, 31<<20)
	for i := 0; i < len(headers); i += 2 {
		fmt.Fprintf(&head, "%s: %s\r\n", headers[i], headers[i+1])
	}
	if _, err := io.WriteString(conn, head.String()+"\r\n{"); err != nil {
		w.t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		w.t.Fatalf("%s with %v: %v", path, headers, err)
	}
	defer res.Body.Close()
	body := must[[]byte](w.t)(io.ReadAll(res.Body))
	return answer{status: res.StatusCode, header: res.Header, body: string(body)}
}

// TestNoBodyIsReadOfAStranger: who is nobody is told so before the body is there.
func TestNoBodyIsReadOfAStranger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, twoTenants)
	w.api.SetBodyTimeout(time.Minute)
	token := w.signedBy(kling.NewJWT("nobody", "0123456789abcdef"), http.MethodPost, klingText, klingBody)
	for _, path := range []string{
		klingText, klingImage, jimengSubmit, jimengQuery, "/v1/videos", "/v1/video/generations", "/v1/chat/completions",
		"/genbus/v1/videos", "/genbus/v1/chats", "/genbus/v1/videos/x/cancel",
	} {
		for name, headers := range map[string][]string{
			"no key": nil, "a wrong key": {"Authorization", "Bearer no"},
			"the token of nobody":     {"Authorization", valueOf(token, "Authorization")},
			"the signature of nobody": {"Authorization", "HMAC-SHA256 Credential=nobody/20260102/r/cv/request, SignedHeaders=host;x-date, Signature=00"},
			"half a signature":        {"Authorization", "HMAC-SHA256 Credential=x"},
		} {
			if a := w.begun(path, headers...); a.status != http.StatusUnauthorized {
				t.Errorf("%s, %s: %d %s", path, name, a.status, a.body)
			}
		}
	}
}

func valueOf(headers []string, name string) string {
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == name {
			return headers[i+1]
		}
	}
	return ""
}

// TestAnAPIKeyMayLookLikeASignature: a key that is known is taken for a key.
func TestAnAPIKeyMayLookLikeASignature(t *testing.T) {
	t.Parallel()
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJnYXRld2F5In0.c2lnbmF0dXJl"
	w := newWorld(t, func(c *config.Config) {
		c.APIKeys = []config.APIKey{{Tenant: "acme", KeyEnv: "ACME", Key: config.NewSecret(jwt)}}
	})
	for path, body := range map[string]string{klingText: klingBody, "/v1/videos": videosBody, jimengSubmit: jimengBody} {
		if a := w.post(path, body, "Authorization", "Bearer "+jwt); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// TestSignaturesOpenTheContent: a tenant that has only a key pair reads what the
// vendors' answers link to.
func TestSignaturesOpenTheContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, upstreamAt(newHost(t, serveFilm)), onlyAPair)
	created := w.post(klingText, klingBody, w.signedBy(kling.NewJWT(pairKey, pairSecret), http.MethodPost, klingText, klingBody)...)
	if created.status != http.StatusOK {
		t.Fatalf("create: %d %s", created.status, created.body)
	}
	id := created.header.Get("Genbus-Job-Id")
	e := w.startVideo("acme", id)
	next, err := task.Completed(videoOf(e), time.Now(), task.Result{Videos: []*genbusv1.Video{{Url: w.cfg.Upstreams["sandbox"].BaseURL + "/x.mp4"}}})
	w.commit(e, next, err)
	path := contentOf(id)
	read := w.get(klingText+"/"+id, w.signedBy(kling.NewJWT(pairKey, pairSecret), http.MethodGet, klingText+"/"+id, "")...)
	if !strings.Contains(read.body, w.http.URL+path) {
		t.Errorf("the answer does not link to the content: %s", read.body)
	}
	for name, row := range map[string]struct {
		signer upstream.Authorizer
		status int
	}{
		"kling":                 {kling.NewJWT(pairKey, pairSecret), 200},
		"jimeng":                {jimeng.NewSigner(pairKey, pairSecret), 200},
		"kling, another pair":   {kling.NewJWT("ak-nobody", pairSecret), 401},
		"kling, another secret": {kling.NewJWT(pairKey, "another-secret-of-it"), 401},
		"jimeng, another":       {jimeng.NewSigner(pairKey, "another-secret-of-it"), 401},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			a := w.do(method, path, "", w.signedBy(row.signer, method, path, "")...)
			if a.status != row.status || method == http.MethodGet && row.status == http.StatusOK && a.body != string(film) {
				t.Errorf("%s, %s: %d %.200s", method, name, a.status, a.body)
			}
		}
	}
	if a := w.get(path); a.status != http.StatusUnauthorized || a.errorCode(t) != "invalid_api_key" {
		t.Errorf("nobody: %d %s", a.status, a.body)
	}
	// The other paths take API keys alone, and a signature of another path is none.
	for at, signer := range map[string]upstream.Authorizer{
		"/v1/videos/" + id: kling.NewJWT(pairKey, pairSecret), path + "?index=0": jimeng.NewSigner(pairKey, pairSecret),
	} {
		if a := w.get(at, w.signedBy(signer, http.MethodGet, path, "")...); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", at, a.status, a.body)
		}
	}
}

// TestResultsThatNeedOurKeyAreReplaced: a URL on the origin of an upstream that
// is called with a key is of no use to a client.
func TestResultsThatNeedOurKeyAreReplaced(t *testing.T) {
	t.Parallel()
	up := newHost(t, serveFilm)
	ours, other := up.URL+"/v1/videos/task_1/content", "https://cdn.example/1.mp4"
	finish := func(w *world, metadata string, urls ...string) string {
		e := w.startVideo("default", w.newVideoObject())
		result := task.Result{Metadata: []byte(metadata)}
		for _, url := range urls {
			result.Videos = append(result.Videos, &genbusv1.Video{Url: url})
		}
		next, err := task.Completed(videoOf(e), time.Now(), result)
		w.commit(e, next, err)
		return e.Job.GetId()
	}
	w := newWorld(t, upstreamAt(up))
	id := finish(w, `{"url":"`+ours+`","b":[1, 2]}`, ours, other, strings.ToUpper(up.URL[:4])+up.URL[4:]+"/3")
	here := w.http.URL + contentOf(id)
	object := w.get("/v1/videos/" + id)
	metadata, _ := object.json(t)["metadata"].(map[string]any)
	if metadata["url"] != here || metadata["b"] == nil || strings.Contains(object.body, up.URL) {
		t.Errorf("%s", object.body)
	}
	generation := w.get("/v1/video/generations/" + id)
	videos, _ := generation.json(t)["videos"].([]any)
	for i, want := range []string{here, other, here + "?index=2"} {
		if v, _ := videos[i].(map[string]any); v["url"] != want {
			t.Errorf("video %d has the URL %v, want %s", i, v["url"], want)
		}
	}
	w.await("the list", func() bool { return strings.Contains(w.get("/v1/videos").body, here) })
	if a := w.get(klingText + "/" + id); strings.Contains(a.body, up.URL) {
		t.Errorf("on a vendor's path: %s", a.body)
	}
	// Metadata alone may name it, and a URL of another host stays.
	if a := w.get("/v1/videos/" + finish(w, `{"url":"`+ours+`"}`, other)); strings.Contains(a.body, up.URL) {
		t.Errorf("metadata alone: %s", a.body)
	}
	if a := w.get("/v1/videos/" + finish(w, `{"url":"`+other+`"}`, other)); strings.Contains(a.body, "/content") {
		t.Errorf("of another host: %s", a.body)
	}
	// One that has expired is replaced where there is a copy, in the metadata too.
	blob, _ := w.archived("copy", film)
	e := w.startVideo("default", w.newVideoObject())
	next, err := task.Completed(videoOf(e), time.Now(), task.Result{
		Metadata: []byte(`{"url":"` + other + `"}`), Archive: &genbusv1.Archive{Files: []*genbusv1.BlobRef{blob}},
		Videos: []*genbusv1.Video{{Url: "https://x/0"}, {Url: other, Archived: blob, ExpiresAt: timestamppb.New(time.Now().Add(-time.Minute))}},
	})
	w.commit(e, next, err)
	if a := w.get("/v1/videos/" + e.Job.GetId()); strings.Contains(a.body, other) || !strings.Contains(a.body, contentOf(e.Job.GetId())+"?index=1") {
		t.Errorf("expired: %s", a.body)
	}
	open := newWorld(t, upstreamAt(up), func(c *config.Config) {
		u := c.Upstreams["sandbox"]
		u.Key = config.Secret{}
		c.Upstreams["sandbox"] = u
	})
	if a := open.get("/v1/videos/" + finish(open, `{"url":"`+ours+`"}`, ours)); strings.Count(a.body, ours) != 1 || strings.Contains(a.body, open.http.URL) {
		t.Errorf("without a key: %s", a.body)
	}
}

// TestVendorListReadsOnlyItsPage, however late it is.
func TestVendorListReadsOnlyItsPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 30
	for range n {
		if a := w.post(klingText, klingBody); a.status != http.StatusOK {
			t.Fatalf("create: %d %s", a.status, a.body)
		}
	}
	ids := func(query string) (ids []string) {
		data, _ := w.get(klingText + query).json(t)["data"].([]any)
		for _, d := range data {
			m, _ := d.(map[string]any)
			ids = append(ids, fmt.Sprint(m["task_id"]))
		}
		return ids
	}
	var all []string
	w.await("the list", func() bool { all = ids("?pageSize=500"); return len(all) == n })
	before := w.broker.Conn().Stats().OutMsgs
	last := ids("?pageNum=30&pageSize=1")
	if read := w.broker.Conn().Stats().OutMsgs - before; len(last) != 1 || last[0] != all[n-1] || read > 5 {
		t.Errorf("the last page is %v, want %s; %d messages to the broker", last, all[n-1], read)
	}
	if got := ids("?pageNum=31&pageSize=1"); got != nil {
		t.Errorf("beyond the last page: %v", got)
	}
}

// TestDownloadsBeyondTheFile: by gRPC and by HTTP, whether or not the upstream
// says how long the file is.
func TestDownloadsBeyondTheFile(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"its length is told": serveFilm,
		"its length is not told": func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Header.Get("Range"), "bytes=5000-") {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return
			}
			serveFilm(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, upstreamAt(newHost(t, handler)))
			id := w.completed(&genbusv1.Video{})
			client := genbusv1.NewVideoServiceClient(w.dial())
			download := func(offset, length int64) ([]byte, error) {
				m := &genbusv1.DownloadVideoRequest{Id: id, Offset: offset, Length: length}
				return readPieces(must[grpc.ServerStreamingClient[genbusv1.DownloadVideoResponse]](t)(client.DownloadVideo(t.Context(), m)))
			}
			for _, length := range []int64{0, 1, math.MaxInt64 - 5000, math.MaxInt64 - 4999, math.MaxInt64} {
				_, err := download(5000, length)
				checkStatus(t, err, codes.InvalidArgument, fault.InvalidRequest)
			}
			for _, length := range []int64{998, math.MaxInt64 - 2, math.MaxInt64 - 1, math.MaxInt64} {
				if data, err := download(2, length); err != nil || string(data) != string(film[2:]) {
					t.Errorf("length %d: %d bytes, %v", length, len(data), err)
				}
			}
			a := w.get(contentOf(id), "Range", "bytes=5000-")
			if a.status != http.StatusRequestedRangeNotSatisfiable || a.body != "" || a.header["Content-Type"] != nil || a.header["Content-Disposition"] != nil {
				t.Errorf("HTTP: %d %v %q", a.status, a.header, a.body)
			}
		})
	}
}

// TestNoIDOfAPathIsEchoed in a header, unless there is such a task.
func TestNoIDOfAPathIsEchoed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"video_none", "a%00%01%0d%0aSet-Cookie:x%ff", "video_aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		for method, path := range map[string]string{http.MethodGet: contentOf(id), http.MethodDelete: "/v1/videos/" + id} {
			a := w.do(method, path, "")
			if a.status != http.StatusNotFound || a.header["Genbus-Job-Id"] != nil {
				t.Errorf("%s %s: %d %v", method, path, a.status, a.header)
			}
		}
	}
}

// TestOneKeyNamesATask: with two of them a query by the vendor's own id would not
// find the task.
func TestOneKeyNamesATask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const body = `{"model_name":"sandbox-kling","prompt":"a","external_task_id":"mine"}`
	a := w.post(klingText, body, "Idempotency-Key", "k")
	if a.status != http.StatusBadRequest || a.vendorCode(t) != 1201 || !strings.Contains(a.body, "Idempotency-Key") || !strings.Contains(a.body, "external_task_id") {
		t.Errorf("both: %d %s", a.status, a.body)
	}
	if a := w.get(klingText + "/mine"); a.status != http.StatusNotFound {
		t.Errorf("accepted all the same: %d %s", a.status, a.body)
	}
	for _, headers := range [][]string{nil, {"Idempotency-Key", ""}} {
		if a := w.post(klingText, body, headers...); a.status != http.StatusOK {
			t.Errorf("external_task_id alone: %d %s", a.status, a.body)
		}
	}
	if a := w.post(klingText, klingBody, "Idempotency-Key", "k"); a.status != http.StatusOK {
		t.Errorf("Idempotency-Key alone: %d %s", a.status, a.body)
	}
}

// TestListGoesOnAfterAnErasedTask, as when a client erases what it has listed.
func TestListGoesOnAfterAnErasedTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 5
	for range n {
		w.newVideoObject()
	}
	w.await("the list", func() bool { data, _ := w.get("/v1/videos").json(t)["data"].([]any); return len(data) == n })
	w.letGo()
	erased, after := 0, ""
	for more := any(true); more == true; {
		page := w.get("/v1/videos?limit=2&after=" + after)
		if page.status != http.StatusOK {
			t.Fatalf("after %s: %d %s", after, page.status, page.body)
		}
		v := page.json(t)
		after, more = fmt.Sprint(v["last_id"]), v["has_more"]
		data, _ := v["data"].([]any)
		for _, d := range data {
			m, _ := d.(map[string]any)
			if a := w.do(http.MethodDelete, fmt.Sprintf("/v1/videos/%s", m["id"]), ""); a.status != http.StatusOK {
				t.Fatalf("erase: %d %s", a.status, a.body)
			}
			erased++
		}
	}
	if erased != n {
		t.Errorf("%d tasks were listed and erased, want %d", erased, n)
	}
	for _, id := range []string{"video_none", "video_aaaaaaaaaaaaaaaaaaaaaaaaaa"} {
		if a := w.get("/v1/videos?after=" + id); a.status != http.StatusNotFound || a.errorCode(t) != "task_not_found" {
			t.Errorf("after %s: %d %s", id, a.status, a.body)
		}
	}
}
