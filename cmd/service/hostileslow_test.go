package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/genbus/genbus/test/hostile"
)

// hostilePace is the interval between calls of other clients, and between samples of memory.
const hostilePace = hostileShare * 100 * time.Millisecond

// besiege runs slow on a crowd of connections while another client keeps calling the service. It
// returns how long each connection took.
func (f *fortress) besiege(address string, slow func(conn *net.TCPConn) error) []time.Duration {
	f.t.Helper()
	took := make([]time.Duration, crowd)
	var all sync.WaitGroup
	for i := range crowd {
		all.Go(func() {
			begin := time.Now()
			c, err := net.Dial("tcp", address)
			if err != nil {
				f.t.Error(err)
				return
			}
			defer c.Close()
			conn, _ := c.(*net.TCPConn)
			if err := slow(conn); err != nil {
				f.t.Errorf("connection %d: %v", i, err)
			}
			took[i] = time.Since(begin)
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	pace := time.NewTicker(hostilePace)
	defer pace.Stop()
	var longestCall time.Duration
	for n := 1; ; n++ {
		begin := time.Now()
		switch err := f.served(servedWithin); {
		case err != nil && starved(err):
			f.t.Logf("call %d of somebody else: the broker did not answer in time", n)
		case err != nil:
			f.t.Errorf("call %d of somebody else: %v", n, err)
		}
		longestCall = max(longestCall, time.Since(begin))
		select {
		case <-over:
			f.t.Logf("%d calls of others meanwhile, the longest %s; the slow ones lasted %s to %s", n, longestCall.Round(time.Millisecond), least(took), longest(took))
			return took
		case <-pace.C:
		}
	}
}

func least(took []time.Duration) time.Duration {
	out := took[0]
	for _, d := range took {
		out = min(out, d)
	}
	return out.Round(time.Millisecond)
}

func longest(took []time.Duration) time.Duration {
	out := took[0]
	for _, d := range took {
		out = max(out, d)
	}
	return out.Round(time.Millisecond)
}

// drip sends text byte by byte. It returns nil when the other side closes, and an error after
// patience.
func drip(conn *net.TCPConn, text string, every, patience time.Duration) error {
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, conn) // ends when the other side closes
		close(gone)
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for i := 0; ; i++ {
		_, _ = conn.Write([]byte{text[i%len(text)]}) // the reader detects the end
		select {
		case <-gone:
			return nil
		case <-late.C:
			_ = conn.Close()
			<-gone
			return fmt.Errorf("it was not closed within %s", patience)
		case <-tick.C:
		}
	}
}

// TestSlowHeaders proves that http.read_header_timeout disconnects a client that sends its header
// byte by byte.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	const bound = 2 * time.Second // as configured
	took := f.besiege(f.http, func(conn *net.TCPConn) error {
		if _, err := io.WriteString(conn, "GET /v1/models HTTP/1.1\r\nHost: x\r\n"); err != nil {
			return err
		}
		return drip(conn, "X-A: b\r\n", 100*time.Millisecond, bound+servedWithin)
	})
	if least(took) < bound-time.Second {
		t.Errorf("one was closed after %s already", least(took))
	}
}

// TestSlowStrangers proves that an unauthenticated call is refused without waiting for its body.
func TestSlowStrangers(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	f.besiege(f.http, func(conn *net.TCPConn) error {
		_, err := io.WriteString(conn, "POST /v1/videos HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{")
		if err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(servedWithin)); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	})
}

// longTests is the variable that enables tests of several minutes.
const longTests = "HOSTILE_LONG"

// TestSlowBodies proves that an authenticated body that never arrives delays no other call and is
// abandoned after two minutes.
func TestSlowBodies(t *testing.T) {
	if os.Getenv(longTests) == "" {
		t.Skip("takes two minutes: run with GENBUS_TEST=full " + longTests + "=1, as .ci/full does")
	}
	t.Parallel()
	f := newFortress(t)
	const bound = 2 * time.Minute
	grown := f.watchHeap()
	took := f.besiege(f.http, func(conn *net.TCPConn) error {
		_, err := io.WriteString(conn, "POST /v1/videos HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+hostileKey+"\r\nContent-Type: application/json\r\nContent-Length: 30000000\r\n\r\n{")
		if err != nil {
			return err
		}
		return drip(conn, " ", time.Second, bound+30*time.Second)
	})
	if least(took) < bound-5*time.Second {
		t.Errorf("one was closed after %s already", least(took))
	}
	// Each call allocates one MiB for its announced length.
	if n := grown(); n > 1.5*crowd {
		t.Errorf("the heap has grown by %.0f MiB", n)
	}
}

// TestSlowPrefaces proves that a gRPC connection without a complete preface is closed within ten
// seconds.
func TestSlowPrefaces(t *testing.T) {
	t.Parallel()
	f := newFortress(t)
	const bound = 10 * time.Second
	var n atomic.Int64
	f.besiege(f.grpc, func(conn *net.TCPConn) error {
		if n.Add(1)%2 == 0 { // half of them send nothing
			if err := conn.SetReadDeadline(time.Now().Add(bound + servedWithin)); err != nil {
				return err
			}
			_, err := io.Copy(io.Discard, conn)
			return ended(err)
		}
		return drip(conn, hostile.Preface[:20], 700*time.Millisecond, bound+servedWithin)
	})
}

// TestFloods proves that the service stays responsive while connections flood the gRPC server with
// 12,500 frames a second in total. At 100,000 a second, two cores could not answer anyone. It does
// not run in parallel.
func TestFloods(t *testing.T) {
	const pace, bursts = 160 * time.Millisecond, 20
	f := newFortress(t)
	before := f.must(metricGoroutines)
	begin := []byte(hostile.Preface)
	begin = hostile.Frame(begin, hostile.FrameSettings, 0, 0, nil)
	var n atomic.Int64
	f.besiege(f.grpc, func(conn *net.TCPConn) error {
		flood := floods[int(n.Add(1))%len(floods)]
		go func() { _, _ = io.Copy(io.Discard, conn) }() // ends with the connection
		if _, err := conn.Write(begin); err != nil {
			return err
		}
		_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for burst := range uint32(bursts) {
			var b []byte
			for i := range uint32(10) {
				b = append(b, flood(20*burst+2*i+1)...)
			}
			if _, err := conn.Write(b); err != nil {
				return nil // closed or throttled
			}
			<-tick.C
		}
		return nil
	})
	await(t, "the end of the floods", func() bool {
		n, err := f.metric(metricGoroutines)
		return err == nil && n < before+maxGoroutineGrowth
	})
}

// floods return the next frames of each kind of flood.
var floods = []func(stream uint32) []byte{
	func(uint32) []byte { return hostile.Frame(nil, hostile.FrameSettings, 0, 0, []byte{0, 1, 0, 0, 16, 0}) },
	func(uint32) []byte { return hostile.Frame(nil, hostile.FramePing, 0, 0, make([]byte, 8)) },
	func(stream uint32) []byte {
		b := hostile.Frame(nil, hostile.FrameHeaders, hostile.FlagEndHeaders, stream, hostile.CallHeader(nil, hostile.CreateMethod, "Bearer x"))
		return hostile.Frame(b, hostile.FrameReset, 0, stream, []byte{0, 0, 0, 8})
	},
	func(stream uint32) []byte {
		b := hostile.Frame(nil, hostile.FrameHeaders, hostile.FlagEndHeaders, stream, hostile.CallHeader(nil, hostile.CreateMethod, "Bearer x"))
		return hostile.Frame(b, hostile.FrameData, hostile.FlagEnd, stream, hostile.Envelope(nil, false, nil))
	},
}

// TestSlowMessages proves that a gRPC message that never arrives is abandoned like a body.
func TestSlowMessages(t *testing.T) {
	if os.Getenv(longTests) == "" {
		t.Skip("takes two minutes: run with GENBUS_TEST=full " + longTests + "=1, as .ci/full does")
	}
	t.Parallel()
	f := newFortress(t)
	h := dialH2(t, f.grpc)
	const calls = 100
	for i := range calls {
		method := []string{hostile.CreateMethod, "/genbus.v1.VideoService/WatchVideoTask"}[i%2]
		if err := h.open(uint32(2*i+1), method, "Bearer "+hostileKey); err != nil {
			t.Fatal(err)
		}
		if err := h.send(uint32(2*i+1), []byte{0, 0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	late := time.NewTimer(2*time.Minute + 30*time.Second)
	defer late.Stop()
	for tick := time.NewTicker(time.Second); h.refusals() < calls; {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("%d of %d calls were ended", h.refusals(), calls)
		}
	}
}
