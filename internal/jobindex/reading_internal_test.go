package jobindex

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// TestAReadingIsJudged by what it has heard and what the leader has.
func TestAReadingIsJudged(t *testing.T) {
	t.Parallel()
	begin, created := time.Unix(1000, 0), time.Unix(1, 0)
	type probe struct {
		after        time.Duration // the probe before
		asOf         uint64
		end          uint64
		lost         bool // the log was created again
		ready, again bool
	}
	const second = time.Second
	for name, probes := range map[string][]probe{
		"has all":                    {{second, 10, 10, false, true, false}},
		"comes as far as it was":     {{second, 8, 12, false, false, false}, {second, 12, 20, false, true, false}},
		"goes on, and never has all": {{second, 10, 10, false, true, false}, {second, 12, 20, false, true, false}, {second, 13, 30, false, true, false}},
		"stands still":               {{second, 10, 10, false, true, false}, {2 * second, 10, 12, false, true, false}, {2 * second, 10, 12, false, false, false}, {9 * second, 10, 12, false, false, false}, {3 * second, 10, 12, false, false, true}},
		"stands still and goes on":   {{second, 10, 10, false, true, false}, {4 * second, 10, 12, false, false, false}, {second, 12, 12, false, true, false}},
		"another log":                {{second, 10, 10, false, true, false}, {second, 10, 11, true, false, true}},
		"a leader that is none":      {{second, 10, 10, false, true, false}, {second, 10, 9, false, true, false}, {second, 10, 10, false, true, false}},
		"a log that has less":        {{second, 10, 10, false, true, false}, {second, 10, 2, false, true, false}, {second, 10, 2, false, false, true}},
		"reads a large log for long": {{9 * second, 10, 900, false, false, false}, {9 * second, 20, 900, false, false, false}, {9 * second, 30, 900, false, false, false}},
		"a large log that stops":     {{9 * second, 10, 900, false, false, false}, {16 * second, 10, 900, false, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &reading{table: newTable(10), created: created, caughtUp: probes[0].asOf > 5 && probes[0].end < 100, target: math.MaxUint64, moved: begin}
			now := begin
			for i, p := range probes {
				now = now.Add(p.after)
				r.asOf = p.asOf
				end := joblog.End{LogCreated: created, Seq: p.end}
				if p.lost {
					end.LogCreated = begin
				}
				_, ok := r.judge(end, now)
				if r.ready != p.ready || ok == p.again {
					t.Errorf("probe %d: ready %t, and read again %t; want %t, %t", i, r.ready, !ok, p.ready, p.again)
				}
				if r.caughtUp && p.end > p.asOf && r.target == math.MaxUint64 {
					r.target = p.end // as verify does
				}
			}
		})
	}
}

// FuzzQuestion: whatever another replica asks, there is an answer, and it has no more rows
// than a page.
func FuzzQuestion(f *testing.F) {
	for _, q := range []question{
		{Tenant: "acme", Upto: 7}, {Totals: true}, {Gone: &wireGone{subject.Video, "acme", wireRow{1, "video_1", "queued", 1}}},
		{List: &window{Kind: subject.Video, Tenant: "acme", Before: math.MaxInt64, N: 5, AfterJob: "video_2"}},
		{List: &window{Kind: subject.Video, Tenant: "acme", N: -1, Skip: -1}},
	} {
		data, err := json.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var q question
		if json.Unmarshal(data, &q) != nil {
			return
		}
		r := &reading{table: newTable(1000)}
		for i := range int64(300) {
			id := "video_" + string(rune('0'+i%10)) + string(rune('a'+i/10))
			r.table.put(subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: id}, row{created: i, id: id, status: "queued", seq: uint64(i), unfinished: 1})
		}
		if a := r.answer(q); len(a.Rows) > MaxPage+1 || a.Jobs > 300 {
			t.Errorf("%d rows and %d jobs", len(a.Rows), a.Jobs)
		}
	})
}

// TestAnswersAreReadBack as they were given.
func TestAnswersAreReadBack(t *testing.T) {
	t.Parallel()
	want := answer{
		AsOf: 9, Rows: []wireRow{{1, "video_1", "queued", 8}}, NoRow: true, Jobs: 3,
		Totals: map[subject.Kind]joblog.Unfinished{subject.Video: {Jobs: 1, Bytes: 900}},
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got answer
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
