package grpcapi

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc/peer"

	"github.com/genbus/genbus/internal/errcode"
)

// TestUnauthenticatedCallersArePerHost checks that one host gets a limited number of slots and that
// leaving frees them.
func TestUnauthenticatedCallersArePerHost(t *testing.T) {
	t.Parallel()
	from := func(host string, port int) context.Context {
		return peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(host), Port: port}})
	}
	s := newUnauthenticatedLimiter()
	var leaves []func()
	come := func(host string, want bool) {
		t.Helper()
		leave, err := s.acquire(from(host, 1000+len(leaves)))
		if (err == nil) != want || err != nil && errcode.CodeOf(err) != errcode.RateLimited {
			t.Errorf("%s: %v", host, err)
		}
		if err == nil {
			leaves = append(leaves, leave)
		}
	}
	for _, host := range []string{"10.0.0.1", "10.0.0.2", "::1", "10.0.0.4"} {
		for range unauthenticatedPerHost {
			come(host, true)
		}
		come(host, false)
	}
	come("10.0.0.5", false) // all slots are taken
	leaves[0]()
	come("10.0.0.5", true)
	for _, leave := range leaves[1:] {
		leave()
	}
	if s.all != 0 || len(s.from) != 0 {
		t.Errorf("%d are left, %v", s.all, s.from)
	}
}
