package upstream

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"unicode"
)

func zipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// encoded returns a handler that sends one answer, with a Content-Encoding unless it is empty.
func encoded(status int, encoding string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

func ask(t *testing.T, ep *Endpoint) ([]byte, *Error) {
	t.Helper()
	_, body, err := ep.Call(t.Context(), OpPoll, http.MethodGet, "/v1/x", nil, nil)
	return body, AsError(OpPoll, err)
}

func TestIdentityIsAskedFor(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 1)
	ep := testEndpoint(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header })
	ep.Header = http.Header{"Accept-Encoding": {"gzip"}}
	if _, err := ask(t, ep); err != nil {
		t.Fatal(err)
	}
	if h := <-got; len(h["Accept-Encoding"]) != 1 || h.Get("Accept-Encoding") != "identity" {
		t.Errorf("Accept-Encoding = %q", h["Accept-Encoding"])
	}
}

// TestEncodedAnswers checks that gzip is decoded, and that other words and data that a proxy has
// already decoded are left alone.
func TestEncodedAnswers(t *testing.T) {
	t.Parallel()
	const text = `{"id":"t"}`
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		want     string
	}{
		"gzip":                 {"gzip", zipped(t, text), text},
		"x-gzip":               {"x-gzip", zipped(t, text), text},
		"GZIP":                 {"GZIP ", zipped(t, text), text},
		"gzip, identity":       {"identity, gzip", zipped(t, text), text},
		"gzip of two members":  {"gzip", append(zipped(t, text[:4]), zipped(t, text[4:])...), text},
		"gzip and a newline":   {"gzip", append(zipped(t, text), "\r\n"...), text},
		"gzip and zeros":       {"gzip", append(zipped(t, text), 0, 0, 0, 0), text},
		"gzip and garbage":     {"gzip", append(zipped(t, text), "\x00\x01garbage here"...), text},
		"gzip of nothing":      {"gzip", nil, ""},
		"gzip, decoded before": {"gzip", []byte(text), text},
		"gzip, one byte":       {"gzip", []byte("7"), "7"},
		"identity":             {"identity", []byte(text), text},
		"no coding":            {"utf-8", []byte(text), text},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := ask(t, testEndpoint(t, encoded(200, c.encoding, c.body)))
			if err != nil || string(body) != c.want {
				t.Errorf("read %q, %v", body, err)
			}
		})
	}
}

// TestUnreadableAnswersAreNamed checks that an error describes an unreadable answer but quotes it
// only if it is text.
func TestUnreadableAnswersAreNamed(t *testing.T) {
	t.Parallel()
	var deflated bytes.Buffer
	z := zlib.NewWriter(&deflated)
	_, _ = z.Write([]byte(`{"id":"t"}`))
	_ = z.Close()
	good := zipped(t, `{"id":"t"}`)
	wrongSum := bytes.Clone(good)
	wrongSum[len(wrongSum)-8] ^= 1
	for name, c := range map[string]struct {
		encoding string
		body     []byte
		says     string
	}{
		"br":             {"br", []byte("\x0b\x04\x80{\"id\":\"t\"}\x03"), `14 bytes of binary data (Content-Type "application/json", Content-Encoding "br")`},
		"zstd":           {"zstd", []byte("\x28\xb5\x2f\xfd\x00\x58"), `(Content-Type "application/json", Content-Encoding "zstd")`},
		"deflate":        {"deflate", deflated.Bytes(), `Content-Encoding "deflate"`},
		"br of gzip":     {"gzip, br", []byte("\x0b\x04\x80"), `Content-Encoding "gzip, br"`},
		"a long name":    {strings.Repeat("x", 5000), []byte("\x0b\x04\x80"), `x")`},
		"undeclared":     {"", good, "undeclared gzip data"},
		"gzip in gzip":   {"gzip", zipped(t, string(good)), "undeclared gzip data"},
		"cut off":        {"gzip", good[:len(good)-9], "its gzip data is cut off"},
		"cut in header":  {"gzip", good[:5], "its gzip data is cut off"},
		"without a sum":  {"gzip", good[:len(good)-8], "its gzip data is cut off"},
		"wrong checksum": {"gzip", wrongSum, "the answer's gzip data is damaged: gzip: invalid checksum"},
		"wrong data":     {"gzip", append(bytes.Clone(good[:10]), "\xff\xff\xff\xff"...), "the answer's gzip data is damaged: flate: corrupt input"},
		"wrong header":   {"gzip", []byte("\x1f\x8b\x07\x00\x00\x00\x00\x00\x00\x00"), "the answer's gzip data is damaged: gzip: invalid header"},
		"binary":         {"", []byte("\x00\x01\x02\xff"), `4 bytes of binary data (Content-Type "application/json")`},
		"a control code": {"", []byte("bad\x1b[31m"), "8 bytes of binary data"},
		"text":           {"", []byte("Too busy,\n\tcome back later"), "Too busy,\n\tcome back later"},
		"a long text":    {"", []byte("a" + strings.Repeat("好", 2000)), "好好"},
		"a binary title": {"", []byte("<title>\x00\x01</title>"), "an HTML page"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, status := range []int{200, 502} {
				ep := testEndpoint(t, encoded(status, c.encoding, c.body))
				_, err := ep.Poll(t.Context(), TaskRef{ID: "t"}, PollCall{Path: "/v1/x", Read: func(*http.Response, []byte) (VideoState, bool, error) {
					return VideoState{}, false, nil
				}})
				e := AsError(OpPoll, err)
				if e == nil || !strings.Contains(e.Message, c.says) || e.HTTPStatus != status || e.Reported || len(e.Message) > maxMessage {
					t.Errorf("status %d: %+v", status, e)
					continue
				}
				if strings.ContainsFunc(e.Message, func(r rune) bool {
					return !unicode.IsPrint(r) && r != '\n' && r != '\t' || r == unicode.ReplacementChar
				}) {
					t.Errorf("bytes of the answer are quoted: %q", e.Message)
				}
			}
		})
	}
}

// TestAGzipRefusalIsRead checks that a compressed refusal is judged like a plain one.
func TestAGzipRefusalIsRead(t *testing.T) {
	t.Parallel()
	ep := testEndpoint(t, encoded(400, "gzip", zipped(t, `{"error":{"code":"bad_size","message":"the size is not possible"}}`)))
	sub := ep.Submit(t.Context(), VideoCreate{JobID: "video_1"}, SubmitCall{Path: "/v1/x", Body: []byte(`{}`), Outcomes: StatusRows})
	if e := sub.Err; sub.Verdict != RefusedForGood || e.Code != "bad_size" || e.Message != "the size is not possible" || !e.Reported {
		t.Errorf("submission = %+v, %+v", sub, sub.Err)
	}
}

// TestABrokenConnectionWithinGzip checks that a connection that breaks is not reported as damaged
// gzip data.
func TestABrokenConnectionWithinGzip(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	ep := testEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(zipped(t, `{"id":"t"}`)[:15])
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/v1/reset" {
			panic(http.ErrAbortHandler)
		}
		<-release
	})
	defer close(release)
	_, _, err := ep.Call(t.Context(), OpPoll, http.MethodGet, "/v1/reset", nil, nil)
	if e := AsError(OpPoll, err); e == nil || e.Message != "the connection broke during the answer: unexpected EOF" {
		t.Errorf("reset: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	req, err := ep.NewRequest(ctx, http.MethodGet, "/v1/cancelled", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := ep.Do(OpPoll, req)
	if err != nil {
		t.Fatal(err)
	}
	cancel(errors.New("we stop"))
	_, err = ep.AppendBody(OpPoll, resp, nil)
	if e := AsError(OpPoll, err); e == nil || e.Message != "the connection broke during the answer: we stop" {
		t.Errorf("cancelled: %v", err)
	}
}

// TestGzipConnectionIsUsedAgain checks that decoding reads to the end of the answer, so that its
// connection is reused.
func TestGzipConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	from := make(chan string, 2)
	answer := encoded(200, "gzip", zipped(t, strings.Repeat(`{"id":"t"}`, 1000)))
	ep := testEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		from <- r.RemoteAddr
		answer(w, r)
	})
	for range 2 {
		if _, err := ask(t, ep); err != nil {
			t.Fatal(err)
		}
	}
	if first, second := <-from, <-from; first != second {
		t.Errorf("connections from %s and %s", first, second)
	}
}

// TestAGzipBomb checks that a bomb of 1 GiB is refused at the limit for plain answers. It is not
// parallel because it counts allocations.
func TestAGzipBomb(t *testing.T) { //nolint:paralleltest // see above
	member := zipped(t, strings.Repeat(" ", 1<<20))
	bomb := bytes.Repeat(member, 1<<10)
	ep := testEndpoint(t, encoded(200, "gzip", bomb))
	ep.MaxBody = 1 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := ask(t, ep)
	runtime.ReadMemStats(&after)
	if err == nil || err.Message != "the answer is longer than 1048576 bytes" || err.HTTPStatus != 200 {
		t.Errorf("error = %+v", err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
}

// TestSmallGzipDataThatGrows checks that data that grows too much is refused early, unlike a long
// answer that contains its result.
func TestSmallGzipDataThatGrows(t *testing.T) {
	t.Parallel()
	video := make([]byte, 1<<20)
	_, _ = rand.Read(video)
	for name, c := range map[string]struct{ answer, want string }{
		"a bomb":     {`{"id":"t"` + strings.Repeat(" ", 31<<20) + `}`, "the answer's gzip data grows more than 100 times"},
		"its result": {`{"id":"t","url":"data:video/mp4;base64,` + base64.StdEncoding.EncodeToString(video) + `"}`, ""},
		"short":      {`{"id":"t"` + strings.Repeat(" ", 1<<19) + `}`, ""},
	} {
		_, err := ask(t, testEndpoint(t, encoded(200, "gzip", zipped(t, c.answer))))
		if (err == nil) != (c.want == "") || err != nil && err.Message != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// FuzzDecode checks that decoding in pieces of any size agrees with gzip and never panics, and that
// errors have a reason.
func FuzzDecode(f *testing.F) {
	good := zipped(f, `{"id":"t"}`)
	for _, seed := range [][]byte{good, good[:7], good[:len(good)-3], append(bytes.Clone(good), good...), append(bytes.Clone(good), 0, 0), append(bytes.Clone(good), good[:5]...), []byte("{}"), {}, {0x1f}} {
		f.Add("gzip", seed, byte(1))
		f.Add("x-gzip", seed, byte(200))
		f.Add("br", seed, byte(7))
	}
	f.Fuzz(func(t *testing.T, encoding string, data []byte, piece byte) {
		resp := &http.Response{Header: http.Header{"Content-Encoding": {encoding}}, Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data))}
		Decode(resp)
		const limit = 1 << 20
		got, err := readPieces(resp.Body, int(piece)+1, limit)
		if _, again := resp.Body.Read(make([]byte, 8)); len(got) < limit && !sameEnd(err, again) {
			t.Errorf("the end did not stick: %v, then %v", err, again)
		}
		if !resp.Uncompressed || !bytes.HasPrefix(data, []byte("\x1f\x8b")) {
			if err != nil || !bytes.Equal(got, data[:min(len(data), limit)]) {
				t.Errorf("%d bytes as they are: %d, %v", len(data), len(got), err)
			}
			return
		}
		want, wantErr := members(data, limit)
		if !bytes.Equal(got, want) || (err == nil) != (wantErr == nil) {
			t.Errorf("%d bytes and %v, want %d and %v", len(got), err, len(want), wantErr)
		}
		if err != nil && !errors.Is(err, ErrBadGzip) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("error = %v", err)
		}
	})
}

// members decodes consecutive gzip members and ignores other data after the last.
func members(data []byte, limit int) (all []byte, err error) {
	in := bufio.NewReader(bytes.NewReader(data))
	z, err := gzip.NewReader(in)
	for err == nil {
		z.Multistream(false)
		var part []byte
		part, err = io.ReadAll(io.LimitReader(z, int64(limit-len(all))))
		all = append(all, part...)
		if head, _ := in.Peek(2); err != nil || len(all) == limit || string(head) != "\x1f\x8b" {
			return all, err
		}
		err = z.Reset(in)
	}
	return all, err
}

// TestGzipMembersComeAsTheyAreSent checks that each member is returned before the next arrives.
func TestGzipMembersComeAsTheyAreSent(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	r, w := io.Pipe()
	go func() {
		for text := range next {
			if _, err := w.Write(zipped(t, text)); err != nil {
				return
			}
		}
		_ = w.Close()
	}()
	resp := &http.Response{Header: http.Header{"Content-Encoding": {"gzip"}}, Body: r}
	Decode(resp)
	p := make([]byte, 100)
	for _, text := range []string{"one", "two", "three"} {
		next <- text
		if n, err := resp.Body.Read(p); err != nil || string(p[:n]) != text { // blocks forever if Read waits for the next member
			t.Fatalf("read %q, %v, want %q", p[:n], err, text)
		}
	}
	close(next)
	if n, err := resp.Body.Read(p); n != 0 || err != io.EOF {
		t.Errorf("the end is %d, %v", n, err)
	}
}

func sameEnd(first, again error) bool {
	if first == nil {
		return errors.Is(again, io.EOF)
	}
	return again != nil && first.Error() == again.Error()
}

// readPieces reads until an error or the limit. io.EOF is not an error.
func readPieces(r io.Reader, piece, limit int) (all []byte, err error) {
	for err == nil && len(all) < limit {
		p := make([]byte, min(piece, limit-len(all)))
		var n int
		n, err = r.Read(p)
		all = append(all, p[:n]...)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}
