package routes

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/upstream"
)

// Account is the account that a task is submitted with.
func Account(x *genbusv1.Execution) pool.Account {
	return pool.Account{Upstream: x.GetUpstream(), Key: x.GetUpstreamKey()}
}

// Ref names a task at its upstream.
func Ref(t *genbusv1.VideoTask) upstream.TaskRef {
	return upstream.TaskRef{ID: t.GetUpstreamTaskId(), Ticket: t.GetExecution().GetUpstreamTicket()}
}

// Place is where a result of a task can be read: its URL, or where there is none
// the path that the task's protocol has for it. It is always asked by the account
// that made the task.
func (t *Table) Place(task *genbusv1.VideoTask, url string) (content.Place, error) {
	account := Account(task.GetExecution())
	found, ok := t.accountOf(task, account)
	if !ok {
		return content.Place{}, fault.New(fault.UpstreamRemoved,
			"upstream %q of task %s is not configured any more, so its content cannot be read", account.Upstream, task.GetId()).ForJob(task.GetId())
	}
	place := content.Place{Endpoint: found.endpoint, URL: url, PrivateOK: t.cfg.Upstreams[account.Upstream].PrivateResults}
	if pather, ok := found.client.(upstream.ContentPather); ok && url == "" {
		place.Path = pather.ContentPath(Ref(task))
	}
	return place, nil
}

// accountOf finds the account of a task by its route, or where that is gone by
// any route of the same protocol.
func (t *Table) accountOf(task *genbusv1.VideoTask, a pool.Account) (videoAccount, bool) {
	if route, ok := t.video[task.GetExecution().GetRoute()]; ok {
		return route.account(a)
	}
	for _, route := range t.video {
		if route.Wire.Name == task.GetProtocol() {
			return route.account(a)
		}
	}
	return videoAccount{}, false
}

// Resume counts a task that an account has already, until the lease is released.
func (t *Table) Resume(a pool.Account) *pool.Lease { return t.pool.Resume(a) }
