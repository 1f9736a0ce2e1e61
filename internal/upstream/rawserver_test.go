package upstream

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// rawServer is a TCP server that reads whole requests and answers the nth one (from 1), counted
// over all connections.
type rawServer struct {
	url      string
	requests atomic.Int64
}

func newRawServer(t *testing.T, answer func(n int64, conn *net.TCPConn)) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawServer{url: "http://" + listener.Addr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn.(*net.TCPConn), answer)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return s
}

func (s *rawServer) serve(conn *net.TCPConn, answer func(int64, *net.TCPConn)) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		answer(s.requests.Add(1), conn)
	}
}

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

func send(c *net.TCPConn, s string) {
	_, _ = io.WriteString(c, s)
	_ = c.Close()
}
