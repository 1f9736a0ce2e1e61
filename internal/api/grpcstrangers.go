package api

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/genbus/genbus/internal/fault"
)

// Bounds of what is read of callers without a key, for the methods that are open to
// all. Their messages are a few bytes; but gRPC has one limit for the messages of a
// whole server, 32 MiB by default, and would read that much of every call.
const (
	strangersAtOnce  = 16
	strangersPerHost = 4 // so that one host does not keep the probes of others away
	strangerTimeout  = 5 * time.Second
)

// strangers counts the calls of open methods whose message is being read.
type strangers struct {
	mu   sync.Mutex
	all  int
	from map[string]int // by host
}

func newStrangers() *strangers { return &strangers{from: map[string]int{}} }

// enter takes a place until leave.
func (s *strangers) enter(ctx context.Context) (leave func(), err error) {
	host := hostOf(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= strangersAtOnce || s.from[host] >= strangersPerHost {
		return nil, fault.New(fault.RateLimited, "too many calls without a key are being read").WithRetryAfter(time.Second)
	}
	s.all++
	s.from[host]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.from[host]--; s.from[host] == 0 {
			delete(s.from, host)
		}
	}, nil
}

func hostOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, err := net.SplitHostPort(p.Addr.String())
	if err != nil {
		return p.Addr.String()
	}
	return host
}
