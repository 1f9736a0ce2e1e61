package load

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/grpc/metadata"

	"github.com/genbus/genbus/test/faultinject/check"
)

// Tenant owns the jobs of a client.
type Tenant struct {
	Name string
	// Key is the API key for HTTP and gRPC, or empty.
	Key string
}

func (t Tenant) header() string { return "Bearer " + t.Key }

// calling adds the tenant's key to gRPC calls, replacing any other.
func (t Tenant) calling(ctx context.Context) context.Context {
	if t.Key == "" {
		return ctx
	}
	return metadata.NewOutgoingContext(ctx, metadata.Pairs("authorization", t.header()))
}

// sign adds the tenant's key to an HTTP request.
func (t Tenant) sign(h http.Header) {
	if t.Key != "" {
		h.Set("Authorization", t.header())
	}
}

// peeking reads a job as another tenant and tries to cancel it.
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
		base := check.Call{Client: c.name + " stranger", Series: "peek " + strconv.Itoa(n), Op: check.OpPeek, Ingress: ask.way, Job: job}
		stranger.series(ctx, base, askTimeout, func(ctx context.Context, at int, a *answer) {
			ask.does(ctx, at, job, a)
			a.Job = job
		})
	}
}
