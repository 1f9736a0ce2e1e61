package faultinject

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// CutMode is how a Link is cut.
type CutMode int

const (
	// Blackhole holds every byte and every close, both ways, as a network does that
	// drops packets: no side is notified. New connections are accepted and hear nothing.
	// What was held is delivered by Heal.
	Blackhole CutMode = iota
	// Reset resets every connection, and new ones as they come, which some clients
	// see as a failed dial and some as a failed first read.
	Reset
)

// Link is a TCP proxy from an address of its own to one target, which can be cut,
// healed and slowed. It is safe for concurrent use.
type Link struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	cut     bool
	mode    CutMode       // valid when cut
	pass    chan struct{} // closed while bytes may pass
	after   []byte        // what holds the answers once it is sent; nil for nothing
	held    chan struct{} // closed when it is sent; nil with after
	answers chan struct{} // closed while answers may pass
	delay   time.Duration
	pipes   map[*pipe]struct{} // nil once closed
}

// NewLink listens on a free port of 127.0.0.1 and forwards to target, such as
// "127.0.0.1:4222". The target is dialled for each connection; one that cannot be
// reached resets it.
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

// Addr is the address to connect to, such as "127.0.0.1:40222".
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Conns is the number of connections, those that are held included.
func (l *Link) Conns() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pipes)
}

// Cut cuts the link until Heal. A second cut changes the mode.
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

// Heal ends a cut. A delay stays.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		l.cut = false
		close(l.pass)
	}
}

// Delay adds d to the way of each byte, in each direction; 0 ends it.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// HoldAnswers holds what the target sends, on every connection, from the moment at which
// text is on its way to the target until ReleaseAnswers: the target acts on the text, and
// no client learns of it. The text is not empty. The returned channel is closed at that
// moment, and never where the answers are released before it, or another text is named.
func (l *Link) HoldAnswers(text []byte) (held <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.after, l.held = text, make(chan struct{})
	return l.held
}

// ReleaseAnswers delivers what HoldAnswers has held, and ends it.
func (l *Link) ReleaseAnswers() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.after, l.held = nil, nil
	if !isClosed(l.answers) {
		close(l.answers)
	}
}

// sending is called with what a connection is about to send: data, and before it the end
// of what it sent last. It returns the end of both, in which a text may begin.
func (l *Link) sending(tail, data []byte) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := append(tail, data...)
	if l.after == nil {
		return nil
	}
	if bytes.Contains(sent, l.after) && !isClosed(l.held) {
		close(l.held)
		if isClosed(l.answers) { // an earlier text may hold them already
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

// answerGate is closed while answers may pass.
func (l *Link) answerGate() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answers
}

// Close stops listening, resets every connection and waits. It may be called
// twice.
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
			continue // a client that left before it was accepted
		}
		p := newPipe(l, conn)
		if l.track(p) {
			l.wg.Go(p.run)
		} else {
			p.end(true)
		}
	}
}

// track notes a connection; false when it is to be reset.
func (l *Link) track(p *pipe) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pipes == nil || l.cut && l.mode == Reset {
		return false
	}
	l.pipes[p] = struct{}{}
	return true
}

func (l *Link) forget(p *pipe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pipes, p)
}

// gate is closed while bytes may pass.
func (l *Link) gate() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pass
}

// due is when a byte that is here now arrives.
func (l *Link) due() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.delay)
}
