package content_test

import (
	"bufio"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// accessDenied is the answer of S3 and TOS to an expired signature.
const accessDenied = `<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message><X-Signature>hunter2hunter2</X-Signature></Error>`

func TestRefusals(t *testing.T) {
	t.Parallel()
	const flat = `{"error":{"message":"Task is not completed yet","code":"not_ready","type":"invalid_request_error"}}`
	for _, row := range []struct {
		status       int
		body         string
		own, foreign errcode.Code
	}{
		{400, flat, errcode.ContentUnavailable, errcode.ContentUnavailable},
		{400, `<Error><Code>ExpiredToken</Code></Error>`, errcode.ContentUnavailable, errcode.ContentExpired},
		{401, flat, errcode.ContentUnavailable, errcode.ContentExpired},
		{403, accessDenied, errcode.ContentUnavailable, errcode.ContentExpired},
		{404, flat, errcode.ContentExpired, errcode.ContentExpired},
		{410, "", errcode.ContentExpired, errcode.ContentExpired},
		{429, flat, errcode.ContentUnavailable, errcode.ContentUnavailable},
		{500, "panic", errcode.ContentUnavailable, errcode.ContentUnavailable},
		{502, "<html><title>Bad Gateway</title></html>", errcode.ContentUnavailable, errcode.ContentUnavailable},
		{503, flat, errcode.ContentUnavailable, errcode.ContentUnavailable},
		{304, "", errcode.ContentUnavailable, errcode.ContentUnavailable},
		{300, flat, errcode.ContentUnavailable, errcode.ContentUnavailable},
		{416, "", errcode.ContentUnavailable, errcode.ContentUnavailable}, // without a Range
	} {
		w := newWorld(t)
		handler := func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Retry-After", "7")
			rw.Header().Set("X-Request-Id", "r1")
			answer(row.status, "", row.body)(rw, r)
		}
		w.own.mux.HandleFunc("/file", handler)
		w.foreign.mux.HandleFunc("/file", handler)
		check := func(base string, code errcode.Code, who string) {
			e := w.failure(w.at(base+"/file"+signed), code, fmt.Sprintf("%s: answered %d", who, row.status))
			if e.RetryAfter != 7*time.Second || e.UpstreamHTTPStatus != row.status || e.UpstreamRequestID != "r1" {
				t.Errorf("%d: got %+v", row.status, e)
			}
			if row.body == flat && (e.UpstreamCode != "not_ready" || !strings.Contains(e.Message, "Task is not completed yet")) {
				t.Errorf("%d: the upstream's words are lost: %+v", row.status, e)
			}
			if strings.Contains(e.Message, "<") {
				t.Errorf("%d: a page stands in %q", row.status, e.Message)
			}
		}
		check(w.own.URL, row.own, "upstream sora")
		check(w.foreign.URL, row.foreign, "host "+strings.TrimPrefix(w.foreign.URL, "http://"))
	}
}

// TestErrorsGiveNothingAway checks that errors reveal neither keys nor signed URLs, even if an
// answer repeats them.
func TestErrorsGiveNothingAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own.mux.HandleFunc("/file", answer(500, "application/json", `{"error":{"code":"`+testKey+`","message":"key `+testKey+
		` for /file?X-Signature=hunter2hunter2&e=1 and hunter2hunter2, moved to https://u:hunter2@other/x?X-Signature=hunter2 ok"}}`))
	e := w.failure(w.at(w.own.URL+"/file"+signed), errcode.ContentUnavailable, "https://other/x ok")
	if strings.Count(e.Message, "[redacted]") != 3 {
		t.Errorf("got %q", e.Message)
	}
	// In an error sent with status 200.
	w.own.mux.HandleFunc("/json", answer(200, "application/json", `{"code":"c","message":"`+testKey+` hunter2hunter2"}`))
	w.wantError(w.at(w.own.URL+"/json"+signed), errcode.ContentUnavailable, "[redacted] [redacted]")
	// In an answer of a foreign host that only a redirect named.
	w.foreign.mux.HandleFunc("/file", answer(403, "application/json", `{"message":"hunter2hunter2"}`))
	w.own.mux.Handle("/redirect", redirect(302, w.foreign.URL+"/file"+signed))
	w.wantError(w.at(w.own.URL+"/redirect"), errcode.ContentExpired, "403 Forbidden: [redacted]")
	// In a failed connection.
	w.foreign.Close()
	w.wantError(w.at(strings.Replace(w.foreign.URL, "http://", "http://user:hunter2hunter2@", 1)+"/file"+signed), errcode.ContentUnavailable, "no answer: dial: ")
}

// signer is an Authorizer whose secrets must not appear in errors.
type signer struct{}

func (signer) Authorize(req *http.Request, body []byte) error {
	req.Header.Set("X-Signed-Path", req.URL.Path)
	return nil
}
func (signer) Secrets() []string { return []string{"hunter2-secret-key"} }

func TestSignedEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.endpoint.Auth = signer{}
	w.own.mux.HandleFunc("/file", serveVideo)
	w.own.mux.HandleFunc("/error", answer(500, "", `{"message":"bad hunter2-secret-key"}`))
	w.wantVideo(w.at(w.own.URL + "/file"))
	if r := w.own.requests()[0]; r.Header.Get("X-Signed-Path") != "/file" || r.Header.Get("Authorization") != "" {
		t.Errorf("called with %v", r.Header)
	}
	w.wantError(w.at(w.own.URL+"/error"), errcode.ContentUnavailable, "bad [redacted]")
}

func TestAnswersThatAreNoVideo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		says    string
	}{
		"page":            {answer(200, "text/html; charset=utf-8", "<p>log in</p>"), "a web page"},
		"page, untyped":   {answer(200, "", "<!DOCTYPE html><p>log in</p>"), "a web page"},
		"JSON error":      {answer(200, "application/json", `{"code":"task_failed","message":"gone wrong"}`), "gone wrong"},
		"JSON error code": {answer(200, "application/json", `{"code":1303}`), "1303"},
		"JSON, untyped":   {answer(200, "", ` {"message":"gone wrong"}`), "gone wrong"},
		"JSON, as bytes":  {answer(200, "application/octet-stream", `{"message":"gone wrong"}`), "gone wrong"},
		"JSON, no URL":    {answer(200, "application/json", `{"id":"video_1","url":""}`), "JSON without a URL"},
		"JSON, cut":       {answer(200, "application/json", `{"url":"http`), "JSON without a URL"},
		"JSON, a list":    {answer(200, "application/problem+json", `[]`), "JSON without a URL"},
		"JSON, huge":      {answer(200, "application/json", `{"a":"`+strings.Repeat("x", 1<<20)+`"}`), "more than 1048576 bytes"},
		"accepted":        {answer(202, "video/mp4", ""), "202 Accepted"},
		"no content":      {answer(204, "", ""), "204 No Content"},
		"empty":           {answer(200, "video/mp4", ""), "200 OK"},
		"gzip": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(rw)
			_, _ = z.Write(video)
			_ = z.Close()
		}, `compressed content (Content-Encoding "gzip")`},
		"gzip, damaged JSON": {zipped(200, "application/json", `{"url":"x"}`, "damaged"), "damaged"},
		"gzip, JSON cut off": {func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			answer(200, "application/json", "\x1f\x8b\x08\x00")(rw, r)
		}, "invalid JSON instead of a video: its gzip data is cut off"},
		"gzip, JSON error": {zipped(200, "application/json", `{"message":"gone wrong"}`, ""), "gone wrong"},
		"gzip, huge JSON":  {zipped(200, "application/json", `{"a":"`+strings.Repeat("x", 1<<20)+`"}`, ""), "more than 1048576 bytes"},
		"gzip, a part of JSON": {func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Range", "bytes 0-9/100")
			zipped(206, "application/json", `{"message":"gone wrong"}`, "")(rw, r)
		}, `compressed content (Content-Encoding "gzip")`},
		"gzip, refused": {zipped(500, "application/json", `{"message":"gone wrong"}`, ""), "gone wrong"},
		"a part": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Range", "bytes 0-9/100")
			rw.WriteHeader(http.StatusPartialContent)
			_, _ = rw.Write(video[:10])
		}, "a different part"},
		"a part, unsaid": {answer(206, "video/mp4", "0123456789"), "an unidentified part"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.own.mux.HandleFunc("/file", c.handler)
			if e := w.failure(w.at(w.own.URL+"/file"), errcode.ContentUnavailable, c.says); e.UpstreamHTTPStatus == 0 {
				t.Errorf("the status is lost: %+v", e)
			}
		})
	}
}

// zipped is answer compressed with gzip, with end in place of its last bytes.
func zipped(status int, contentType, body, end string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		var b strings.Builder
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(body))
		_ = z.Close()
		rw.Header().Set("Content-Encoding", "gzip")
		answer(status, contentType, b.String()[:b.Len()-len(end)]+end)(rw, r)
	}
}

// TestGzipJSONThatNamesTheURL checks that gzipped JSON that names the URL is decoded, both from the
// upstream and from another host.
func TestGzipJSONThatNamesTheURL(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.foreign.mux.HandleFunc("GET /file", serveVideo)
	w.foreign.mux.Handle("GET /where", zipped(200, "application/json", `{"url":"`+w.foreign.URL+`/file"}`, ""))
	w.own.mux.Handle("/base/v1/content", zipped(200, "application/json; charset=utf-8", `{"url":"`+w.foreign.URL+`/where"}`, ""))
	w.wantVideo(content.Place{Endpoint: w.endpoint, Path: "/v1/content", PrivateOK: true})
}

func TestJSONThatNamesTheURL(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"url":"URL"}`, `{"video_url":"URL"}`, `{"download_url":" URL "}`, `{"result_url":"URL"}`,
		`{"data":{"url":"URL"}}`, `{"metadata":{"url":"URL"}}`, `{"output":["URL"]}`, `{"unsigned_urls":["URL"]}`,
		`{"data":[{"url":"URL"}]}`, `{"video":{"url":"URL"}}`, `{"content":{"video_url":"URL"}}`,
		`{"data":{"task_result":{"videos":[{"id":"1","url":"URL"}]}}}`,
		`{"url":null,"code":"success","data":{"status":"SUCCESS","url":"","result_url":"URL"}}`,
		`{"url":"not a URL","url":"","data":"URL","error":null}`,
	} {
		for _, kind := range []string{"application/json; charset=utf-8", "", "application/octet-stream"} {
			w := newWorld(t)
			w.foreign.mux.HandleFunc("GET /file", serveVideo)
			w.own.mux.Handle("/base/v1/content", answer(200, kind, strings.ReplaceAll(body, "URL", w.foreign.URL+"/file"+signed)))
			w.wantVideo(content.Place{Endpoint: w.endpoint, Path: "/v1/content", PrivateOK: true})
			wantNoSecrets(t, w.foreign.requests()[0])
		}
	}
	w := newWorld(t)
	w.own.mux.Handle("/base/v1/content", answer(200, "application/json", `{"url":"`+w.own.URL+`/file"}`))
	w.own.mux.HandleFunc("GET /file", serveVideo)
	w.wantVideo(content.Place{Endpoint: w.endpoint, Path: "/v1/content"})
	if got := w.own.requests()[1].Header.Get("Authorization"); got != "Bearer "+testKey {
		t.Errorf("the own origin was called with %q", got)
	}
	w.own.mux.Handle("/base/v1/data", answer(200, "application/json", `{"url":"data:video/mp4;base64,`+base64.StdEncoding.EncodeToString(video)+`"}`))
	w.wantVideo(content.Place{Endpoint: w.endpoint, Path: "/v1/data"})
}

func TestTypes(t *testing.T) {
	t.Parallel()
	const (
		mp4  = "\x00\x00\x00\x20ftypisom"
		mov  = "\x00\x00\x00\x14ftypqt  "
		old  = "\x00\x00\x00\x08wide\x00\x00"
		webm = "\x1a\x45\xdf\xa3\x01\x00\x00\x00\x00\x00\x00\x1f\x42\x82\x84webm"
		mkv  = "\x1a\x45\xdf\xa3\x01\x00\x00\x00\x00\x00\x00\x1f\x42\x82\x88matroska"
	)
	for _, row := range []struct{ declared, body, want string }{
		{"", mp4, "video/mp4"},
		{"application/octet-stream", mp4, "video/mp4"},
		{"binary/octet-stream", webm, "video/webm"},
		{"nonsense", mov, "video/quicktime"},
		{"", old, "video/quicktime"},
		{"", mkv, "video/x-matroska"},
		{"", "x", "application/octet-stream"},
		{"video/webm; codecs=vp9", mp4, "video/webm; codecs=vp9"},
		{"VIDEO/MP4", "x", "video/mp4"},
		{"image/webp", "x", "image/webp"},
		{"image/svg+xml", mp4, "application/octet-stream"},
		{"text/plain", mp4, "application/octet-stream"},
		{"text/javascript", "x", "application/octet-stream"},
		{"application/javascript", "x", "application/octet-stream"},
		{"application/x-ecmascript", "x", "application/octet-stream"},
		{"application/xhtml+xml", "x", "application/octet-stream"},
		{"multipart/mixed; boundary=a", "x", "application/octet-stream"},
	} {
		w := newWorld(t)
		w.own.mux.HandleFunc("/file", answer(200, row.declared, row.body))
		f, data, err := w.open(w.at(w.own.URL+"/file"), content.Request{})
		if err != nil || f.Type != row.want || string(data) != row.body {
			t.Errorf("%q with %.12q: got %+v, %v, want %s", row.declared, row.body, f, err, row.want)
		}
	}
}

// TestShortBody checks that a truncated body never passes as complete.
func TestShortBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cut := func(header string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			conn, buf, err := http.NewResponseController(rw).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(buf, "HTTP/1.1 "+header+"\r\nContent-Type: video/mp4\r\n\r\n")
			_, _ = buf.Write(video[:1000])
			_ = buf.Flush()
			_ = conn.Close()
		}
	}
	for path, c := range map[string]struct{ header, ask string }{
		"/length":  {"200 OK\r\nContent-Length: 5000", ""},
		"/cut":     {"200 OK\r\nContent-Length: 5000", "bytes=500-"},
		"/skipped": {"200 OK\r\nContent-Length: 5000", "bytes=2000-"},
		"/chunked": {"200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1000", ""},
		"/part":    {"206 Partial Content\r\nConnection: close\r\nContent-Range: bytes 0-4999/5000", "bytes=0-"},
	} {
		w.own.mux.HandleFunc(path, cut(c.header))
		_, data, err := w.open(w.at(w.own.URL+path), content.Request{Range: c.ask})
		if errcode.CodeOf(err) != errcode.ContentUnavailable || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %d bytes, %v", path, len(data), err)
		}
	}
}

func TestNotReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own.Close()
	w.wantError(content.Place{Endpoint: w.endpoint, Path: "/v1/content"}, errcode.ContentUnavailable, "upstream sora: no answer: dial")
	w.endpoint.Auth = failing{}
	w.wantError(content.Place{Endpoint: w.endpoint, Path: "/v1/content"}, errcode.ContentUnavailable, "no clock")
}

// TestOtherServersAreNotQuoted checks that an error does not quote a server that speaks no HTTP: a
// result's URL may lead to any port, and callers must not learn what listens there.
func TestOtherServersAreNotQuoted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = io.WriteString(conn, "SSH-2.0-inner_9.6p1 banner\r\n")
			_ = conn.Close()
		}
	}()
	w := newWorld(t)
	e := w.failure(w.at("http://"+l.Addr().String()+"/file"), errcode.ContentUnavailable, "the answer is not valid HTTP")
	if strings.Contains(e.Message, "banner") || strings.Contains(e.Message, "SSH") {
		t.Errorf("got %q", e.Message)
	}
}

type failing struct{ signer }

func (failing) Authorize(*http.Request, []byte) error {
	return &upstream.Error{Op: "sign", Message: "no clock"}
}
