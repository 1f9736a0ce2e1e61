// Package quota bounds what one tenant may use of genbus: requests a second,
// unfinished jobs and dead letters. It is no account of what a tenant has used, and it is kept in
// memory, by each replica for itself.
package quota

import (
	"container/list"
	"context"
	"sync"

	"github.com/genbus/genbus/internal/config"
)

// Options say what is bounded by what.
type Options struct {
	// Limits of a tenant, which are asked for with every request. Required.
	Limits func(tenant string) config.TenantLimits
	// Unfinished is how many jobs of a tenant are unfinished, on all replicas, and those
	// included that this replica has stored before it asks; known is false where nothing can
	// say that. It bounds its own time. Required.
	Unfinished func(ctx context.Context, tenant string) (n int, known bool)
}

// Quota is what one replica knows of its tenants. It is safe for concurrent use.
type Quota struct {
	o Options

	slots slots

	mu      sync.Mutex
	buckets map[string]*list.Element // of *bucket
	recent  *list.List               // the buckets, the last used one first
}

// New returns a quota of which nothing has been used.
func New(o Options) *Quota {
	return &Quota{o: o, buckets: map[string]*list.Element{}, recent: list.New(), slots: slots{unfinished: o.Unfinished, tenants: map[string]*tenantSlots{}}}
}
