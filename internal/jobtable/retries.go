package jobtable

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/btree"

	"github.com/genbus/genbus/internal/subject"
)

// clockDifference is by how much a replacement may seem older than the job that it repeats,
// because another replica accepted it.
const clockDifference = time.Minute

// retries holds the rows of a list that repeat another job. The zero value is empty.
type retries struct{ byJob *btree.BTreeG[retry] }

type retry struct {
	of      string // ID of the repeated job
	created int64
	id      string
}

func compareRetries(a, b retry) int {
	return cmp.Or(strings.Compare(a.of, b.of), cmp.Compare(a.created, b.created), strings.Compare(a.id, b.id))
}

// change updates the index of retries after a row has changed. Only rows that repeat a job are in it.
func (l *retries) change(before, r Row) {
	from, to := before.words().retryOf, r.words().retryOf
	if from == to {
		return
	}
	if from != "" {
		l.byJob.Delete(retry{from, before.Created, before.ID})
	}
	if to != "" {
		if l.byJob == nil {
			l.byJob = btree.NewBTreeGOptions(func(a, b retry) bool { return compareRetries(a, b) < 0 }, btree.Options{NoLocks: true})
		}
		l.byJob.Set(retry{to, r.Created, r.ID})
	}
}

// Replaced names a job whose replacements are asked for.
type Replaced struct {
	Kind    subject.Kind `json:"kind"`
	Tenant  string       `json:"tenant"`
	ID      string       `json:"id"`
	Created int64        `json:"created"` // Unix nanoseconds
}

// ReplacedBy returns the IDs of the newest MaxPage jobs of the same kind and tenant that repeat a
// job, oldest first. It leaves out jobs that repeat an earlier, erased job with the same ID.
func (x *Table) ReplacedBy(job Replaced) (ids []string) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	l := x.lists[listKey{job.Kind, job.Tenant}]
	if l == nil || l.retries.byJob == nil {
		return nil
	}
	l.retries.byJob.Descend(retry{of: job.ID, created: math.MaxInt64}, func(r retry) bool {
		if r.of != job.ID || r.created < job.Created-int64(clockDifference) || len(ids) == MaxPage {
			return false
		}
		ids = append(ids, r.id)
		return true
	})
	slices.Reverse(ids)
	return ids
}
