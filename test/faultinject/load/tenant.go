package load

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/grpc/metadata"

	"github.com/genbus/genbus/test/faultinject/check"
)

// Tenant is whose jobs a client asks for.
type Tenant struct {
	Name string
	// Key is its API key for HTTP and gRPC; empty where none is needed.
	Key string
}

func (t Tenant) header() string { return "Bearer " + t.Key }

// calling gives gRPC the tenant's key, in place of any other.
func (t Tenant) calling(ctx context.Context) context.Context {
	if t.Key == "" {
		return ctx
	}
	return metadata.NewOutgoingContext(ctx, metadata.Pairs("authorization", t.header()))
}

// sign gives HTTP the tenant's key.
func (t Tenant) sign(h http.Header) {
	if t.Key != "" {
		h.Set("Authorization", t.header())
	}
}

// peeking asks for a job in the name of another tenant, and tries to cancel it.
func (c *client) peeking(ctx context.Context, job string) {
	stranger := &client{Load: c.Load, wish: c.wish, random: c.random, turn: c.replica()}
	stranger.tenant = c.stranger
	ctx = stranger.tenant.calling(ctx)
	for n, ask := range []struct {
		way  string
		does func(ctx context.Context, at int, job string, a *answer)
	}{
		{"http", func(ctx context.Context, at int, job string, a *answer) { stranger.getWeb(ctx, at, job, false, a) }},
		{"grpc", stranger.getRPC}, {"http", stranger.cancelWeb}, {"grpc", stranger.cancelRPC},
	} {
		base := check.Told{Client: c.name + " stranger", Series: "peek " + strconv.Itoa(n), Op: check.OpPeek, Way: ask.way, Job: job}
		stranger.series(ctx, base, askTimeout, func(ctx context.Context, at int, a *answer) {
			ask.does(ctx, at, job, a)
			a.Job = job
		})
	}
}
