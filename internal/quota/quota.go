// Package quota bounds what one tenant may use of genbus: requests a second,
// unfinished jobs and dead letters. It is no account of what a tenant has used, and it is kept in
// memory, by each replica for itself.
package quota

import (
	"container/list"
	"sync"

	"github.com/genbus/genbus/internal/config"
)

// Options say what is bounded by what. Both functions are called for every
// request, and return at once.
type Options struct {
	// Limits of a tenant. Required.
	Limits func(tenant string) config.TenantLimits
	// Unfinished is how many jobs of a tenant are known to be unfinished, on all
	// replicas. Required.
	Unfinished func(tenant string) int
}

// Quota is what one replica knows of its tenants. It is safe for concurrent use.
type Quota struct {
	o Options

	mu       sync.Mutex
	buckets  map[string]*list.Element // of *bucket
	recent   *list.List               // the buckets, the last used one first
	acquired map[string]int           // slots, by tenant
}

// New returns a quota of which nothing has been used.
func New(o Options) *Quota {
	return &Quota{o: o, buckets: map[string]*list.Element{}, recent: list.New(), acquired: map[string]int{}}
}
