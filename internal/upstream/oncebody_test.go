package upstream

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// stalledConn is a connection whose process was paused between dialling and writing, until the
// request's deadline had passed.
type stalledConn struct {
	net.Conn
	wrote chan []byte
}

func (c stalledConn) Write(p []byte) (int, error) {
	c.wrote <- append([]byte{}, p...)
	return len(p), nil
}

// TestNothingIsSentAfterTheDeadline checks the deadline even if the context's timer fires after the
// connection proceeds.
func TestNothingIsSentAfterTheDeadline(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	defer there.Close()
	wrote := make(chan []byte, 16)
	transport := NewTransport(TransportOptions{dial: func(context.Context, string, string) (net.Conn, error) {
		return stalledConn{here, wrote}, nil
	}})
	defer transport.CloseIdleConnections()
	ep := &Endpoint{Name: "u", BaseURL: "http://host", Transport: transport}
	// The request has a deadline that the call's context lacks, as if the timer were late.
	past, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	req, err := ep.NewRequest(past, http.MethodPost, "/v1/x", []byte(`{"paid":true}`))
	if err != nil {
		t.Fatal(err)
	}
	body, _ := req.Body.(*onceBody)
	req = req.WithContext(body.trace(t.Context()))
	resp, err := ep.Do(OpCreate, req)
	if err == nil {
		resp.Body.Close()
		t.Fatal("the request was answered")
	}
	if e := AsError(OpCreate, err); e.Written {
		t.Errorf("got %+v, want one that was not written", e)
	}
	select {
	case sent := <-wrote:
		t.Errorf("%q left after the deadline", sent)
	default:
	}
}

// TestABodyThatHasBegunIsFinished checks that a deadline does not cut off a body that is being
// sent.
func TestABodyThatHasBegunIsFinished(t *testing.T) {
	t.Parallel()
	b := newOnceBody(t.Context(), []byte("a long body"))
	b.until = time.Now().Add(time.Hour)
	r := bufio.NewReaderSize(b, 16)
	if _, err := r.Peek(1); err != nil {
		t.Fatal(err)
	}
	b.until = time.Now().Add(-time.Second)
	rest, err := r.ReadString(0)
	if !strings.HasPrefix(rest, "a long body") || err == nil || errors.Is(err, errTooLate) {
		t.Errorf("%q, %v", rest, err)
	}
	if !b.seal() {
		t.Error("it counts as not written")
	}
}
