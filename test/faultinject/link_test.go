package faultinject

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/genbus/genbus/test/freeport"
)

// echo starts an echo server and returns its address. The server closes a connection when the
// client does.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return l.Addr().String()
}

func newTestLink(t *testing.T, target string) *Link {
	t.Helper()
	l, err := NewLink(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func dialLink(t *testing.T, l *Link) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// receive reads as many bytes as text has within a time, and fails if they differ.
func receive(conn net.Conn, text string, within time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(conn, buf); err != nil {
		return err
	}
	if string(buf) != text {
		return errors.New("heard " + string(buf))
	}
	return nil
}

// quiet is longer than an open link needs to answer.
const quiet = 150 * time.Millisecond

func isSilent(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func TestLinkCarries(t *testing.T) {
	t.Parallel()
	l := newTestLink(t, echo(t))
	conn := dialLink(t, l)
	write(t, conn, "hello")
	if err := receive(conn, "hello", patience); err != nil {
		t.Fatal(err)
	}
	// A half-close reaches the server, and the server's close comes back.
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if err := receive(conn, "x", patience); !errors.Is(err, io.EOF) {
		t.Errorf("after the half-close: %v", err)
	}
	await(t, "the end of the connection", func() bool { return l.Conns() == 0 })
}

// TestLinkCarriesMuch proves that a link carries more than it buffers, both ways at once.
func TestLinkCarriesMuch(t *testing.T) {
	t.Parallel()
	conn := dialLink(t, newTestLink(t, echo(t)))
	const size = 20 << 20
	go func() {
		_, _ = io.Copy(conn, io.LimitReader(zeros{}, size))
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	if n, err := io.Copy(io.Discard, conn); n != size || err != nil {
		t.Errorf("%d bytes came back, %v", n, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestBlackhole(t *testing.T) {
	t.Parallel()
	l := newTestLink(t, echo(t))
	old := dialLink(t, l)
	write(t, old, "a")
	if err := receive(old, "a", patience); err != nil {
		t.Fatal(err)
	}
	l.Cut(Blackhole)
	fresh := dialLink(t, l)
	for _, conn := range []net.Conn{old, fresh} {
		write(t, conn, "held")
		if err := receive(conn, "h", quiet); !isSilent(err) {
			t.Fatalf("a cut link is not silent: %v", err)
		}
	}
	l.Heal()
	for _, conn := range []net.Conn{old, fresh} {
		if err := receive(conn, "held", patience); err != nil {
			t.Errorf("after the heal: %v", err)
		}
	}
}

// TestBlackholeHoldsCloses proves that a close reaches the other side only after the heal.
func TestBlackholeHoldsCloses(t *testing.T) {
	t.Parallel()
	target, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	l := newTestLink(t, target.Addr().String())
	conn := dialLink(t, l)
	far, err := target.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	l.Cut(Blackhole)
	conn.Close()
	if err := receive(far, "x", quiet); !isSilent(err) {
		t.Fatalf("the close came through: %v", err)
	}
	l.Heal()
	if err := receive(far, "x", patience); !errors.Is(err, io.EOF) {
		t.Errorf("after the heal: %v", err)
	}
}

// TestBlackholeRemovesClosedConnections proves that a client that disconnects during the cut never
// reaches the target.
func TestBlackholeRemovesClosedConnections(t *testing.T) {
	t.Parallel()
	l := newTestLink(t, echo(t))
	l.Cut(Blackhole)
	conn := dialLink(t, l)
	await(t, "the connection", func() bool { return l.Conns() == 1 })
	conn.Close()
	await(t, "its end", func() bool { return l.Conns() == 0 })
}

// refusal returns the error of a refused connection, from the dial or the first read.
func refusal(l *Link) error {
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	return receive(conn, "x", patience)
}

func TestReset(t *testing.T) {
	t.Parallel()
	l := newTestLink(t, echo(t))
	conn := dialLink(t, l)
	write(t, conn, "a")
	if err := receive(conn, "a", patience); err != nil {
		t.Fatal(err)
	}
	l.Cut(Reset)
	if err := receive(conn, "x", patience); !isCut(err) {
		t.Errorf("an open connection: %v", err)
	}
	if err := refusal(l); !isCut(err) {
		t.Errorf("a new connection: %v", err)
	}
	l.Heal()
	conn = dialLink(t, l)
	write(t, conn, "b")
	if err := receive(conn, "b", patience); err != nil {
		t.Errorf("after the heal: %v", err)
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	l := newTestLink(t, echo(t))
	l.Delay(quiet)
	conn := dialLink(t, l)
	start := time.Now()
	write(t, conn, "there and back")
	if err := receive(conn, "there and back", patience); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < 2*quiet {
		t.Errorf("there and back in %s, want at least %s", took, 2*quiet)
	}
}

// TestAnswersAreHeld proves that a text, even in two pieces, holds the target's answers on every
// connection until the release, while the target receives everything.
func TestAnswersAreHeld(t *testing.T) {
	t.Parallel()
	l := newTestLink(t, echo(t))
	conn := dialLink(t, l)
	held := l.HoldAnswers([]byte("stop here"))
	for _, text := range []string{"before it", "sto"} {
		write(t, conn, text)
		if err := receive(conn, text, patience); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
	}
	if isClosed(held) {
		t.Error("answers are held before the text")
	}
	write(t, conn, "p here")
	select {
	case <-held:
	case <-time.After(patience):
		t.Fatal("it is not said that answers are held")
	}
	if err := receive(conn, "p here", quiet); !isSilent(err) {
		t.Errorf("the answer to the text: %v", err)
	}
	other := dialLink(t, l)
	write(t, other, "on another connection")
	if err := receive(other, "on another connection", quiet); !isSilent(err) {
		t.Errorf("an answer on another connection: %v", err)
	}
	l.ReleaseAnswers()
	if err := receive(conn, "p here", patience); err != nil {
		t.Errorf("after the release: %v", err)
	}
	if err := receive(other, "on another connection", patience); err != nil {
		t.Errorf("after the release, on another connection: %v", err)
	}
	write(t, conn, "stop here")
	if err := receive(conn, "stop here", patience); err != nil {
		t.Errorf("the text after the release: %v", err)
	}
}

// TestReleaseBeforeTheText proves that a hold released early has no effect.
func TestReleaseBeforeTheText(t *testing.T) {
	t.Parallel()
	l := newTestLink(t, echo(t))
	conn := dialLink(t, l)
	held := l.HoldAnswers([]byte("stop here"))
	l.ReleaseAnswers()
	write(t, conn, "stop here")
	if err := receive(conn, "stop here", patience); err != nil || isClosed(held) {
		t.Errorf("%v, held %t", err, isClosed(held))
	}
}

func TestLinkToNobody(t *testing.T) {
	t.Parallel()
	addrs, err := freeport.Addrs(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := refusal(newTestLink(t, addrs[0])); !isCut(err) {
		t.Errorf("a link to nobody: %v", err)
	}
}

func TestLinkClosesWhileCut(t *testing.T) {
	t.Parallel()
	l := newTestLink(t, echo(t))
	conn := dialLink(t, l)
	write(t, conn, "a")
	if err := receive(conn, "a", patience); err != nil {
		t.Fatal(err)
	}
	l.Cut(Blackhole)
	write(t, conn, "b")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := receive(conn, "x", patience); !isCut(err) {
		t.Errorf("after the close: %v", err)
	}
}
