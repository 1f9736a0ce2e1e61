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

const maxBody = 64 << 20

// wire is one client connection. Nothing else reads from it.
type wire struct {
	upstream *Upstream
	conn     net.Conn
	in       *bufio.Reader
}

func newWire(u *Upstream, conn net.Conn) *wire {
	return &wire{upstream: u, conn: conn, in: bufio.NewReaderSize(conn, 32<<10)}
}

// serve answers requests until the connection can no longer be used.
func (w *wire) serve() {
	for {
		req, err := http.ReadRequest(w.in)
		if err != nil {
			return // the client disconnected or does not speak HTTP/1
		}
		x := &exchange{wire: w, req: req, arrived: time.Now()}
		if err := x.run(); err != nil || req.Close || !req.ProtoAtLeast(1, 1) {
			w.finish(err)
			return
		}
	}
}

// finish closes the connection. It resets the connection if err is not nil.
func (w *wire) finish(err error) {
	if err != nil {
		w.reset()
		return
	}
	_ = w.conn.Close() // the answer is written, so nothing is lost
}

func (w *wire) reset() {
	if tcp, ok := w.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // on failure, Close below is an ordinary close
	}
	_ = w.conn.Close()
}

// body reads the whole body of a request, because the next request follows it.
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

// half reads the first half of a body. If the length is unknown, it returns the part that has
// arrived.
func (w *wire) half(req *http.Request) []byte {
	size := req.ContentLength / 2
	if size <= 0 {
		return w.arrived(req)
	}
	var b bytes.Buffer
	_, _ = io.CopyN(&b, req.Body, min(size, maxBody)) // a client that disconnected has sent less
	return b.Bytes()
}

// awaitBody waits until the body begins to arrive. A client may send the headers separately. If the
// connection were reset at that point, the client might be unable to write any of the body, and
// would know that nothing was accepted.
func (w *wire) awaitBody(req *http.Request) {
	if req.ContentLength == 0 {
		return
	}
	_ = w.conn.SetReadDeadline(time.Now().Add(awaitBodyFor)) // if this fails, the reset works without it
	_, _ = w.in.Peek(1)                                      // the data stays in the buffer; nothing to do if the client disconnects
}

const awaitBodyFor = 5 * time.Second

// arrived returns the part of the body that has already arrived. It does not wait.
func (w *wire) arrived(req *http.Request) []byte {
	b, _ := w.in.Peek(w.in.Buffered()) // never asks for more than there is
	if req.ContentLength >= 0 && int64(len(b)) > req.ContentLength {
		b = b[:req.ContentLength]
	}
	return b
}

// watch returns a context that ends when the client disconnects. Nothing else may read from the
// connection until stop has returned.
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
		_ = w.conn.SetReadDeadline(time.Unix(1, 0)) // wakes the Peek; on a closed connection it has already returned
		<-done
		cancel()
		_ = w.conn.SetReadDeadline(time.Time{})
	}
}
