package jobindex

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestUnfinishedIsCounted against a plain set of jobs, whatever falls out of the
// index and comes back.
func TestUnfinishedIsCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := newTable(rapid.IntRange(1, 5).Draw(t, "limit"))
		want := map[string]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			i := rapid.IntRange(0, 11).Draw(t, "job")
			n := subject.TaskName{Kind: subject.Video, Tenant: []string{"acme", "globex"}[i%2], ID: fmt.Sprintf("video_%d", i)}
			open, had := want[n.ID]
			if had && !open {
				continue // terminal stays terminal
			}
			r := row{created: int64(i), id: n.ID, unfinished: rapid.Bool().Draw(t, "unfinished")}
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
			if got := x.unfinishedOf(tenant); got != count[tenant] {
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

// TestTheNewestJobsAreListedWithoutGaps: events of jobs that fell out count, and do not bring
// them back. The longest lists lose jobs.
func TestTheNewestJobsAreListedWithoutGaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(4, 300).Draw(t, "limit")
		x := newTable(limit)
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
			n := subject.TaskName{Kind: subject.Video, Tenant: e.tenant, ID: fmt.Sprintf("video_%04d", e.job)}
			x.put(n, row{created: int64(e.job + 1), id: n.ID, unfinished: unfinished})
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
			for _, r := range all(x.page(window{Kind: subject.Video, Tenant: tenant, Before: math.MaxInt64, N: len(ids), Ascending: true})) {
				listed = append(listed, r.id)
			}
			cut := 0 // jobs up to the newest that fell out
			if l := x.lists[listKey{subject.Video, tenant}]; l != nil {
				for cut < len(ids) && ids[cut] <= l.cut.id {
					cut++
				}
			}
			if older := len(listed) - (len(ids) - cut); older < 0 || !slices.Equal(listed[older:], ids[cut:]) || !slices.IsSorted(listed) {
				t.Fatalf("%s: %v are listed of %v, and the newest %d did not fall out", tenant, listed, ids, len(ids)-cut)
			}
			if got := x.unfinishedOf(tenant); got != len(ids)-ended[tenant] {
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

func all(rows []row, _ bool) []row { return rows }

// TestForgottenJobsDoNotCount: the log no longer has them.
func TestForgottenJobsDoNotCount(t *testing.T) {
	t.Parallel()
	x := newTable(10)
	n, r := subject.TaskName{Kind: subject.Chat, Tenant: "acme", ID: "chat_1"}, row{created: 1, id: "chat_1", unfinished: true}
	later := r
	later.seq = 2
	x.put(n, later)
	x.forget(n, r)
	if got := x.unfinishedOf("acme"); got != 1 {
		t.Errorf("%d unfinished jobs, and a later event of one was heard than the one that was judged", got)
	}
	r = later
	x.forget(n, r)
	if got := x.unfinishedOf("acme"); got != 0 || len(x.lists) != 0 {
		t.Errorf("%d unfinished jobs, %d lists", got, len(x.lists))
	}
	x.forget(n, r)
}

// TestAnEndCountsAtOnce where it is written, and the earlier events that arrive after that do
// not count the job again.
func TestAnEndCountsAtOnce(t *testing.T) {
	t.Parallel()
	x := newTable(10)
	n := subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: "video_1"}
	queued := row{created: 1, id: n.ID, status: "queued", unfinished: true}
	x.wrote(n, queued)
	x.wrote(n, row{created: 1, id: n.ID, status: "cancelled"})
	if got := x.unfinishedOf("acme"); got != 0 {
		t.Fatalf("%d unfinished jobs after the end", got)
	}
	x.put(n, queued)
	if got := x.unfinishedOf("acme"); got != 0 {
		t.Fatalf("%d unfinished jobs after an earlier event arrived", got)
	}
}

// TestAJobThatTheLeaderStoresLaterStays in the list: an ordered consumer may be on a node that
// has what the leader stores a moment later.
func TestAJobThatTheLeaderStoresLaterStays(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := joblog.New(joblog.Options{Broker: b, Encoder: publisher.Encoder{Names: b.Names()}, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)})
	x := New(Options{Log: l, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)})
	first := task.FromWork(&genbusv1.WorkItem{Id: "video_1", Kind: "video", Tenant: "acme", Route: "r", Model: "m", AcceptedAt: timestamppb.Now()})
	q := Query{Kind: subject.Video, Tenant: "acme"}
	n := subject.TaskName{Kind: q.Kind, Tenant: q.Tenant, ID: "video_1"}
	r := &reading{x: x, table: newTable(10), ready: true}
	x.current.Store(r)
	r.hear(joblog.Notice{Name: n, Status: "queued", CreatedAt: first.Job.GetCreatedAt().AsTime(), Version: 1, Seq: 1})
	listed := func() int {
		page, err := x.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Jobs)
	}
	if n := listed(); n != 0 {
		t.Fatalf("%d jobs are listed that the log does not have", n)
	}
	l.OnCommit(func(joblog.Notice) {}) // the event is not heard of a second time
	e, err := l.Commit(t.Context(), first, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n := listed(); n != 1 || e.Seq != 1 {
		t.Errorf("%d jobs are listed after the leader has stored event %d", n, e.Seq)
	}
	if err := l.Erase(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if n := listed(); n != 0 || r.table.unfinishedOf("acme") != 0 {
		t.Errorf("%d jobs are listed, and %d count, after the job was erased", n, r.table.unfinishedOf("acme"))
	}
}

// TestTheLargestTenants are those with the most unfinished jobs of both kinds; others are told of
// where they are asked for, and have some.
func TestTheLargestTenants(t *testing.T) {
	t.Parallel()
	x := newTable(100)
	for i, job := range []struct {
		kind       subject.Kind
		tenant     string
		unfinished bool
	}{
		{subject.Video, "acme", true}, {subject.Chat, "acme", true}, {subject.Chat, "acme", true}, {subject.Video, "globex", true}, {subject.Video, "globex", true},
		{subject.Video, "small", true}, {subject.Video, "done", false}, {subject.Chat, "tiny", true},
	} {
		n := subject.TaskName{Kind: job.kind, Tenant: job.tenant, ID: fmt.Sprint(i)}
		x.put(n, row{created: int64(i), id: n.ID, unfinished: job.unfinished})
	}
	jobs, total := x.unfinishedByTenant(2, []string{"tiny", "done", "none"})
	if want := map[string]int64{"acme": 3, "globex": 2, "tiny": 1}; !maps.Equal(jobs, want) || total != 7 {
		t.Errorf("%v of %d, want %v of 7", jobs, total, want)
	}
	if jobs, total := x.unfinishedByTenant(0, nil); len(jobs) != 0 || total != 7 {
		t.Errorf("none of the largest: %v, %d", jobs, total)
	}
}
