package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/body"
)

var errLeaseOver = errors.New("the lease is over")

func leased(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(d), errLeaseOver)
	t.Cleanup(cancel)
	return ctx
}

// lease is a create's context whose deadline passes when the test calls end.
type lease struct {
	context.Context
	over chan struct{}
	once sync.Once
	at   time.Time // time of end; read only after over is closed
}

func newLease(t *testing.T) *lease { return &lease{Context: t.Context(), over: make(chan struct{})} }

func (l *lease) end() {
	l.once.Do(func() {
		l.at = time.Now()
		close(l.over)
	})
}

func (*lease) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }

func (l *lease) Done() <-chan struct{} { return l.over }

func (l *lease) Err() error {
	select {
	case <-l.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// bothVersions runs a test against an upstream over HTTP/1.1 and one over HTTP/2.
func bothVersions(t *testing.T, handler http.HandlerFunc, test func(*testing.T, *Endpoint)) {
	t.Helper()
	for _, major := range []int{1, 2} {
		t.Run(fmt.Sprintf("HTTP %d", major), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.ProtoMajor != major {
					t.Errorf("the upstream is called by %s", r.Proto)
				}
				_, _ = io.Copy(io.Discard, r.Body)
				handler(w, r)
			}))
			server.EnableHTTP2 = true
			server.StartTLS()
			t.Cleanup(server.Close)
			test(t, endpointOf(t, server.URL, TransportOptions{
				TLS: server.Client().Transport.(*http.Transport).TLSClientConfig, DisableHTTP2: major == 1,
			}))
		})
	}
}

func hostOf(ep *Endpoint) string { return strings.TrimPrefix(ep.BaseURL, "https://") }

// TestAnAnswerAfterTheLease checks that an answer within the grace counts if the request was sent
// in time.
func TestAnAnswerAfterTheLease(t *testing.T) {
	t.Parallel()
	var leases sync.Map // by host
	bothVersions(t, func(w http.ResponseWriter, r *http.Request) {
		now, _ := leases.Load(r.Host)
		now.(*lease).end()
		_, _ = io.WriteString(w, `{"id":"t"}`)
	}, func(t *testing.T, ep *Endpoint) {
		var ctx *lease
		var s Submission
		for try := 0; try == 0 || try < 5 && s.Verdict == Unknown; try++ { // a busy machine may exceed the grace
			ctx = newLease(t)
			leases.Store(hostOf(ep), ctx)
			s = submit(ctx, ep, aCreate)
		}
		wantVerdict(t, s, Accepted, true)
		if ctx.Err() == nil || s.UpstreamID != "t" {
			t.Errorf("%+v, with the lease %v", s, ctx.Err())
		}
	})
}

// TestNoAnswerAfterTheGrace checks that a missing answer is a timeout, not a cancellation by the
// caller.
func TestNoAnswerAfterTheGrace(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"none": "", "a part": `{"id":`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothVersions(t, func(w http.ResponseWriter, r *http.Request) {
				if begin != "" {
					_, _ = io.WriteString(w, begin)
					_ = http.NewResponseController(w).Flush() // cannot fail with a test server
				}
				<-r.Context().Done()
				panic(http.ErrAbortHandler) // returning would send an answer, which may arrive before the connection ends
			}, func(t *testing.T, ep *Endpoint) {
				// On a busy machine a create may not be sent within a short lease.
				var s Submission
				var took time.Duration
				lease := time.Second
				for ; ; lease *= 2 {
					began := time.Now()
					s = submit(leased(t, lease), ep, aCreate)
					if took = time.Since(began); took >= lease+answerGrace || lease >= 16*time.Second {
						break
					}
				}
				wantVerdict(t, s, Unknown, true)
				if errors.Is(s.Err, context.Canceled) || !strings.Contains(s.Err.Message, errLeaseOver.Error()) {
					t.Errorf("error %#v, %v", s.Err, s.Err.Err)
				}
				if took < lease+answerGrace || took > lease+answerGrace+10*time.Second {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// TestACallerThatLeavesWaitsForNothing checks that cancelling ends the wait at once and is reported
// as a cancellation.
func TestACallerThatLeavesWaitsForNothing(t *testing.T) {
	t.Parallel()
	var leave sync.Map // functions, by host
	bothVersions(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel, _ := leave.Load(r.Host)
		cancel.(func())()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // see TestNoAnswerAfterTheGrace
	}, func(t *testing.T, ep *Endpoint) {
		ctx, cancel := context.WithCancel(leased(t, time.Hour))
		left := make(chan time.Time, 1)
		leave.Store(hostOf(ep), func() {
			left <- time.Now()
			cancel()
		})
		s := submit(ctx, ep, aCreate)
		wantVerdict(t, s, Unknown, true)
		if took := time.Since(<-left); !errors.Is(s.Err, context.Canceled) || took >= answerGrace {
			t.Errorf("%v after %s", s.Err, took)
		}
	})
}

// TestNoGraceForWhatHasNotLeft checks that an unsent request gets no grace and is not sent after
// the lease.
func TestNoGraceForWhatHasNotLeft(t *testing.T) {
	t.Parallel()
	t.Run("nothing of it", func(t *testing.T) {
		t.Parallel()
		ctx, wrote := leased(t, 2*time.Second), make(chan []byte, 16) // time to dial
		here, there := net.Pipe()
		defer there.Close()
		dialed := make(chan time.Time, 1)
		ep := endpointOf(t, "http://host", TransportOptions{dial: func(context.Context, string, string) (net.Conn, error) {
			<-ctx.Done()
			dialed <- time.Now()
			return stalledConn{here, wrote}, nil
		}})
		s := submit(ctx, ep, aCreate)
		wantVerdict(t, s, RefusedForNow, false)
		if took := time.Since(<-dialed); took >= answerGrace {
			t.Errorf("it took %s", took)
		}
		select {
		case sent := <-wrote:
			t.Errorf("%q left after the lease", sent)
		default:
		}
	})
	t.Run("not the whole of it", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, judged := newLease(t), make(chan struct{})
		var server sync.WaitGroup
		defer server.Wait()
		defer listener.Close()
		defer close(judged)
		server.Go(func() { // the server reads only the beginning
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.CopyN(io.Discard, conn, 64<<10)
			ctx.end()
			<-judged
		})
		long := VideoCreate{JobID: "video_1", Body: body.Trusted(make([]byte, 32<<20))}
		s := submit(ctx, endpointOf(t, "http://"+listener.Addr().String(), TransportOptions{}), long)
		wantVerdict(t, s, Unknown, true)
		if took := time.Since(ctx.at); took >= answerGrace {
			t.Errorf("it took %s", took)
		}
	})
}
