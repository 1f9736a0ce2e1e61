package jobindex

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
)

// FuzzQuestion checks that every question gets an answer with at most a page of rows.
func FuzzQuestion(f *testing.F) {
	for _, q := range []question{
		{Tenant: "acme", Upto: 7}, {Largest: 3, Tenants: []string{"acme"}}, {Remove: &removal{Kind: subject.Video, Tenant: "acme", Row: jobtable.Row{Created: 1, ID: "video_1", Status: "queued", Seq: 1}}},
		{Search: &jobtable.Search{Size: 5, Filter: jobtable.Filter{Route: "r", Labels: map[string]string{"a": "b"}}}},
		{List: &jobtable.Window{Kind: subject.Video, Tenant: "acme", Before: math.MaxInt64, N: 5, AfterJob: "video_2"}},
		{List: &jobtable.Window{Kind: subject.Video, Tenant: "acme", N: -1, Skip: -1}},
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
		r := &reading{table: jobtable.New(1000)}
		for i := range int64(300) {
			id := "video_" + string(rune('0'+i%10)) + string(rune('a'+i/10))
			r.table.Put(joblog.Summary{
				Name: subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}, Status: "queued", CreatedAt: time.Unix(0, i), Version: 1, Seq: uint64(i),
			})
		}
		if a := answerFrom(r, q); len(a.Rows) > jobtable.MaxPage+1 || a.Jobs > 300 {
			t.Errorf("%d rows and %d jobs", len(a.Rows), a.Jobs)
		}
	})
}

// TestAnswersAreReadBack checks that an answer survives a JSON round trip.
func TestAnswersAreReadBack(t *testing.T) {
	t.Parallel()
	want := answer{
		AsOf: 9, Rows: []jobtable.Row{{Created: 1, ID: "video_1", Status: "queued", Seq: 8}}, NoRow: true, Jobs: 3, ByName: map[string]int64{"acme": 1}, InAll: 2,
	}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got answer
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(answer{}, jobtable.Row{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
