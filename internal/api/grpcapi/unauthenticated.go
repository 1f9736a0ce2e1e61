package grpcapi

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/genbus/genbus/internal/errcode"
)

// Bounds on reading messages of callers without a key, for open methods. Their messages have a few
// bytes, but gRPC has one message limit per server, 32 MiB by default, and would read that much
// from every call.
const (
	unauthenticatedAtOnce  = 16
	unauthenticatedPerHost = 4 // so that one host does not block the probes of others
	unauthenticatedTimeout = 5 * time.Second
)

// unauthenticatedLimiter bounds the calls of open methods whose message is being read.
type unauthenticatedLimiter struct {
	mu   sync.Mutex
	all  int
	from map[string]int // by host
}

func newUnauthenticatedLimiter() *unauthenticatedLimiter {
	return &unauthenticatedLimiter{from: map[string]int{}}
}

// acquire takes a slot until release.
func (l *unauthenticatedLimiter) acquire(ctx context.Context) (release func(), err error) {
	host := hostOf(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= unauthenticatedAtOnce || l.from[host] >= unauthenticatedPerHost {
		return nil, errcode.New(errcode.RateLimited, "too many calls without a key at once").WithRetryAfter(time.Second)
	}
	l.all++
	l.from[host]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.from[host]--; l.from[host] == 0 {
			delete(l.from, host)
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
