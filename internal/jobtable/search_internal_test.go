package jobtable

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
	"unique"

	"pgregory.net/rapid"

	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// TestSearchFindsWhatIsThere checks search pages against a linear scan of all jobs.
func TestSearchFindsWhatIsThere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := New(1000)
		var all []FoundJob
		words5 := func(prefix string) *rapid.Generator[string] {
			return rapid.Map(rapid.IntRange(0, 2), func(i int) string { return fmt.Sprint(prefix, i) })
		}
		for i := range rapid.IntRange(0, 60).Draw(t, "jobs") {
			n := subject.JobName{
				Kind: rapid.SampledFrom(subject.Kinds).Draw(t, "kind"), Tenant: words5("t").Draw(t, "tenant"), ID: fmt.Sprintf("job%d", i),
			}
			r := Row{
				Created: int64(rapid.IntRange(1, 20).Draw(t, "created")), ID: n.ID, Seq: uint64(i + 1),
				Status: rapid.SampledFrom([]string{"queued", "in_progress", "failed"}).Draw(t, "status"),
				facts: facts{
					updated: int64(rapid.IntRange(20, 40).Draw(t, "updated")), task: words5("task").Draw(t, "task"),
					labels: publisher.Labels(rapid.SampledFrom([]string{"", "a=b", "a=b&c=d", "a=c&cut"}).Draw(t, "labels")),
					shared: unique.Make(words{route: words5("r").Draw(t, "route"), code: words5("c").Draw(t, "code")}),
				},
			}
			if r.Status != "failed" {
				r.unfinished = true
			}
			x.put(n, r)
			all = append(all, foundJob(place{Created: r.Created, Kind: n.Kind, Tenant: n.Tenant, ID: n.ID}, &r))
		}
		maybe := func(g *rapid.Generator[string]) string {
			return rapid.OneOf(rapid.Just(""), g).Draw(t, "filter")
		}
		s := Search{
			Filter: Filter{
				Kind: subject.Kind(maybe(rapid.Just("video"))), Tenant: maybe(words5("t")), Status: maybe(rapid.SampledFrom([]string{"queued", Unfinished})),
				Route: maybe(words5("r")), ErrorCode: maybe(words5("c")),
			},
			Oldest: rapid.Bool().Draw(t, "oldest"), Size: rapid.IntRange(1, 7).Draw(t, "size"),
		}
		if rapid.Bool().Draw(t, "labelled") {
			s.Labels = map[string]string{"a": "b"}
		}
		if id := maybe(words5("task")); id != "" {
			s.IDs = []string{id, "job3"}
		}
		if rapid.Bool().Draw(t, "timed") {
			s.CreatedFrom, s.CreatedBefore, s.UpdatedBefore = 3, 17, 38
		}
		var want []FoundJob
		byStatus := map[string]int{}
		anyStatus := s
		anyStatus.Status = ""
		for _, j := range all {
			if s.wants(j) {
				want = append(want, j)
			}
			if anyStatus.wants(j) {
				byStatus[j.Status]++
			}
		}
		slices.SortFunc(want, func(a, b FoundJob) int {
			if s.Oldest {
				return a.compare(b.place)
			}
			return b.compare(a.place)
		})
		var got []FoundJob
		for pages := 0; ; pages++ {
			found, err := x.Search(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if found.Total != len(want) {
				t.Fatalf("total %d, want %d", found.Total, len(want))
			}
			if !maps.Equal(found.ByStatus, byStatus) {
				t.Fatalf("by status %v, want %v", found.ByStatus, byStatus)
			}
			if len(found.Jobs) > s.Size || found.More && len(found.Jobs) < s.Size {
				t.Fatalf("a page of %d of %d jobs, more: %t", s.Size, len(found.Jobs), found.More)
			}
			got = append(got, found.Jobs...)
			if !found.More {
				break
			}
			next := s
			next.Token = s.formatToken(found.Jobs[len(found.Jobs)-1].place)
			if err := next.parseToken(); err != nil {
				t.Fatal(err)
			}
			s.After = next.After
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

// wants matches a job like a Search, in a second implementation.
func (s Search) wants(j FoundJob) bool {
	has, _ := j.Labels.Has("a=b")
	is := func(want, got string) bool { return cmp.Or(want, got) == got }
	return is(string(s.Kind), string(j.Kind)) && is(s.Tenant, j.Tenant) && (is(s.Status, j.Status) || s.Status == Unfinished && j.Status != "failed") &&
		is(s.Route, j.Route) && is(s.ErrorCode, j.ErrorCode) && (len(s.Labels) == 0 || has) &&
		(len(s.IDs) == 0 || slices.Contains(s.IDs, j.ID) || slices.Contains(s.IDs, j.UpstreamTask)) &&
		(s.CreatedFrom == 0 || j.Created >= s.CreatedFrom && j.Created < s.CreatedBefore && j.Updated < s.UpdatedBefore)
}

// TestSearchLooksAtLongLists checks that a search covers lists longer than scanRows.
func TestSearchLooksAtLongLists(t *testing.T) {
	t.Parallel()
	const jobs = 2*scanRows + 7
	x := New(jobs)
	for i := range jobs {
		n := subject.JobName{Kind: subject.Chat, Tenant: "acme", ID: fmt.Sprintf("chat_%06d", i)}
		x.put(n, Row{Created: int64(i / 3), ID: n.ID, Status: "queued", unfinished: true})
	}
	found, err := x.Search(t.Context(), Search{Size: 2})
	if err != nil || found.Total != jobs || found.Jobs[0].ID != fmt.Sprintf("chat_%06d", jobs-1) || !found.More || found.Since != 0 {
		t.Errorf("%+v, %v", found, err)
	}
	found, err = x.Search(t.Context(), Search{Size: 2, Oldest: true, Filter: Filter{CreatedFrom: 5000 / 3}})
	if err != nil || found.Jobs[0].Created != 5000/3 || found.Total >= jobs {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestUnfinishedJobsFallOutLast checks that eviction spares unfinished jobs while ended ones
// remain.
func TestUnfinishedJobsFallOutLast(t *testing.T) {
	t.Parallel()
	x := New(3)
	put := func(i int, status string) {
		n := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: fmt.Sprintf("video_%d", i)}
		r := Row{Created: int64(i), ID: n.ID, Status: status, Seq: uint64(i)}
		if status == "queued" {
			r.unfinished = true
		}
		x.put(n, r)
	}
	ids := func() (out []string) {
		found, err := x.Search(t.Context(), Search{Size: 10, Oldest: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range found.Jobs {
			out = append(out, j.ID)
		}
		return out
	}
	put(1, "queued")
	put(2, "completed")
	put(3, "queued")
	put(4, "completed")
	if got := ids(); !slices.Equal(got, []string{"video_1", "video_3", "video_4"}) {
		t.Errorf("%v, and one that had not ended fell out first", got)
	}
	if x.fellOutSince() != 2 {
		t.Errorf("since %d", x.fellOutSince())
	}
	put(5, "completed")
	put(6, "queued")
	put(7, "queued")
	if got := ids(); !slices.Equal(got, []string{"video_3", "video_6", "video_7"}) {
		t.Errorf("%v: the oldest of those that have not ended falls out where all are of that kind", got)
	}
	put(1, "queued") // evicted, so it does not come back
	if got := ids(); len(got) != 3 || slices.Contains(got, "video_1") {
		t.Errorf("%v", got)
	}
	if n := x.Unfinished("acme"); n != 4 {
		t.Errorf("%d unfinished jobs", n)
	}
}

// TestJobsAbsentFromTheLogAreRemoved checks that Expire removes jobs older than the log's first
// event.
func TestJobsAbsentFromTheLogAreRemoved(t *testing.T) {
	t.Parallel()
	x := New(10)
	for i := range 4 {
		n := subject.JobName{Kind: subject.Video, Tenant: fmt.Sprint("t", i%2), ID: fmt.Sprintf("video_%d", i)}
		x.put(n, Row{Created: int64(i), ID: n.ID, Status: "queued", unfinished: true, Seq: uint64(i + 1)})
	}
	x.Expire(4)
	found, err := x.Search(t.Context(), Search{Size: 10})
	if err != nil || found.Total != 1 || found.Jobs[0].ID != "video_3" || x.size != 1 || x.Unfinished("t0") != 0 || x.Unfinished("t1") != 1 || len(x.lists) != 1 {
		t.Errorf("%+v, %v; %d rows", found, err, x.size)
	}
}

func BenchmarkSearch(b *testing.B) {
	const jobs = 100_000
	x := New(jobs)
	begin := time.Now().UnixNano()
	for i := range jobs {
		n := subject.JobName{Kind: subject.Video, Tenant: fmt.Sprint("t", i%1000), ID: fmt.Sprintf("video_%026d", i)}
		x.put(n, Row{
			Created: begin + int64(i)*1e6, ID: n.ID, Status: "queued", unfinished: true, Seq: uint64(i + 1),
			facts: facts{
				task: fmt.Sprintf("task_%020d", i), labels: "customer=4711&env=prod",
				shared: unique.Make(words{phase: "queued", route: fmt.Sprint("r", i%50), model: "sora-2", upstream: "mock"}),
			},
		})
	}
	for name, s := range map[string]Search{
		"all": {}, "route": {Filter: Filter{Route: "r7"}}, "label": {Filter: Filter{Labels: map[string]string{"customer": "4712"}}},
		"tenant": {Filter: Filter{Tenant: "t7"}}, "id": {Filter: Filter{IDs: []string{"task_00000000000000099999"}}}, "oldest": {Oldest: true},
		"find": {Filter: Filter{IDs: []string{"video_00000000000000000000999"}, Find: "video_00000000000000000000999"}},
	} {
		s.Size = 100
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := x.Search(b.Context(), s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestJobsAreFoundByAnyID checks that a search finds request IDs of all tenants and beginnings of
// job IDs.
func TestJobsAreFoundByAnyID(t *testing.T) {
	t.Parallel()
	x := New(100)
	id := map[string]string{}
	for i, tenant := range []string{"acme", "globex", "initech"} {
		for _, kind := range subject.Kinds {
			n := subject.JobName{Kind: kind, Tenant: tenant, ID: subject.JobID(kind, tenant, subject.RequestSource("order-"+string(rune('1'+i/2))))}
			id[string(kind)+tenant] = n.ID
			x.put(n, Row{Created: int64(i + 1), ID: n.ID, Status: "queued", Seq: uint64(i + 1), facts: facts{task: "up_" + tenant}})
		}
	}
	video := id["videoacme"]
	for name, row := range map[string]struct {
		find string
		f    Filter
		want []string
	}{
		"request ID":                {"order-1", Filter{}, []string{id["videoglobex"], id["chatglobex"], id["videoacme"], id["chatacme"]}},
		"request ID of a tenant":    {"order-1", Filter{Tenant: "acme", Kind: subject.Chat}, []string{id["chatacme"]}},
		"unknown request ID":        {"order-3", Filter{}, nil},
		"beginning":                 {video[:len("video_")+4], Filter{}, []string{video}},
		"beginning, another tenant": {video[:20], Filter{Tenant: "globex"}, nil},
		"too short":                 {video[:len("video_")+3], Filter{}, nil},
		"kind":                      {"video_", Filter{}, nil},
		"whole":                     {video, Filter{}, []string{video}},
		"longer":                    {video + "a", Filter{}, nil},
		"upstream task ID":          {"up_acme", Filter{Kind: subject.Video}, []string{video}},
		"part of a task ID":         {"up_ac", Filter{}, nil},
	} {
		row.f.IDs, row.f.Find = []string{row.find}, row.find
		found, err := x.Search(t.Context(), Search{Filter: row.f, Size: 10})
		var got []string
		for _, j := range found.Jobs {
			got = append(got, j.ID)
		}
		if err != nil || !slices.Equal(got, row.want) || found.Total != len(row.want) {
			t.Errorf("%s: %v of %d, %v; want %v", name, got, found.Total, err, row.want)
		}
	}
}

// TestAnErasedJobDoesNotComeBack checks that an erased job is neither found nor counted, in
// whatever order its erasure and events arrive.
func TestAnErasedJobDoesNotComeBack(t *testing.T) {
	t.Parallel()
	n := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: "video_1"}
	queued := Row{Created: 1, ID: n.ID, Status: "queued", unfinished: true, Seq: 5}
	ended := Row{Created: 1, ID: n.ID, Status: "cancelled", Seq: 6}
	erased := Row{Created: 1, ID: n.ID, Seq: 6}
	steps := map[string]func(x *Table){
		"queued": func(x *Table) { x.put(n, queued) }, "ended": func(x *Table) { x.put(n, ended) },
		"own end": func(x *Table) { x.wrote(n, ended) }, "erased": func(x *Table) { x.Erase(n, erased) },
	}
	names := []string{"queued", "ended", "own end", "erased"}
	rapid.Check(t, func(t *rapid.T) {
		x := New(10)
		for _, name := range rapid.Permutation(names).Draw(t, "order") {
			steps[name](x)
		}
		found, err := x.Search(t.Context(), Search{Size: 5})
		if err != nil || found.Total != 0 || x.Unfinished("acme") != 0 {
			t.Fatalf("%+v, %v; %d unfinished", found, err, x.Unfinished("acme"))
		}
		later := Row{Created: 9, ID: n.ID, Status: "queued", unfinished: true, Seq: 8}
		x.put(n, later)
		if found, err := x.Search(t.Context(), Search{Size: 5}); err != nil || found.Total != 1 || x.Unfinished("acme") != 1 {
			t.Fatalf("a later job of the same id: %+v, %v; %d unfinished", found, err, x.Unfinished("acme"))
		}
	})
}

// TestCountsFollowRemovedJobs checks that erased, removed and expired jobs no longer count, even
// evicted ones.
func TestCountsFollowRemovedJobs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := New(rapid.IntRange(1, 4).Draw(t, "limit"))
		alive := map[int]uint64{}
		seq := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			job := rapid.IntRange(0, 7).Draw(t, "job")
			n := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: fmt.Sprint("video_", job)}
			r := Row{Created: int64(job + 1), ID: n.ID, Status: "queued", unfinished: true}
			last, lives := alive[job]
			switch step := rapid.SampledFrom([]string{"event", "event", "event", "erased", "forgotten", "expired"}).Draw(t, "step"); {
			case step == "event":
				seq++
				r.Seq = seq
				x.put(n, r)
				alive[job] = seq
			case lives && step == "erased":
				x.Erase(n, Row{Created: r.Created, ID: r.ID, Seq: last})
				delete(alive, job)
			case lives && step == "forgotten":
				x.Remove(n, Row{Created: r.Created, ID: r.ID, Seq: last})
				delete(alive, job)
			case lives && step == "expired":
				x.Expire(last + 1)
				maps.DeleteFunc(alive, func(_ int, at uint64) bool { return at <= last })
			}
		}
		if got := x.Unfinished("acme"); got != len(alive) {
			t.Fatalf("%d unfinished jobs, want %d", got, len(alive))
		}
		if x.size > x.limit {
			t.Fatalf("%d rows, the limit is %d", x.size, x.limit)
		}
	})
}

// TestErasingAnUnknownJobKeepsTheLimit checks that erasing an unknown job in a full table keeps the
// limit and the counts of other tenants.
func TestErasingAnUnknownJobKeepsTheLimit(t *testing.T) {
	t.Parallel()
	for range 50 { // map order decides which tenant's row is evicted
		x := New(1)
		x.put(subject.JobName{Kind: subject.Video, Tenant: "acme", ID: "video_1"}, Row{Created: 1, ID: "video_1", Status: "queued", unfinished: true, Seq: 1})
		x.Erase(subject.JobName{Kind: subject.Video, Tenant: "globex", ID: "video_2"}, Row{Created: 2, ID: "video_2", Seq: 2})
		if x.size > 1 || x.Unfinished("acme") != 1 || x.Unfinished("globex") != 0 {
			t.Fatalf("%d rows, %d and %d unfinished jobs", x.size, x.Unfinished("acme"), x.Unfinished("globex"))
		}
	}
}
