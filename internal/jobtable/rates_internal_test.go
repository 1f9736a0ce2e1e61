package jobtable

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// TestMinutesGoBy checks that events older than an hour stop counting and that an event from a
// clock ahead counts as now.
func TestMinutesGoBy(t *testing.T) {
	t.Parallel()
	r, now := NewRateCounter(), time.Now()
	for minute := range 3 * RateMinutes {
		at := now.Add(time.Duration(minute) * time.Minute)
		ahead := at.Add(20 * time.Minute)
		r.Count(joblog.Summary{Name: subject.JobName{Kind: subject.Chat}, Version: 1, CreatedAt: ahead, Time: ahead, Facts: publisher.Facts{Route: "talk"}}, false, at)
		counted := r.Rates(at)
		minutes := counted.Of(subject.Chat, "talk")
		if n := sum(minutes); n != min(minute+1, RateMinutes) || minutes[RateMinutes-1].Accepted != 1 {
			t.Fatalf("after %d minutes %d are counted: %v", minute, n, minutes)
		}
		if from := time.Unix(0, counted.From); from.After(at.Add(-59*time.Minute)) || from.Before(at.Add(-60*time.Minute)) {
			t.Fatalf("the first minute is %s, now is %s", from, at)
		}
	}
	if later := r.Rates(now.Add(5 * time.Hour)); len(later.Routes) != 0 || len(r.rings) != 0 {
		t.Errorf("two hours later: %v", later)
	}
}

func sum(minutes []Minute) (n int) {
	for _, m := range minutes {
		n += int(m.Accepted)
	}
	return n
}

// TestTheRoutesThatAreCountedAreBounded checks that a new route replaces only routes without an
// event in the last hour.
func TestTheRoutesThatAreCountedAreBounded(t *testing.T) {
	t.Parallel()
	r, now := NewRateCounter(), time.Now()
	accept := func(route string, at time.Time) {
		r.Count(joblog.Summary{Name: subject.JobName{Kind: subject.Video}, Version: 1, CreatedAt: at, Time: at, Facts: publisher.Facts{Route: route}}, false, at)
	}
	for i := range 2 * maxRated {
		accept(fmt.Sprint("r", i), now)
	}
	if n := len(r.Rates(now).Routes); n != maxRated {
		t.Fatalf("%d routes are counted", n)
	}
	later := now.Add(61 * time.Minute)
	accept("new", later)
	if routes := r.Rates(later).Routes; !slices.EqualFunc(routes, []string{"new"}, func(r RouteRates, name string) bool { return r.Route == name }) {
		t.Errorf("counted are %v", routes)
	}
	accept("", later)
	if n := len(r.rings); n != 1 {
		t.Errorf("an event without a route makes %d routes", n)
	}
}

// BenchmarkRates measures counting the events of a job.
func BenchmarkRates(b *testing.B) {
	r, now := NewRateCounter(), time.Now()
	accepted, begun := now.Add(-3*time.Minute), now.Add(-2*time.Minute)
	n := joblog.Summary{
		Name: subject.JobName{Kind: subject.Video, Tenant: "acme", ID: "a"}, Status: "queued", CreatedAt: accepted, Time: accepted, Version: 1,
		Facts: publisher.Facts{Route: "film"},
	}
	events := []joblog.Summary{n, n, n}
	for i := range events[1:] {
		events[i+1].Facts.Begun = publisher.Moment(begun)
	}
	events[1].Version, events[1].Time = 2, begun
	events[2].Version, events[2].Time, events[2].Status = 3, now.Add(-time.Minute), "failed"
	b.ReportAllocs()
	for b.Loop() {
		for _, n := range events {
			r.Count(n, false, time.Now())
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(3*b.N), "ns/event")
}
