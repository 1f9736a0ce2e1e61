package routes

import (
	"net/url"
	"strings"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/upstream"
)

// UpstreamKey returns the key that a task is submitted with.
func UpstreamKey(x *genbusv1.Execution) pool.UpstreamKey {
	return pool.UpstreamKey{Upstream: x.GetUpstream(), Key: x.GetUpstreamKey()}
}

// Ref names a task at its upstream.
func Ref(t *genbusv1.VideoTask) upstream.TaskRef {
	return upstream.TaskRef{ID: t.GetUpstreamTaskId(), Ticket: t.GetExecution().GetUpstreamTicket()}
}

// Place is where a result of a task can be read: its URL, or where there is none
// the path that the task's protocol has for it. It is always read with the key
// that made the task.
func (t *Table) Place(task *genbusv1.VideoTask, url string) (content.Place, error) {
	key, now := UpstreamKey(task.GetExecution()), t.now.Load()
	found, ok := now.keyOf(task, key)
	if !ok {
		return content.Place{}, errcode.New(errcode.UpstreamRemoved,
			"upstream %q of task %s is no longer configured, so its content cannot be read", key.Upstream, task.GetId()).ForJob(task.GetId())
	}
	if now.cfg.Sandbox.Enabled && key.Upstream == config.SandboxUpstream && ofStoppedSandbox(task.GetUpstreamTaskId(), found.endpoint.BaseURL, url) {
		return content.Place{}, errcode.New(errcode.ContentExpired,
			"the sandbox that made task %s has stopped, so its content is gone", task.GetId()).ForJob(task.GetId())
	}
	place := content.Place{Endpoint: found.endpoint, URL: url, PrivateOK: now.cfg.Upstreams[key.Upstream].PrivateResults}
	if pather, ok := found.client.(upstream.ContentPather); ok && url == "" {
		place.Path = pather.ContentPath(Ref(task))
	}
	return place, nil
}

// ofStoppedSandbox reports whether a result is a file of a sandbox before the one at baseURL: a
// sandbox names its files by its tasks, and each one that serve starts has another port. To the
// reader of content the old port would be a private address of no upstream.
func ofStoppedSandbox(id, baseURL, result string) bool {
	u, err := url.Parse(result)
	return err == nil && strings.HasPrefix(u.Path, "/files/"+id) && !content.SameOrigin(baseURL, result)
}

// Client is the client that reads a task, in the protocol and with the key
// that it was made with. It is false when these are not configured any more.
func (t *Table) Client(task *genbusv1.VideoTask) (upstream.VideoClient, bool) {
	found, ok := t.now.Load().keyOf(task, UpstreamKey(task.GetExecution()))
	return found.client, ok
}

// NeedsKey reports whether a result's URL is of no use to who has not the key of
// the key that made the task: it is on the upstream's own origin, and the
// upstream is called with a key or a signature.
func (t *Table) NeedsKey(task *genbusv1.VideoTask, result string) bool {
	found, ok := t.now.Load().keyOf(task, UpstreamKey(task.GetExecution()))
	if !ok || found.endpoint.Key == "" && found.endpoint.Auth == nil {
		return false
	}
	return content.SameOrigin(found.endpoint.BaseURL, result)
}

// Home is the route by which a task is read: its own, or where that is gone or
// speaks another protocol now, the first of the task's protocol. It is false where
// there is none.
func (t *Table) Home(task *genbusv1.VideoTask) (*Video, bool) { return t.now.Load().home(task) }

func (t *routing) home(task *genbusv1.VideoTask) (*Video, bool) {
	if route, ok := t.video[task.GetExecution().GetRoute()]; ok && route.Wire.Name == task.GetProtocol() {
		return route, true
	}
	for _, route := range t.videoRoutes() {
		if route.Wire.Name == task.GetProtocol() {
			return route, true
		}
	}
	return nil, false
}

// keyOf finds the key of a task by the route that reads it.
func (t *routing) keyOf(task *genbusv1.VideoTask, a pool.UpstreamKey) (keyClient, bool) {
	route, ok := t.home(task)
	if !ok {
		return keyClient{}, false
	}
	return route.key(a)
}

// TryRetryBudget asks for a retry of a job that stays with its key.
func (t *Table) TryRetryBudget() (time.Time, bool) { return t.pool.TryRetryBudget() }

// Resume counts a task that already uses a key, until the slot is released.
func (t *Table) Resume(a pool.UpstreamKey) *pool.Slot { return t.pool.Resume(a) }
