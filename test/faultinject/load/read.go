package load

import (
	"context"
	"strconv"
	"time"

	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

const readEvery = 700 * time.Millisecond

// reading reads a job until it has ended. It alternates between gRPC and HTTP and between replicas.
func (c *client) reading(ctx context.Context, job string) {
	for n := 0; ; n++ {
		t := c.read(ctx, job, n)
		if t.Good() && task.TerminalWord(t.Status) || !faultinject.Pause(ctx, readEvery) {
			return
		}
	}
}

func (c *client) read(ctx context.Context, job string, n int) check.Call {
	base := check.Call{Client: c.name + " reader", Series: "get " + strconv.Itoa(n), Op: check.OpGet, Ingress: "http", Job: job}
	if n%3 == 1 {
		base.Ingress = "grpc"
	}
	return c.series(ctx, base, askTimeout, func(ctx context.Context, at int, a *answer) {
		if n%3 == 1 {
			c.getRPC(ctx, at, job, a)
		} else {
			c.getWeb(ctx, at, job, n%3 == 0, a)
		}
		a.Job = firstOf(a.Job, job)
	})
}

// cancelAfter cancels a job some time after its acceptance.
func (c *client) cancelAfter(ctx context.Context, job string) {
	if !faultinject.Pause(ctx, c.cancel) {
		return
	}
	viaRPC := c.cancel%2 == 0
	base := check.Call{Client: c.name + " canceller", Series: "cancel", Op: check.OpCancel, Ingress: "http", Job: job}
	if viaRPC {
		base.Ingress = "grpc"
	}
	c.series(ctx, base, askTimeout, func(ctx context.Context, at int, a *answer) {
		if viaRPC {
			c.cancelRPC(ctx, at, job, a)
		} else {
			c.cancelWeb(ctx, at, job, a)
		}
		a.Job = firstOf(a.Job, job)
	})
}
