package jobtable

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/publisher"
)

// scanRows is how many rows are looked at while the table is locked.
const scanRows = 4096

// Search looks at every row, some thousand at a time: jobs come and go meanwhile.
func (x *Table) Search(ctx context.Context, s Search) (Found, error) {
	c := collector{search: s, found: Found{Jobs: []FoundJob{}}, now: time.Now().UnixNano()}
	for k, v := range s.Labels {
		c.labels = append(c.labels, publisher.LabelOf(k, v))
	}
	c.found.Since = x.fellOutSince()
	for _, key := range x.keys(s.Filter) {
		for after, more := (Row{}), true; more; {
			if ctx.Err() != nil {
				return Found{}, context.Cause(ctx)
			}
			after, more = x.scan(key, after, &c)
		}
	}
	if s.ByTenant {
		c.rankTenants()
	}
	if len(c.found.Jobs) > s.Size {
		c.found.Jobs, c.found.More = c.found.Jobs[:s.Size], true
	}
	return c.found, nil
}

func (x *Table) fellOutSince() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.since
}

// keys are the lists that may have what is looked for.
func (x *Table) keys(f Filter) []listKey {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []listKey
	for key := range x.lists {
		if (f.Kind == "" || key.kind == f.Kind) && (f.Tenant == "" || key.tenant == f.Tenant) {
			out = append(out, key)
		}
	}
	return out
}

// scan looks at the rows of a list after one, in the order of the page, so that what comes
// first is met first; the zero row is before all. It returns the last that it has looked at,
// and whether there are more.
func (x *Table) scan(key listKey, after Row, c *collector) (last Row, more bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	l := x.lists[key]
	if l == nil {
		return Row{}, false
	}
	looked := 0
	look := func(r Row) bool {
		if after.ID != "" && compareRows(r, after) == 0 {
			return true
		}
		c.look(key, &r)
		last = Row{Created: r.Created, ID: r.ID}
		looked++
		more = looked == scanRows
		return !more
	}
	switch {
	case c.search.Oldest:
		l.rows.Ascend(after, look)
	case after.ID != "":
		l.rows.Descend(after, look)
	default:
		l.rows.Reverse(look)
	}
	return last, more
}
