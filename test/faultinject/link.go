package faultinject

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// CutMode determines how a Link is cut.
type CutMode int

const (
	// Blackhole holds all bytes and closes in both directions, like a network that drops packets.
	// Neither side is notified. New connections are accepted but silent. Heal delivers everything
	// held.
	Blackhole CutMode = iota
	// Reset resets every connection, including new ones. A client may see this as a failed dial or
	// as a failed first read.
	Reset
)

// Link is a TCP proxy to one target that can be cut, healed and slowed. It is safe for concurrent
// use.
type Link struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	cut     bool
	mode    CutMode       // valid if cut
	pass    chan struct{} // closed while bytes may pass
	after   []byte        // text after which answers are held; nil for none
	held    chan struct{} // closed once the text is sent; nil if after is nil
	answers chan struct{} // closed while answers may pass
	delay   time.Duration
	pipes   map[*pipe]struct{} // nil once closed
}

// NewLink listens on a free port of 127.0.0.1 and forwards to target, such as "127.0.0.1:4222". It
// dials the target for each connection, and resets the connection if that fails.
func NewLink(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("link to %s: %w", target, err)
	}
	l := &Link{
		target: target, listener: listener,
		pass: make(chan struct{}), answers: make(chan struct{}), pipes: map[*pipe]struct{}{},
	}
	close(l.pass)
	close(l.answers)
	l.wg.Go(l.accept)
	return l, nil
}

// Addr returns the address to connect to, such as "127.0.0.1:40222".
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Conns returns the number of connections, including held ones.
func (l *Link) Conns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pipes)
}

// Cut cuts the link until Heal is called. A second cut changes the mode.
func (l *Link) Cut(mode CutMode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.cut {
		l.pass = make(chan struct{})
	}
	l.cut, l.mode = true, mode
	if mode == Reset {
		for p := range l.pipes {
			p.end(true)
		}
	}
}

// Heal ends a cut. It keeps the delay.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		l.cut = false
		close(l.pass)
	}
}

// Delay delays each byte by d in each direction. 0 ends the delay.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// HoldAnswers holds all data from the target, on every connection, once text is on its way to the
// target. ReleaseAnswers ends the hold. The target acts on the text, but no client receives its
// answer. text must not be empty. The returned channel is closed when the hold begins. It stays
// open if the hold is released or replaced before that.
func (l *Link) HoldAnswers(text []byte) (held <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.after, l.held = text, make(chan struct{})
	return l.held
}

// ReleaseAnswers delivers the data that HoldAnswers has held and ends the hold.
func (l *Link) ReleaseAnswers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.after, l.held = nil, nil
	if !isClosed(l.answers) {
		close(l.answers)
	}
}

// sending inspects data that a connection is about to send. tail is the end of the connection's
// earlier data. sending returns the new tail, which may contain the beginning of a text.
func (l *Link) sending(tail, data []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := append(tail, data...)
	if l.after == nil {
		return nil
	}
	if bytes.Contains(sent, l.after) && !isClosed(l.held) {
		close(l.held)
		if isClosed(l.answers) { // an earlier text may already hold them
			l.answers = make(chan struct{})
		}
	}
	return sent[max(0, len(sent)-len(l.after)+1):]
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// answerGate returns a channel that is closed while answers may pass.
func (l *Link) answerGate() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers
}

// Close stops listening, resets every connection and waits for them to end. It may be called twice.
func (l *Link) Close() error {
	err := l.listener.Close()
	l.mu.Lock()
	pipes := l.pipes
	l.pipes = nil
	l.mu.Unlock()
	for p := range pipes {
		p.end(true)
	}
	l.wg.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the link to %s: %w", l.target, err)
	}
	return nil
}

func (l *Link) accept() {
	for {
		conn, err := l.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client disconnected before the accept
		}
		p := newPipe(l, conn)
		if l.track(p) {
			l.wg.Go(p.run)
		} else {
			p.end(true)
		}
	}
}

// track adds a connection. It returns false if the connection must be reset.
func (l *Link) track(p *pipe) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pipes == nil || l.cut && l.mode == Reset {
		return false
	}
	l.pipes[p] = struct{}{}
	return true
}

func (l *Link) remove(p *pipe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pipes, p)
}

// gate returns a channel that is closed while bytes may pass.
func (l *Link) gate() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pass
}

// due returns when a byte received now is delivered.
func (l *Link) due() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.delay)
}
