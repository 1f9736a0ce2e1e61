package jobtable

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/genbus/genbus/internal/subject"
)

// TestUnfinishedIsCounted checks the count against a plain set of jobs, through evictions and
// returns.
func TestUnfinishedIsCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := New(rapid.IntRange(1, 5).Draw(t, "limit"))
		want := map[string]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			i := rapid.IntRange(0, 11).Draw(t, "job")
			n := subject.JobName{Kind: subject.Video, Tenant: []string{"acme", "globex"}[i%2], ID: fmt.Sprintf("video_%d", i)}
			open, had := want[n.ID]
			if had && !open {
				continue // terminal stays terminal
			}
			r := Row{Created: int64(i), ID: n.ID, unfinished: rapid.Bool().Draw(t, "unfinished")}
			x.put(n, r)
			want[n.ID] = r.unfinished
		}
		count := map[string]int{}
		for id, open := range want {
			var i int
			_, _ = fmt.Sscanf(id, "video_%d", &i)
			if open {
				count[[]string{"acme", "globex"}[i%2]]++
			}
		}
		for _, tenant := range []string{"acme", "globex", "nobody"} {
			if got := x.Unfinished(tenant); got != count[tenant] {
				t.Fatalf("%s has %d unfinished jobs, want %d", tenant, got, count[tenant])
			}
		}
		if x.size > x.limit {
			t.Fatalf("%d rows, the limit is %d", x.size, x.limit)
		}
		for key, l := range x.lists {
			if l.isEmpty() {
				t.Fatalf("the list of %v is kept although it is empty", key)
			}
		}
	})
}

// TestTheNewestJobsAreListedWithoutGaps checks that evictions leave each tenant's newest jobs
// without gaps, and that events of evicted jobs count without bringing them back.
func TestTheNewestJobsAreListedWithoutGaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(4, 300).Draw(t, "limit")
		x := New(limit)
		made := map[string][]string{}
		ended := map[string]int{}
		type event struct {
			tenant string
			job    int
			ends   bool
		}
		var events []event
		for i := range rapid.IntRange(1, 600).Draw(t, "jobs") {
			tenant := rapid.SampledFrom([]string{"busy", "busy", "busy", "busy", "a", "b"}).Draw(t, "tenant")
			made[tenant] = append(made[tenant], fmt.Sprintf("video_%04d", i))
			events = append(events, event{tenant, i, rapid.Bool().Draw(t, "ends")})
			if events[i].ends {
				ended[tenant]++
			}
		}
		put := func(e event, unfinished bool) {
			n := subject.JobName{Kind: subject.Video, Tenant: e.tenant, ID: fmt.Sprintf("video_%04d", e.job)}
			x.put(n, Row{Created: int64(e.job + 1), ID: n.ID, unfinished: unfinished})
		}
		first := events
		if rapid.Bool().Draw(t, "as at a start") {
			first = rapid.Permutation(events).Draw(t, "order")
		}
		for _, e := range first {
			put(e, true)
		}
		for _, e := range rapid.Permutation(events).Draw(t, "later events") {
			put(e, true)
			if e.ends {
				put(e, false)
			}
		}
		shortest := limit
		for tenant, ids := range made {
			var listed []string
			for _, r := range all(x.Page(Window{Kind: subject.Video, Tenant: tenant, Before: math.MaxInt64, N: len(ids), Ascending: true})) {
				listed = append(listed, r.ID)
			}
			cut := 0 // jobs up to the newest evicted one
			if l := x.lists[listKey{subject.Video, tenant}]; l != nil {
				for cut < len(ids) && ids[cut] <= l.cut.ID {
					cut++
				}
			}
			if older := len(listed) - (len(ids) - cut); older < 0 || !slices.Equal(listed[older:], ids[cut:]) || !slices.IsSorted(listed) {
				t.Fatalf("%s: %v are listed of %v, and the newest %d did not fall out", tenant, listed, ids, len(ids)-cut)
			}
			if got := x.Unfinished(tenant); got != len(ids)-ended[tenant] {
				t.Fatalf("%s has %d unfinished jobs, want %d", tenant, got, len(ids)-ended[tenant])
			}
			if len(listed) < len(ids) {
				shortest = min(shortest, len(listed))
			}
		}
		for tenant, ids := range made {
			if l := x.lists[listKey{subject.Video, tenant}]; len(ids) > 0 && l.rows.Len() == len(ids) && len(ids) > shortest+limit/100+1 {
				t.Fatalf("%s keeps all %d of its jobs while another one keeps %d", tenant, len(ids), shortest)
			}
		}
		if x.size > limit {
			t.Fatalf("%d rows, the limit is %d", x.size, limit)
		}
	})
}

func all(rows []Row, _ bool) []Row { return rows }

// TestRemovedJobsDoNotCount checks that Remove stops counting a job, unless a later event arrived
// for it.
func TestRemovedJobsDoNotCount(t *testing.T) {
	t.Parallel()
	x := New(10)
	n, r := subject.JobName{Kind: subject.Chat, Tenant: "acme", ID: "chat_1"}, Row{Created: 1, ID: "chat_1", unfinished: true}
	later := r
	later.Seq = 2
	x.put(n, later)
	x.Remove(n, r)
	if got := x.Unfinished("acme"); got != 1 {
		t.Errorf("%d unfinished jobs, and a later event of one arrived than the one that was judged", got)
	}
	r = later
	x.Remove(n, r)
	if got := x.Unfinished("acme"); got != 0 || len(x.lists) != 0 {
		t.Errorf("%d unfinished jobs, %d lists", got, len(x.lists))
	}
	x.Remove(n, r)
}

// TestAnEndCountsAtOnce checks that an end counts when it is written, and that earlier events
// delivered later do not undo it.
func TestAnEndCountsAtOnce(t *testing.T) {
	t.Parallel()
	x := New(10)
	n := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: "video_1"}
	queued := Row{Created: 1, ID: n.ID, Status: "queued", unfinished: true}
	x.wrote(n, queued)
	x.wrote(n, Row{Created: 1, ID: n.ID, Status: "cancelled"})
	if got := x.Unfinished("acme"); got != 0 {
		t.Fatalf("%d unfinished jobs after the end", got)
	}
	x.put(n, queued)
	if got := x.Unfinished("acme"); got != 0 {
		t.Fatalf("%d unfinished jobs after an earlier event arrived", got)
	}
}

// TestTheLargestTenants checks that UnfinishedByTenant returns the largest tenants over both kinds,
// and requested tenants that have unfinished jobs.
func TestTheLargestTenants(t *testing.T) {
	t.Parallel()
	x := New(100)
	for i, job := range []struct {
		kind       subject.Kind
		tenant     string
		unfinished bool
	}{
		{subject.Video, "acme", true}, {subject.Chat, "acme", true}, {subject.Chat, "acme", true}, {subject.Video, "globex", true}, {subject.Video, "globex", true},
		{subject.Video, "small", true}, {subject.Video, "done", false}, {subject.Chat, "tiny", true},
	} {
		n := subject.JobName{Kind: job.kind, Tenant: job.tenant, ID: fmt.Sprint(i)}
		x.put(n, Row{Created: int64(i), ID: n.ID, unfinished: job.unfinished})
	}
	jobs, total := x.UnfinishedByTenant(2, []string{"tiny", "done", "none"})
	if want := map[string]int64{"acme": 3, "globex": 2, "tiny": 1}; !maps.Equal(jobs, want) || total != 7 {
		t.Errorf("%v of %d, want %v of 7", jobs, total, want)
	}
	if jobs, total := x.UnfinishedByTenant(0, nil); len(jobs) != 0 || total != 7 {
		t.Errorf("none of the largest: %v, %d", jobs, total)
	}
}
