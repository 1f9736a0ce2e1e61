package jobindex_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// listed returns a replica whose index has applied n jobs, video_00 being the oldest.
func listed(t *testing.T, n int) *replica {
	t.Helper()
	l := newReplica(t, brokertest.Single(t))
	indexed := make(chan struct{}, 2*n)
	l.OnIndexed(func() { indexed <- struct{}{} })
	begin := time.Now().Truncate(time.Second)
	for i := range n {
		item := work(fmt.Sprintf("video_%02d", i))
		item.AcceptedAt = timestamppb.New(begin.Add(time.Duration(i/2) * time.Second)) // pairs share a creation time
		must[joblog.Entry](t)(l.Commit(t.Context(), task.FromWork(item), 0))
	}
	for range n {
		<-indexed
	}
	return l
}

func pages(t *testing.T, l *replica, q jobtable.Query) (out [][]string) {
	t.Helper()
	q.Kind, q.Tenant = subject.Video, "acme"
	for {
		page := must[jobindex.Page](t)(l.List(t.Context(), q))
		var ids []string
		for _, e := range page.Jobs {
			ids = append(ids, e.Job.GetId())
		}
		out = append(out, ids)
		if q.Token = page.NextToken; q.Token == "" {
			return out
		}
	}
}

func erase(t *testing.T, l *replica, ids ...string) {
	t.Helper()
	for _, id := range ids {
		e := must[joblog.Entry](t)(l.Get(t.Context(), videoName(id)))
		if err := l.Erase(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

func videoName(id string) subject.JobName {
	return subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}
}

func TestListInBothOrders(t *testing.T) {
	t.Parallel()
	l := listed(t, 7)
	oldest := [][]string{{"video_00", "video_01", "video_02"}, {"video_03", "video_04", "video_05"}, {"video_06"}}
	if diff := cmp.Diff(oldest, pages(t, l, jobtable.Query{Size: 3, Ascending: true})); diff != "" {
		t.Errorf("oldest first (-want +got):\n%s", diff)
	}
	newest := [][]string{{"video_06", "video_05", "video_04"}, {"video_03", "video_02", "video_01"}, {"video_00"}}
	if diff := cmp.Diff(newest, pages(t, l, jobtable.Query{Size: 3})); diff != "" {
		t.Errorf("newest first (-want +got):\n%s", diff)
	}
	for _, ascending := range []bool{false, true} {
		if got := pages(t, l, jobtable.Query{Size: 7, Ascending: ascending}); len(got) != 1 {
			t.Errorf("a page that holds all says that there is another: %v", got)
		}
	}
}

func TestListAfterAJob(t *testing.T) {
	t.Parallel()
	l := listed(t, 6)
	after := jobtable.Query{After: "video_03"}
	if diff := cmp.Diff([][]string{{"video_02", "video_01", "video_00"}}, pages(t, l, after)); diff != "" {
		t.Errorf("newest first (-want +got):\n%s", diff)
	}
	after.Ascending = true
	if diff := cmp.Diff([][]string{{"video_04", "video_05"}}, pages(t, l, after)); diff != "" {
		t.Errorf("oldest first (-want +got):\n%s", diff)
	}
}

// TestListPassesOverAbsentJobs checks that pages are filled despite erased jobs, so that only the
// last one is short.
func TestListPassesOverAbsentJobs(t *testing.T) {
	t.Parallel()
	for _, ascending := range []bool{false, true} {
		t.Run(fmt.Sprintf("ascending %t", ascending), func(t *testing.T) {
			t.Parallel()
			l := listed(t, 9)
			erase(t, l, "video_00", "video_01", "video_03", "video_07", "video_08")
			want := [][]string{{"video_06", "video_05"}, {"video_04", "video_02"}}
			if ascending {
				want = [][]string{{"video_02", "video_04"}, {"video_05", "video_06"}}
			}
			for range 2 { // in the second round, the index has forgotten them
				got := pages(t, l, jobtable.Query{Size: 2, Ascending: ascending})
				// The first reading may learn too late that nothing follows.
				got = slices.DeleteFunc(got, func(ids []string) bool { return ids == nil })
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestListAfterAPageThatIsErased checks that a page token works although its job was erased.
func TestListAfterAPageThatIsErased(t *testing.T) {
	t.Parallel()
	l := listed(t, 6)
	for _, row := range []struct {
		ascending bool
		erased    []string
		want      [][]string
	}{
		{false, []string{"video_05", "video_04"}, [][]string{{"video_03", "video_02"}, {"video_01", "video_00"}}},
		{true, []string{"video_00", "video_01"}, [][]string{{"video_02", "video_03"}}},
	} {
		q := jobtable.Query{Kind: subject.Video, Tenant: "acme", Size: 2, Ascending: row.ascending}
		first := must[jobindex.Page](t)(l.List(t.Context(), q))
		erase(t, l, row.erased...)
		must[jobindex.Page](t)(l.List(t.Context(), q)) // makes the index remove them
		q.Token = first.NextToken
		if diff := cmp.Diff(row.want, pages(t, l, q)); diff != "" {
			t.Errorf("ascending %t (-want +got):\n%s", row.ascending, diff)
		}
	}
}

func TestListByAStatusThatHasChanged(t *testing.T) {
	t.Parallel()
	l := listed(t, 3)
	l.OnIndexed(func() {})
	for i := range 3 {
		e := must[joblog.Entry](t)(l.Get(t.Context(), videoName(fmt.Sprintf("video_%02d", i))))
		next := must[task.Event](t)(task.Cancelled(e.Job, time.Now(), &genbusv1.TaskError{Code: "cancelled"}))
		must[joblog.Entry](t)(l.Commit(t.Context(), next, e.Seq))
	}
	// The log decides, even if the index does not have the cancellations yet.
	if got := pages(t, l, jobtable.Query{Status: genbusv1.JobStatus_JOB_STATUS_QUEUED, Size: 1}); len(got) != 1 || got[0] != nil {
		t.Errorf("queued: %v", got)
	}
}

func TestPageTokens(t *testing.T) {
	t.Parallel()
	l := listed(t, 1)
	for _, token := range []string{"???", "e30", "eyJjIjoxLCJpIjoiYS5iIn0", "bnVsbA", "W10"} {
		if _, err := l.List(t.Context(), jobtable.Query{Kind: subject.Video, Tenant: "acme", Token: token}); !errors.Is(err, jobtable.ErrPageToken) {
			t.Errorf("token %q: %v", token, err)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	l := newReplica(t, brokertest.Single(t))
	ctx := t.Context()
	begin := time.Now().Truncate(time.Second)
	const n = 25
	indexed := make(chan struct{}, 100)
	l.OnIndexed(func() { indexed <- struct{}{} })
	for i := range n {
		item := work(fmt.Sprintf("video_%02d", i))
		item.AcceptedAt = timestamppb.New(begin.Add(time.Duration(i) * time.Second))
		e := must[joblog.Entry](t)(l.Commit(ctx, task.FromWork(item), 0))
		if i%5 == 0 {
			next := must[task.Event](t)(task.Cancelled(e.Job, time.Now(), &genbusv1.TaskError{Code: "cancelled"}))
			must[joblog.Entry](t)(l.Commit(ctx, next, e.Seq))
		}
	}
	for range n + n/5 {
		<-indexed
	}
	ids := func(q jobtable.Query) (out []string) {
		q.Kind, q.Tenant = subject.Video, "acme"
		for {
			page := must[jobindex.Page](t)(l.List(ctx, q))
			for _, e := range page.Jobs {
				out = append(out, e.Job.GetId())
			}
			if page.NextToken == "" {
				return out
			}
			q.Token = page.NextToken
		}
	}
	var all []string
	for i := n - 1; i >= 0; i-- {
		all = append(all, fmt.Sprintf("video_%02d", i))
	}
	if diff := cmp.Diff(all, ids(jobtable.Query{Size: 7})); diff != "" {
		t.Errorf("all, newest first:\n%s", diff)
	}
	cancelled := []string{"video_20", "video_15", "video_10", "video_05", "video_00"}
	if diff := cmp.Diff(cancelled, ids(jobtable.Query{Status: genbusv1.JobStatus_JOB_STATUS_CANCELLED, Size: 2})); diff != "" {
		t.Errorf("by status:\n%s", diff)
	}
	window := jobtable.Query{CreatedFrom: begin.Add(3 * time.Second).UnixNano(), CreatedBefore: begin.Add(6 * time.Second).UnixNano()}
	if diff := cmp.Diff([]string{"video_05", "video_04", "video_03"}, ids(window)); diff != "" {
		t.Errorf("by time:\n%s", diff)
	}
	if page := must[jobindex.Page](t)(l.List(ctx, jobtable.Query{Kind: subject.Video, Tenant: "other"})); len(page.Jobs) != 0 {
		t.Errorf("another tenant sees %d jobs", len(page.Jobs))
	}
	if _, err := l.List(ctx, jobtable.Query{Kind: subject.Video, Tenant: "acme", Token: "???"}); !errors.Is(err, jobtable.ErrPageToken) {
		t.Errorf("a bad token: %v", err)
	}
}

// TestABoundMayBeFarAway checks bounds beyond the range of nanosecond timestamps.
func TestABoundMayBeFarAway(t *testing.T) {
	t.Parallel()
	l := listed(t, 2)
	ids := [][]string{{"video_01", "video_00"}}
	year := func(n int) int64 { return jobtable.Bound(timestamppb.New(time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC))) }
	for name, row := range map[string]struct {
		query jobtable.Query
		want  [][]string
	}{
		"none":                  {jobtable.Query{CreatedFrom: jobtable.Bound(nil), CreatedBefore: jobtable.Bound(nil)}, ids},
		"from the first year":   {jobtable.Query{CreatedFrom: year(1)}, ids},
		"from 1600":             {jobtable.Query{CreatedFrom: year(1600)}, ids},
		"from 2300":             {jobtable.Query{CreatedFrom: year(2300)}, [][]string{nil}},
		"before the first year": {jobtable.Query{CreatedBefore: year(1)}, [][]string{nil}},
		"before 1970":           {jobtable.Query{CreatedBefore: year(1970)}, [][]string{nil}},
		"before 2300":           {jobtable.Query{CreatedBefore: year(2300)}, ids},
		"all that can be said":  {jobtable.Query{CreatedFrom: year(1600), CreatedBefore: year(9999)}, ids},
	} {
		if diff := cmp.Diff(row.want, pages(t, l, row.query)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestJobMadeAgainIsListedOnce checks that a list shows an id that was erased and reused only once,
// and ends, in both orders.
func TestJobMadeAgainIsListedOnce(t *testing.T) {
	t.Parallel()
	for _, ascending := range []bool{false, true} {
		t.Run(fmt.Sprintf("ascending %t", ascending), func(t *testing.T) {
			t.Parallel()
			l := listed(t, 3)
			indexed := make(chan struct{}, 1)
			l.OnIndexed(func() { indexed <- struct{}{} })
			erase(t, l, "video_01")
			again := work("video_01")
			again.AcceptedAt = timestamppb.New(time.Now().Add(time.Hour))
			must[joblog.Entry](t)(l.Commit(t.Context(), task.FromWork(again), 0))
			<-indexed
			q, got := jobtable.Query{Kind: subject.Video, Tenant: "acme", Size: 1, Ascending: ascending}, []string(nil)
			for range 10 {
				page := must[jobindex.Page](t)(l.List(t.Context(), q))
				for _, e := range page.Jobs {
					got = append(got, e.Job.GetId())
				}
				if q.Token = page.NextToken; q.Token == "" {
					break
				}
			}
			want := []string{"video_01", "video_02", "video_00"}
			if ascending {
				slices.Reverse(want)
			}
			if diff := cmp.Diff(want, got); diff != "" || q.Token != "" {
				t.Errorf("another page %q, (-want +got):\n%s", q.Token, diff)
			}
		})
	}
}
