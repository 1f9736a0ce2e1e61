package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/test/hostile"
)

// protocolRefusals are the 5xx statuses that net/http returns before any handler runs: for an
// unknown transfer coding, and for an unknown HTTP version.
var protocolRefusals = map[int]bool{http.StatusNotImplemented: true, http.StatusHTTPVersionNotSupported: true}

func (s *siege) attackHTTP() {
	s.send("http", 2600, 8, func(in *hostile.Source, _ int) (string, error) { return s.overHTTP(hostile.Request(in, s.target)) })
	wrong := hostile.WrongMembers()
	s.send("members", wrong, 8, func(in *hostile.Source, number int) (string, error) {
		kind, body := hostile.WrongMember(s.target, number%wrong)
		return s.postTo(in, pathOf(in, kind), "application/json", body)
	})
	s.send("json", 1200, 8, func(in *hostile.Source, _ int) (string, error) {
		kind := hostile.One(in, hostile.Kinds)
		return s.postTo(in, pathOf(in, kind), "application/json", hostile.JSON(in, kind, s.target))
	})
	s.send("forms", 700, 8, func(in *hostile.Source, _ int) (string, error) {
		form, contentType := hostile.Form(in, s.target)
		return s.postTo(in, "/v1/videos", contentType, form)
	})
}

// pathOf returns a path for bodies of a kind.
func pathOf(in *hostile.Source, kind hostile.Kind) string {
	var paths []string
	for _, e := range hostile.Creates {
		if e.Kind == kind {
			paths = append(paths, e.Path)
		}
	}
	return hostile.One(in, paths)
}

func (s *siege) postTo(in *hostile.Source, path, contentType string, body hostile.Input) (string, error) {
	return s.overHTTP(hostile.Input{Name: path + " " + body.Name, Bytes: hostile.Post(in, s.target, path, contentType, body.Bytes)})
}

// overHTTP sends the bytes over a connection and checks the answers.
func (s *siege) overHTTP(in hostile.Input) (string, error) {
	said, err := talk(s.HTTPAddr().String(), in)
	if err == nil {
		err = judgeHTTP(in, said)
	}
	if err != nil {
		err = fmt.Errorf("%w\nsent %.300q\nreceived %.600q", err, in.Bytes, said)
	}
	return in.Name, err
}

// talk sends bytes over a new connection and reads until it ends.
func talk(address string, in hostile.Input) ([]byte, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return nil, err
	}
	conn, _ := c.(*net.TCPConn)
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = conn.Write(in.Bytes) // the server may stop reading
		if in.Cut {
			_ = conn.CloseWrite()
		}
	}()
	said, err := listen(conn, in)
	_ = c.Close()
	<-written
	return said, err
}

// listen reads the answers. If an answer keeps the connection open, it closes the sending side.
func listen(conn *net.TCPConn, in hostile.Input) ([]byte, error) {
	var said bytes.Buffer
	r := bufio.NewReader(io.TeeReader(conn, &said))
	asked := &http.Request{Method: http.MethodGet}
	if bytes.HasPrefix(in.Bytes, []byte("HEAD ")) {
		asked.Method = http.MethodHead
	}
	for {
		resp, err := http.ReadResponse(r, asked)
		if err != nil {
			return said.Bytes(), ended(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return said.Bytes(), ended(err)
		}
		if resp.StatusCode >= 200 && !resp.Close && !bytes.Contains(in.Bytes, []byte("Connection: close\r\n")) {
			_ = conn.CloseWrite()
		}
	}
}

// ended returns nil if the server closed the connection.
func ended(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("no answer, and no end, within %s", answerWithin)
	}
	return nil
}

// judgeHTTP checks everything received over a connection.
func judgeHTTP(in hostile.Input, said []byte) error {
	for _, secret := range []string{hostileKey, hostileSecret, hostileUpstreamKey} {
		if bytes.Contains(said, []byte(secret)) {
			return errors.New("a secret in the answer")
		}
	}
	r := bufio.NewReader(bytes.NewReader(said))
	for first := true; ; first = false {
		if rest, _ := r.Peek(1); len(rest) == 0 {
			return nil
		}
		resp, err := http.ReadResponse(r, &http.Request{Method: methodOf(in)})
		if err != nil {
			return fmt.Errorf("what came is no answer: %w", err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err := judgeAnswer(in, resp, body, first); err != nil {
			return err
		}
	}
}

func methodOf(in hostile.Input) string {
	if bytes.HasPrefix(in.Bytes, []byte("HEAD ")) {
		return http.MethodHead
	}
	return http.MethodGet
}

func judgeAnswer(in hostile.Input, resp *http.Response, body []byte, first bool) error {
	code := resp.Header.Get("Genbus-Error-Code")
	switch {
	case resp.StatusCode >= 500 && !protocolRefusals[resp.StatusCode]:
		return fmt.Errorf("status %d, %s: %.300s", resp.StatusCode, code, body)
	case resp.StatusCode >= 500 && code != "":
		return fmt.Errorf("status %d from a handler", resp.StatusCode)
	case resp.Header.Get("X-Injected") != "" || resp.Header.Get("Set-Cookie") != "":
		return errors.New("a header of the sender's")
	case !first && strings.HasPrefix(in.Name, "framing: length and chunks"):
		return errors.New("a second answer to a request whose end two headers tell differently")
	}
	if to := resp.Header.Get("Location"); to != "" && (!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.HasPrefix(to, `/\`)) {
		return fmt.Errorf("redirected to %s", to)
	}
	return nil
}

// TestBrokenFramingIsTheSendersFault proves that broken framing is a 4xx on every path.
func TestBrokenFramingIsTheSendersFault(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	for _, e := range hostile.Creates {
		for _, rest := range []string{"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}", "Content-Length: 100\r\n\r\n{}"} {
			in := hostile.Input{Cut: true, Bytes: []byte("POST " + e.Path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nAuthorization: Bearer " + hostileKey + "\r\n" + rest)}
			said, err := talk(f.http, in)
			if err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 4") {
				t.Errorf("%s, %q: %.300s, %v", e.Path, rest, said, err)
			}
		}
	}
}

// TestLeavingIsNoFailure proves that a client that disconnects early does not count as a failure of
// the service, so that it triggers no alert.
func TestLeavingIsNoFailure(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	for i := range 400 {
		e := hostile.Creates[i%len(hostile.Creates)]
		body := s.target.Body(e)
		conn, err := net.Dial("tcp", s.HTTPAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n%s", e.Path, s.target.Authorization, len(body), body)
		if err != nil {
			t.Fatal(err)
		}
		if i%3 > 0 {
			timer := time.NewTimer(time.Duration(i) * 10 * time.Microsecond) // at some point during admission
			<-timer.C
		}
		_ = conn.Close()
	}
	s.awaitEmpty()
	s.checkMetrics()
}

// TestLongHeadersAreTheSendersFault proves that long headers are never a 5xx. The gateway forwards
// headers as metadata, for which gRPC has a lower limit than HTTP.
func TestLongHeadersAreTheSendersFault(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	for _, name := range []string{"Idempotency-Key", "Genbus-Labels", "Tracestate", "Traceparent", "Authorization"} {
		for _, request := range []string{"GET /genbus/v1/videos HTTP/1.1\r\n", "POST /genbus/v1/videos HTTP/1.1\r\nContent-Length: 2\r\n"} {
			key := "Authorization: Bearer " + hostileKey + "\r\n"
			if name == "Authorization" {
				key = ""
			}
			in := hostile.Input{Bytes: []byte(request + "Host: x\r\nConnection: close\r\n" + key + name + ": " + strings.Repeat("k", 100_000) + "\r\n\r\n{}")}
			said, err := talk(f.http, in)
			if err != nil || bytes.HasPrefix(said, []byte("HTTP/1.1 5")) {
				t.Errorf("%s, %.20s: %.400s, %v", name, request, said, err)
			}
		}
	}
}
