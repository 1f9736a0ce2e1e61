package faultinject

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 20

// wire is one connection of a client, read by nothing else.
type wire struct {
	upstream *Upstream
	conn     net.Conn
	in       *bufio.Reader
}

func newWire(u *Upstream, conn net.Conn) *wire {
	return &wire{upstream: u, conn: conn, in: bufio.NewReaderSize(conn, 32<<10)}
}

// serve answers one request after another until the connection is of no more use.
func (w *wire) serve() {
	for {
		req, err := http.ReadRequest(w.in)
		if err != nil {
			return // the client has left, or speaks no HTTP/1
		}
		x := &exchange{wire: w, req: req, arrived: time.Now()}
		if err := x.run(); err != nil || req.Close || !req.ProtoAtLeast(1, 1) {
			w.finish(err)
			return
		}
	}
}

// finish closes the connection: in good order after a good answer.
func (w *wire) finish(err error) {
	if err != nil {
		w.reset()
		return
	}
	_ = w.conn.Close() // the answer is written; nothing is lost
}

// reset ends the connection with a TCP reset.
func (w *wire) reset() {
	if tcp, ok := w.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // on failure, or when closed already, the close below is an ordinary one
	}
	_ = w.conn.Close()
}

// body reads the whole body of a request, so that nothing of it is left before the
// next one.
func (w *wire) body(req *http.Request) ([]byte, error) {
	if req.Header.Get("Expect") == "100-continue" {
		if _, err := io.WriteString(w.conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return nil, err
		}
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errors.New("the request body is longer than 64 MiB")
	}
	return body, err
}

// half reads the first half of a body, or what has arrived where it is not known how
// long it is.
func (w *wire) half(req *http.Request) []byte {
	size := req.ContentLength / 2
	if size <= 0 {
		return w.arrived(req)
	}
	var b bytes.Buffer
	_, _ = io.CopyN(&b, req.Body, min(size, maxBody)) // a client that left earlier has sent less
	return b.Bytes()
}

// awaitBody waits until the body begins to arrive. A client may send the headers by
// themselves; were the connection reset then, the client's connection might take nothing of
// the body, and the client would know that nothing was accepted.
func (w *wire) awaitBody(req *http.Request) {
	if req.ContentLength == 0 {
		return
	}
	_ = w.conn.SetReadDeadline(time.Now().Add(awaitBodyFor)) // without it the reset is as good
	_, _ = w.in.Peek(1)                                      // what came is in the buffer, or the client has left
}

// awaitBodyFor bounds the wait for a body.
const awaitBodyFor = 5 * time.Second

// arrived is what has come with the headers; it waits for nothing.
func (w *wire) arrived(req *http.Request) []byte {
	b, _ := w.in.Peek(w.in.Buffered()) // never more than there is
	if req.ContentLength >= 0 && int64(len(b)) > req.ContentLength {
		b = b[:req.ContentLength]
	}
	return b
}

// watch ends the context when the client leaves. Nothing else may read until stop
// has returned.
func (w *wire) watch(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := w.in.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			cancel()
		}
	}()
	return ctx, func() {
		_ = w.conn.SetReadDeadline(time.Unix(1, 0)) // wakes the Peek; a closed connection has done so
		<-done
		cancel()
		_ = w.conn.SetReadDeadline(time.Time{})
	}
}
