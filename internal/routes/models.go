package routes

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/upstream"
)

// Models lists the models that the routes offer, sorted by ID. These are the exact model names of
// all routes, and the models that an upstream lists, if requests for them would use a route to that
// upstream. kind is "video", "chat", or empty for both. Draining routes are left out.
func (t *Table) Models(ctx context.Context, kind string) []*genbusv1.Model {
	now := t.now.Load()
	listed := t.upstreamModels(ctx)
	seen := map[string]*genbusv1.Model{}
	for _, r := range now.cfg.Routes {
		if kind != "" && r.Kind != kind || r.Draining {
			continue
		}
		for _, pattern := range r.Models {
			if !strings.Contains(pattern, "*") {
				put(seen, r, r.Upstreams[0].Name, upstream.Model{ID: pattern})
			}
		}
		for _, target := range r.Upstreams {
			for _, m := range listed[target.Name] {
				if found, ok := now.cfg.Route(r.Kind, m.ID); ok && found.Name == r.Name {
					put(seen, r, target.Name, m)
				}
			}
		}
	}
	out := make([]*genbusv1.Model, 0, len(seen))
	for _, m := range seen {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *genbusv1.Model) int {
		return cmp.Or(strings.Compare(a.GetId(), b.GetId()), strings.Compare(a.GetKind(), b.GetKind()))
	})
	return out
}

// put adds a model. An entry from an upstream wins over one from a route's pattern, and the first
// upstream wins over later ones. Upstreams do not report a model's kind, so catch-all routes of
// both kinds list the same model.
func put(seen map[string]*genbusv1.Model, r config.Route, from string, m upstream.Model) {
	key := r.Kind + " " + m.ID
	if old := seen[key]; old != nil && (len(old.GetExtraJson()) > 0 || m.Raw == nil) {
		return
	}
	seen[key] = &genbusv1.Model{
		Id: m.ID, Kind: r.Kind, Created: m.Created, OwnedBy: cmp.Or(m.OwnedBy, from),
		Route: r.Name, Protocol: r.Protocol, Group: r.Group, Modes: r.Modes, ExtraJson: extra(m.Raw),
	}
}

type modelCache struct {
	mu   sync.Mutex
	at   time.Time
	list map[string][]upstream.Model // by upstream; nil until the first answer
	// reloads counts the calls to invalidate. A list that was requested before a reload is stale on
	// arrival.
	reloads int
	// asking is closed when the caller that asks the upstreams has received their lists. It is nil
	// if no call is in flight.
	asking chan struct{}
}

// modelsFor bounds the age of a cached list. modelsTimeout bounds the calls, so that one dead
// upstream cannot hang a listing.
const (
	modelsFor     = time.Minute
	modelsTimeout = 5 * time.Second
)

// upstreamModels returns the models of every upstream that answers, cached for a minute. When the
// cache expires, one caller refreshes it while the others get the old lists. Before the first
// answer, the others wait.
func (t *Table) upstreamModels(ctx context.Context) map[string][]upstream.Model {
	c := &t.models
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.list != nil && (c.asking != nil || time.Since(c.at) < modelsFor):
		return c.list
	case c.asking != nil:
		c.await(ctx)
		return c.list
	}
	c.asking = make(chan struct{})
	reloads := c.reloads
	c.mu.Unlock()
	// The answer is shared, so one caller's cancellation must not end the call.
	list := t.now.Load().askAll(context.WithoutCancel(ctx))
	c.mu.Lock()
	close(c.asking)
	c.list, c.asking = list, nil
	if c.reloads == reloads {
		c.at = time.Now()
	}
	return list
}

// invalidate expires the cache because the upstreams have changed. It also marks an answer that is
// still in flight as stale.
func (c *modelCache) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
	c.reloads++
}

// await waits, without holding the lock, until the caller that asks the upstreams has the answer or
// ctx ends.
func (c *modelCache) await(ctx context.Context) {
	asking := c.asking
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-asking:
	case <-ctx.Done():
	}
}

// askAll asks every upstream for its models. It skips signed upstreams, because these are the
// vendors themselves, which have no model list.
func (t *routing) askAll(ctx context.Context) map[string][]upstream.Model {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string][]upstream.Model{}
	for name, u := range t.cfg.Upstreams {
		if u.Auth == config.AuthSigned {
			continue
		}
		ep := t.endpoint(name, u, u.Credentials()[0], upstream.Protocol{})
		wg.Go(func() {
			list, err := upstream.ListModels(ctx, ep)
			if err != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = list
		})
	}
	wg.Wait()
	return out
}

// extra returns the members of an upstream's entry that genbus does not write itself.
func extra(raw []byte) []byte {
	if raw == nil {
		return nil
	}
	var o body.Object
	if o.Add("", raw) != nil {
		return nil
	}
	for _, name := range []string{"id", "object", "created", "owned_by", "group", "protocol", "modes"} {
		o.Drop(name)
	}
	return o.JSON()
}
