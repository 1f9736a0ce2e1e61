package routes

import (
	"slices"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/pool"
)

// Reload builds the routes of a new configuration. Nothing changes until the caller calls swap,
// which cannot fail. Reloads must not overlap.
func (t *Table) Reload(cfg *config.Config) (swap func(), err error) {
	before := t.now.Load()
	next, err := newRouting(cfg, t.pool, before)
	if err != nil {
		return nil, err
	}
	return func() {
		t.pool.Reload(cfg.Upstreams, cfg.Retry, renewed(before.cfg.Upstreams, cfg.Upstreams)...)
		t.now.Store(next)
		t.models.invalidate()
		t.retire(before, next)
	}, nil
}

// renewed returns the upstream keys that are new or whose credentials changed.
func renewed(old, next config.Upstreams) []pool.UpstreamKey {
	var out []pool.UpstreamKey
	for name, u := range next {
		for _, k := range u.Credentials() {
			same := func(other config.UpstreamKey) bool {
				return other.Name == k.Name && other.Key.Equal(k.Key) && other.AccessKey.Equal(k.AccessKey) && other.SecretKey.Equal(k.SecretKey)
			}
			if !slices.ContainsFunc(old[name].Credentials(), same) {
				out = append(out, pool.UpstreamKey{Upstream: name, Key: k.Name})
			}
		}
	}
	return out
}

// retire keeps the replaced transports, because calls in flight still use them and Close must close
// them.
func (t *Table) retire(before, next *routing) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, transport := range before.transports {
		if next.transports[name] != transport {
			transport.CloseIdleConnections()
			t.spent = append(t.spent, transport)
		}
	}
}
