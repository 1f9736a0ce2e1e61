package quota

import (
	"cmp"
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxRefused limits the number of tenants whose refusals are counted, because NATS clients can
// invent tenants. When the limit is exceeded, the tenant whose last refusal is oldest is removed.
const maxRefused = 1000

// Refusals counts how often this replica refused each tenant in the last hour because of the
// tenant's limits. It is safe for concurrent use.
type Refusals struct {
	mu      sync.Mutex
	recent  *list.List // of *refusedTenant, latest first
	tenants map[string]*list.Element
}

// refusedTenant counts a tenant's refusals by minute, in a ring indexed by minute modulo 60.
type refusedTenant struct {
	tenant  string
	minutes [60]struct {
		number int64 // minutes since 1970
		count  uint32
	}
}

// NewRefusals returns an empty Refusals.
func NewRefusals() *Refusals {
	return &Refusals{recent: list.New(), tenants: map[string]*list.Element{}}
}

// Add counts a refusal.
func (r *Refusals) Add(tenant string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.tenants[tenant]
	if e == nil {
		tenant = strings.Clone(tenant) // the string shares a request's memory
		e = r.recent.PushFront(&refusedTenant{tenant: tenant})
		r.tenants[tenant] = e
		if r.recent.Len() > maxRefused {
			delete(r.tenants, r.recent.Remove(r.recent.Back()).(*refusedTenant).tenant)
		}
	}
	r.recent.MoveToFront(e)
	number := now.Unix() / 60
	minutes := &e.Value.(*refusedTenant).minutes
	m := &minutes[int(number)%len(minutes)]
	if m.number != number {
		m.number, m.count = number, 0
	}
	m.count++
}

// Refused reports how often a tenant was refused.
type Refused struct {
	Tenant string
	Count  uint64
}

// LastHour returns up to n tenants that were refused most often in the last 60 minutes, most
// refused first.
func (r *Refusals) LastHour(n int, now time.Time) []Refused {
	oldest := now.Unix()/60 - 60
	r.mu.Lock()
	var out []Refused
	for tenant, e := range r.tenants {
		one := Refused{Tenant: tenant}
		for _, m := range e.Value.(*refusedTenant).minutes {
			if m.number > oldest {
				one.Count += uint64(m.count)
			}
		}
		if one.Count > 0 {
			out = append(out, one)
		}
	}
	r.mu.Unlock()
	slices.SortFunc(out, func(a, b Refused) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Tenant, b.Tenant)) })
	return out[:min(n, len(out))]
}
