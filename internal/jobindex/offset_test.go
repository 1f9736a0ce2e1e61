package jobindex_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// TestListFromAnOffset checks that an offset skips matching jobs, in both orders.
func TestListFromAnOffset(t *testing.T) {
	t.Parallel()
	l := listed(t, 7)
	begin := must[joblog.Entry](t)(l.Get(t.Context(), videoName("video_00"))).Job.GetCreatedAt().AsTime()
	for name, row := range map[string]struct {
		query jobtable.Query
		want  []string
	}{
		"newest first": {jobtable.Query{Offset: 2, Size: 2}, []string{"video_04", "video_03"}},
		"oldest first": {jobtable.Query{Offset: 2, Size: 2, Ascending: true}, []string{"video_02", "video_03"}},
		"none":         {jobtable.Query{Size: 2}, []string{"video_06", "video_05"}},
		"below none":   {jobtable.Query{Offset: -1, Size: 2}, []string{"video_06", "video_05"}},
		"the last":     {jobtable.Query{Offset: 6}, []string{"video_00"}},
		"all":          {jobtable.Query{Offset: 7}, nil},
		"more":         {jobtable.Query{Offset: 100}, nil},
		"after a job":  {jobtable.Query{Offset: 1, After: "video_04"}, []string{"video_02", "video_01", "video_00"}},
		// Jobs outside the bounds do not count.
		"within bounds": {jobtable.Query{Offset: 1, CreatedBefore: begin.Add(2 * time.Second).UnixNano()}, []string{"video_02", "video_01", "video_00"}},
	} {
		q := row.query
		q.Kind, q.Tenant = subject.Video, "acme"
		page := must[jobindex.Page](t)(l.List(t.Context(), q))
		var ids []string
		for _, e := range page.Jobs {
			ids = append(ids, e.Job.GetId())
		}
		if diff := cmp.Diff(row.want, ids); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestListAfterAJobThatIsErased checks that a list resumes after an erased job while the index has
// its row, and then fails with ErrNotFound.
func TestListAfterAJobThatIsErased(t *testing.T) {
	t.Parallel()
	l := listed(t, 5)
	erase(t, l, "video_03")
	want := [][]string{{"video_02", "video_01", "video_00"}}
	if diff := cmp.Diff(want, pages(t, l, jobtable.Query{After: "video_03"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pages(t, l, jobtable.Query{}) // makes the index remove it
	for _, id := range []string{"video_03", "video_none"} {
		_, err := l.List(t.Context(), jobtable.Query{Kind: subject.Video, Tenant: "acme", After: id})
		if !errors.Is(err, joblog.ErrNotFound) {
			t.Errorf("after %s: %v", id, err)
		}
	}
	for _, other := range []jobtable.Query{{Kind: subject.Video, Tenant: "globex"}, {Kind: subject.Chat, Tenant: "acme"}} {
		other.After = "video_02"
		if _, err := l.List(t.Context(), other); !errors.Is(err, joblog.ErrNotFound) {
			t.Errorf("a list of %s %s after a job of another: %v", other.Tenant, other.Kind, err)
		}
	}
}

// TestListAfterAJobThatFellOut checks that a list resumes after an evicted job, whose place comes
// from the log.
func TestListAfterAJobThatFellOut(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := newReplica(t, b, func(o *setup) { o.Size = 2 })
	indexed := make(chan struct{}, 3)
	l.OnIndexed(func() { indexed <- struct{}{} })
	for _, id := range []string{"video_00", "video_01", "video_02"} {
		must[joblog.Entry](t)(l.Commit(t.Context(), task.FromWork(work(id)), 0))
		<-indexed
	}
	if diff := cmp.Diff([][]string{{"video_02", "video_01"}}, pages(t, l, jobtable.Query{})); diff != "" {
		t.Fatalf("the index has (-want +got):\n%s", diff)
	}
	for ascending, want := range map[bool][][]string{false: {nil}, true: {{"video_01", "video_02"}}} {
		if diff := cmp.Diff(want, pages(t, l, jobtable.Query{After: "video_00", Ascending: ascending})); diff != "" {
			t.Errorf("ascending %t (-want +got):\n%s", ascending, diff)
		}
	}
}
