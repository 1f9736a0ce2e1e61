package faultinject

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	// heldChunks is how many reads one direction of a pipe holds. Each read has at most pipeBuffer
	// bytes.
	heldChunks = 64
	pipeBuffer = 32 << 10
)

type pipe struct {
	link *Link
	near net.Conn
	done chan struct{} // closed when the pipe ends

	mu    sync.Mutex
	far   net.Conn // nil until dialled
	ended bool
}

// chunk is the result of one read. It holds bytes, or the error that ended the direction.
type chunk struct {
	due  time.Time
	data []byte
	err  error
}

func newPipe(l *Link, near net.Conn) *pipe {
	return &pipe{link: l, near: near, done: make(chan struct{})}
}

// run carries the connection until it ends. It dials the target only while the link is open,
// because a network that is cut does not carry the handshake either.
func (p *pipe) run() {
	defer p.link.remove(p)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer p.end(true) // ends the readers, so that wg.Wait can return
	out := make(chan chunk, heldChunks)
	left := make(chan struct{})
	wg.Go(func() {
		defer close(left)
		var tail []byte
		p.read(p.near, out, func(data []byte) { tail = p.link.sending(tail, data) })
	})
	if !p.opened(left) {
		return
	}
	far, ok := p.dial()
	if !ok {
		return
	}
	back := make(chan chunk, heldChunks)
	wg.Go(func() { p.read(far, back, func([]byte) {}) })
	var both sync.WaitGroup
	both.Go(func() { p.write(far, out, p.link.gate) })
	both.Go(func() { p.write(p.near, back, p.link.gate, p.link.answerGate) })
	both.Wait()
	p.end(false) // an orderly close, unless the pipe has already ended
}

// opened waits until the link is open. It returns false if the client disconnects or the pipe ends
// before that.
func (p *pipe) opened(left <-chan struct{}) bool {
	select {
	case <-p.link.gate():
		return true
	default:
	}
	select {
	case <-p.link.gate():
		return true
	case <-left:
		return false
	case <-p.done:
		return false
	}
}

func (p *pipe) dial() (net.Conn, bool) {
	far, err := net.DialTimeout("tcp", p.link.target, dialTimeout)
	if err != nil {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		_ = far.Close() // nothing was sent
		return nil, false
	}
	p.far = far
	return far, true
}

// read passes on the data that one end sends, with the time of its delivery. It first calls seen
// with each piece.
func (p *pipe) read(from net.Conn, to chan<- chunk, seen func([]byte)) {
	buf := make([]byte, pipeBuffer)
	for {
		n, err := from.Read(buf)
		seen(buf[:n])
		if n > 0 && !p.give(to, chunk{due: p.link.due(), data: bytes.Clone(buf[:n])}) {
			return
		}
		if err != nil {
			p.give(to, chunk{due: p.link.due(), err: err})
			return
		}
	}
}

func (p *pipe) give(to chan<- chunk, c chunk) bool {
	select {
	case to <- c:
		return true
	case <-p.done:
		return false
	}
}

// write delivers data to one end until the other end closes. It waits while a gate is shut.
func (p *pipe) write(to net.Conn, from <-chan chunk, gates ...func() <-chan struct{}) {
	for {
		var c chunk
		select {
		case c = <-from:
		case <-p.done:
			return
		}
		if !p.arrives(c, gates) {
			return
		}
		if errors.Is(c.err, io.EOF) {
			p.half(to)
			return
		}
		if c.err == nil {
			_, c.err = to.Write(c.data)
		}
		if c.err != nil {
			p.end(true)
			return
		}
	}
}

// arrives waits until a chunk may be delivered. It returns false if the pipe ends.
func (p *pipe) arrives(c chunk, gates []func() <-chan struct{}) bool {
	if wait := time.Until(c.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.done:
			return false
		}
	}
	for _, gate := range gates {
		select {
		case <-gate():
		case <-p.done:
			return false
		}
	}
	return true
}

// half closes one direction, as the sender did. If that fails, it resets the connection.
func (p *pipe) half(to net.Conn) {
	if tcp, ok := to.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		return
	}
	p.end(true)
}

// end closes both connections, either with a reset or in an orderly way. Only the first call has an
// effect.
func (p *pipe) end(reset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.ended = true
	close(p.done)
	for _, conn := range []net.Conn{p.near, p.far} {
		if conn == nil {
			continue
		}
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0) // on failure, Close below is an ordinary close
		}
		_ = conn.Close()
	}
}
