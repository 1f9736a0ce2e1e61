package grpcapi

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/peer"

	"github.com/genbus/genbus/internal/errcode"
)

// Limits on reading messages of open methods, whose callers need no key. These messages have only a
// few bytes, but gRPC has a single message limit per server, 32 MiB by default, and would read up
// to that much from every caller.
const (
	unauthenticatedAtOnce  = 16
	unauthenticatedPerHost = 4 // one host must not block other hosts' probes
	unauthenticatedTimeout = 5 * time.Second
)

// unauthenticatedLimiter limits how many messages of open methods are read at the same time.
type unauthenticatedLimiter struct {
	mu   sync.Mutex
	all  int
	from map[string]int // by host
}

func newUnauthenticatedLimiter() *unauthenticatedLimiter {
	return &unauthenticatedLimiter{from: map[string]int{}}
}

// acquire reserves a slot. The caller must call release.
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
