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

// leased gives the context of a create.
func leased(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithDeadlineCause(t.Context(), time.Now().Add(d), errLeaseOver)
	t.Cleanup(cancel)
	return ctx
}

// bothVersions runs a test against an upstream that speaks HTTP/1.1, and one that
// speaks HTTP/2.
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

// hostOf gives the host that requests to an endpoint name.
func hostOf(ep *Endpoint) string { return strings.TrimPrefix(ep.BaseURL, "https://") }

// TestAnAnswerAfterTheLease counts: what left in time may have been accepted.
func TestAnAnswerAfterTheLease(t *testing.T) {
	t.Parallel()
	var leases sync.Map // contexts, by host
	bothVersions(t, func(w http.ResponseWriter, r *http.Request) {
		lease, _ := leases.Load(r.Host)
		<-lease.(context.Context).Done()
		_, _ = io.WriteString(w, `{"id":"t"}`)
	}, func(t *testing.T, ep *Endpoint) {
		ctx := leased(t, time.Second)
		leases.Store(hostOf(ep), ctx)
		s := submit(ctx, ep, aCreate)
		wantVerdict(t, s, Accepted, true)
		if ctx.Err() == nil || s.UpstreamID != "t" {
			t.Errorf("%+v, with the lease %v", s, ctx.Err())
		}
	})
}

// TestNoAnswerAfterTheGrace is a timeout, and none that the caller is to blame for.
func TestNoAnswerAfterTheGrace(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]string{"none": "", "a part": `{"id":`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bothVersions(t, func(w http.ResponseWriter, r *http.Request) {
				if begin != "" {
					_, _ = io.WriteString(w, begin)
					_ = http.NewResponseController(w).Flush() // a test's server can
				}
				<-r.Context().Done()
				panic(http.ErrAbortHandler) // returning would be an answer, and it can overtake the end of the connection
			}, func(t *testing.T, ep *Endpoint) {
				const lease = time.Second
				began := time.Now()
				s := submit(leased(t, lease), ep, aCreate)
				took := time.Since(began)
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

// TestACallerThatLeavesWaitsForNothing, and it is the caller who left.
func TestACallerThatLeavesWaitsForNothing(t *testing.T) {
	t.Parallel()
	var leave sync.Map // functions, by host
	bothVersions(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel, _ := leave.Load(r.Host)
		cancel.(context.CancelFunc)()
		<-r.Context().Done()
		panic(http.ErrAbortHandler) // see TestNoAnswerAfterTheGrace
	}, func(t *testing.T, ep *Endpoint) {
		ctx, cancel := context.WithCancel(leased(t, time.Hour))
		leave.Store(hostOf(ep), cancel)
		began := time.Now()
		s := submit(ctx, ep, aCreate)
		wantVerdict(t, s, Unknown, true)
		if !errors.Is(s.Err, context.Canceled) || time.Since(began) >= answerGrace {
			t.Errorf("%v after %s", s.Err, time.Since(began))
		}
	})
}

// TestNoGraceForWhatHasNotLeft: there is no answer to wait for, and nothing leaves
// after the lease.
func TestNoGraceForWhatHasNotLeft(t *testing.T) {
	t.Parallel()
	t.Run("nothing of it", func(t *testing.T) {
		t.Parallel()
		ctx, wrote := leased(t, 300*time.Millisecond), make(chan []byte, 16)
		here, there := net.Pipe()
		defer there.Close()
		dialed := make(chan struct{})
		ep := endpointOf(t, "http://host", TransportOptions{dial: func(context.Context, string, string) (net.Conn, error) {
			defer close(dialed)
			<-ctx.Done()
			return stalledConn{here, wrote}, nil
		}})
		began := time.Now()
		s := submit(ctx, ep, aCreate)
		wantVerdict(t, s, RefusedForNow, false)
		if took := time.Since(began); took >= answerGrace {
			t.Errorf("it took %s", took)
		}
		<-dialed
		select {
		case sent := <-wrote:
			t.Errorf("%q left after the lease", sent)
		default:
		}
	})
	t.Run("not the whole of it", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0") // the server reads nothing
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		long := VideoCreate{JobID: "video_1", Body: body.Trusted(make([]byte, 32<<20))}
		began := time.Now()
		s := submit(leased(t, time.Second), endpointOf(t, "http://"+listener.Addr().String(), TransportOptions{}), long)
		wantVerdict(t, s, Unknown, true)
		if took := time.Since(began); took >= answerGrace {
			t.Errorf("it took %s", took)
		}
	})
}
