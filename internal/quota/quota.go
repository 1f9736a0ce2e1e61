// Package quota bounds each tenant's requests per second, unfinished jobs and dead letters. Each
// replica keeps its own counts, in memory.
package quota

import (
	"container/list"
	"context"
	"sync"

	"github.com/genbus/genbus/internal/config"
)

// Options configures a Quota.
type Options struct {
	// Limits returns a tenant's limits. It is called for every request. Required.
	Limits func(tenant string) config.TenantLimits
	// Unfinished returns a tenant's unfinished jobs on all replicas, including jobs that this
	// replica stored before the call. known is false if the number is not available. It must limit
	// its own duration. Required.
	Unfinished func(ctx context.Context, tenant string) (n int, known bool)
}

// Quota enforces the limits of tenants on one replica. It is safe for concurrent use.
type Quota struct {
	o Options

	slots slots

	mu      sync.Mutex
	buckets map[string]*list.Element // of *bucket
	recent  *list.List               // the buckets, most recently used first
}

// New returns a Quota.
func New(o Options) *Quota {
	return &Quota{o: o, buckets: map[string]*list.Element{}, recent: list.New(), slots: slots{unfinished: o.Unfinished, tenants: map[string]*tenantSlots{}}}
}
