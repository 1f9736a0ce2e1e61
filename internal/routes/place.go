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

// UpstreamKey returns the upstream key that a task was submitted with.
func UpstreamKey(x *genbusv1.Execution) pool.UpstreamKey {
	return pool.UpstreamKey{Upstream: x.GetUpstream(), Key: x.GetUpstreamKey()}
}

// Ref returns the reference by which the upstream knows a task.
func Ref(t *genbusv1.VideoTask) upstream.TaskRef {
	return upstream.TaskRef{ID: t.GetUpstreamTaskId(), Ticket: t.GetExecution().GetUpstreamTicket()}
}

// freshFor is how long after a task's end its content may not be there yet. The content of a task
// that has not ended is being archived, so it is fresh too.
const freshFor = 10 * time.Minute

// Place returns where to read a result of a task. This is url or, if url is empty, the content path
// of the task's protocol. It uses the upstream key that created the task.
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
	ended := task.GetCompletedAt()
	place := content.Place{
		Endpoint: found.endpoint, URL: url, PrivateOK: now.cfg.Upstreams[key.Upstream].PrivateResults,
		Fresh: ended == nil || time.Since(ended.AsTime()) < freshFor,
	}
	if pather, ok := found.client.(upstream.ContentPather); ok && url == "" {
		place.Path = pather.ContentPath(Ref(task))
	}
	return place, nil
}

// ofStoppedSandbox reports whether a result is a file of a sandbox that ran before the one at
// baseURL. A sandbox names its files after its tasks, and listens on another port after each start
// of serve. Without this check, the reader would report the old port as a blocked private address.
func ofStoppedSandbox(id, baseURL, result string) bool {
	u, err := url.Parse(result)
	return err == nil && strings.HasPrefix(u.Path, "/files/"+id) && !content.SameOrigin(baseURL, result)
}

// Client returns the client for reading a task, with the protocol and the upstream key that created
// it. The bool is false if these are no longer configured.
func (t *Table) Client(task *genbusv1.VideoTask) (upstream.VideoClient, bool) {
	found, ok := t.now.Load().keyOf(task, UpstreamKey(task.GetExecution()))
	return found.client, ok
}

// NeedsKey reports whether a result's URL works only with the upstream key that created the task.
// This is so if the URL is on the upstream's own origin and the upstream requires a key or a
// signature.
func (t *Table) NeedsKey(task *genbusv1.VideoTask, result string) bool {
	found, ok := t.now.Load().keyOf(task, UpstreamKey(task.GetExecution()))
	if !ok || found.endpoint.Key == "" && found.endpoint.Auth == nil {
		return false
	}
	return content.SameOrigin(found.endpoint.BaseURL, result)
}

// Home returns the route for reading a task. This is the task's own route, unless that was removed
// or now has another protocol. In that case it is the first route by name with the task's protocol.
// The bool is false if there is none.
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

// keyOf returns the client of an upstream key on a task's home route.
func (t *routing) keyOf(task *genbusv1.VideoTask, a pool.UpstreamKey) (keyClient, bool) {
	route, ok := t.home(task)
	if !ok {
		return keyClient{}, false
	}
	return route.key(a)
}

// TryRetryBudget charges the budget for a retry with the same upstream key. If the budget is used
// up, it returns false and the time to ask again.
func (t *Table) TryRetryBudget() (time.Time, bool) { return t.pool.TryRetryBudget() }

// Resume returns a slot for a task that already uses an upstream key.
func (t *Table) Resume(a pool.UpstreamKey) *pool.Slot { return t.pool.Resume(a) }
