package jobtable

import (
	"fmt"
	"slices"
	"testing"
	"time"
	"unique"

	"github.com/genbus/genbus/internal/subject"
)

// retried returns the row of a job that repeats another one.
func retried(id string, created int64, of string) Row {
	return Row{ID: id, Created: created, Seq: uint64(created), Status: "completed", facts: facts{shared: unique.Make(words{retryOf: of})}}
}

func acmes(id string) subject.JobName {
	return subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}
}

// TestReplacementsAreFound checks chains, and that the list of replacements follows changes,
// erasures, removals and evictions.
func TestReplacementsAreFound(t *testing.T) {
	t.Parallel()
	x := New(5)
	want := func(id string, created int64, ids ...string) {
		t.Helper()
		if got := x.ReplacedBy(Replaced{Kind: subject.Video, Tenant: "acme", ID: id, Created: created}); !slices.Equal(got, ids) {
			t.Errorf("%s is replaced by %v, want %v", id, got, ids)
		}
	}
	want("a", 1)
	for _, r := range []Row{{ID: "a", Created: 1, Seq: 1, Status: "failed"}, retried("c", 3, "b"), retried("b", 2, "a"), retried("d", 4, "a")} {
		x.put(acmes(r.ID), r)
	}
	want("a", 1, "b", "d")
	want("b", 2, "c")
	want("c", 3)
	if got := x.ReplacedBy(Replaced{Kind: subject.Video, Tenant: "globex", ID: "a", Created: 1}); got != nil {
		t.Errorf("another tenant sees %v", got)
	}
	if got := x.ReplacedBy(Replaced{Kind: subject.Chat, Tenant: "acme", ID: "a", Created: 1}); got != nil {
		t.Errorf("another kind sees %v", got)
	}
	want("a", int64(time.Hour)) // accepted under the ID of an erased job

	later := retried("b", 2, "a")
	later.Seq = 10
	x.put(acmes("b"), later)
	want("a", 1, "b", "d")
	x.Erase(acmes("d"), Row{ID: "d", Created: 4, Seq: 11})
	want("a", 1, "b")
	x.put(acmes("d"), retried("d", 4, "a")) // a late event
	want("a", 1, "b")
	x.Remove(acmes("b"), Row{ID: "b", Created: 2, Seq: 10})
	want("a", 1)
	x.wrote(acmes("e"), retried("e", 5, "a"))
	want("a", 1, "e")
	for i := range 5 {
		r := retried(fmt.Sprint("f", i), 6+int64(i), "")
		x.put(acmes(r.ID), r)
	}
	want("a", 1) // e is evicted
	if l := x.lists[listKey{subject.Video, "acme"}]; l.retries.byJob.Len() != 0 {
		t.Errorf("%d entries are kept", l.retries.byJob.Len())
	}
	for i := range 2 * MaxPage {
		x.limit++
		r := retried(fmt.Sprint("g", i), 20+int64(i), "a")
		x.put(acmes(r.ID), r)
	}
	if got := x.ReplacedBy(Replaced{Kind: subject.Video, Tenant: "acme", ID: "a"}); len(got) != MaxPage || got[0] != "g100" || got[MaxPage-1] != "g199" {
		t.Errorf("of many, %d are listed: %v", len(got), got)
	}
}
