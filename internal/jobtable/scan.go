package jobtable

import (
	"context"
	"time"

	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// scanRows is the number of rows scanned per acquisition of the lock.
const scanRows = 4096

// Search scans all rows, scanRows at a time. Jobs may be added and removed in between.
func (x *Table) Search(ctx context.Context, s Search) (Found, error) {
	c := collector{search: s, found: Found{Jobs: []FoundJob{}}, now: time.Now().UnixNano()}
	for k, v := range s.Labels {
		c.labels = append(c.labels, publisher.LabelOf(k, v))
	}
	if subject.IsJobIDPrefix(s.Find) {
		c.prefix = s.Find
	}
	c.found.Since = x.fellOutSince()
	for _, key := range x.keys(s.Filter) {
		c.enter(key)
		for after, more := (Row{}), true; more; {
			if ctx.Err() != nil {
				return Found{}, context.Cause(ctx)
			}
			after, more = x.scan(key, after, &c)
		}
	}
	if s.ByTenant {
		c.rankTenants()
	} else {
		c.addCounts()
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

// keys returns the keys of the lists that can contain matches.
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

// scan passes up to scanRows rows to c, starting after the row after or, if that is the zero row,
// at the beginning. It proceeds in page order so that the first matches fill the page. It returns
// the last row scanned and reports whether more rows may follow.
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
