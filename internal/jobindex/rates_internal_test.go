package jobindex

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// life returns the events of a video that was accepted, begins and ends the given minutes before
// now. A negative begun or ended leaves that event out.
func life(now time.Time, id string, accepted, begun, ended int) (events []joblog.Summary) {
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	n := joblog.Summary{
		Name: subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}, Status: "queued", CreatedAt: ago(accepted), Time: ago(accepted), Version: 1,
		Facts: publisher.Facts{Route: "film", Phase: "queued"},
	}
	events = append(events, n)
	if begun >= 0 {
		n.Version, n.Time, n.Facts.Phase, n.Facts.Begun = 2, ago(begun), "submitting", publisher.Moment(ago(begun))
		events = append(events, n)
	}
	if ended >= 0 {
		n.Version, n.Time, n.Status, n.Facts.Phase = 3, ago(ended), "failed", "failed"
		events = append(events, n)
	}
	return events
}

func (r *reading) applyAll(events ...joblog.Summary) {
	for _, n := range events {
		r.apply(n)
	}
}

func newTestReading(size int, caughtUp bool) *reading {
	return &reading{table: jobtable.New(size), rates: jobtable.NewRateCounter(), caughtUp: caughtUp}
}

// film returns the minutes that are not empty, keyed by their age in minutes.
func film(r *reading, now time.Time) map[int]jobtable.Minute {
	out := map[int]jobtable.Minute{}
	for i, m := range r.rates.Rates(now).Of(subject.Video, "film") {
		if m != (jobtable.Minute{}) {
			out[jobtable.RateMinutes-1-i] = m
		}
	}
	return out
}

// TestEventsAreCountedByTheirMinutes checks that a reading counts the same from all events of a job
// as from its last one.
func TestEventsAreCountedByTheirMinutes(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Minute).Add(30 * time.Second)
	jobs := [][]joblog.Summary{
		life(now, "a", 30, 20, 10), life(now, "b", 30, 20, -1), life(now, "c", 3, -1, -1), life(now, "d", 90, 59, -1), life(now, "e", 200, 100, 70), life(now, "f", 65, -1, -1),
	}
	want := map[int]jobtable.Minute{30: {Accepted: 2}, 59: {Started: 1}, 20: {Started: 2}, 10: {Ended: 1, Failed: 1}, 3: {Accepted: 1}}
	seq := uint64(0)
	for _, job := range jobs {
		for i := range job {
			seq++
			job[i].Seq = seq
		}
	}
	all, last := newTestReading(100, true), newTestReading(100, false)
	for _, job := range jobs {
		all.applyAll(job...)
		all.applyAll(job...) // an interrupted reading may apply events twice
		last.apply(job[len(job)-1])
	}
	for name, r := range map[string]*reading{"all events": all, "the last ones": last} {
		if diff := cmp.Diff(want, film(r, now)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// A later attempt is not another start. An event of a job that was evicted does not count
	// again.
	retry := jobs[1][1]
	retry.Seq, retry.Version, retry.Time = seq+1, 5, now
	small := newTestReading(1, true)
	for _, r := range []*reading{all, small} {
		r.apply(retry)
	}
	if diff := cmp.Diff(want, film(all, now)); diff != "" {
		t.Errorf("after a retry: %s", diff)
	}
	if got := film(small, now); len(got) != 0 {
		t.Errorf("of a job without an event: %v", got)
	}
}

// TestAnOwnEventThatArrivesEarly checks that an event applied by Wrote does not keep later events
// of its job from counting.
func TestAnOwnEventThatArrivesEarly(t *testing.T) {
	t.Parallel()
	now := time.Now()
	events := life(now, "a", 2, 1, 0)
	for i := range events {
		events[i].Seq = uint64(i + 1)
	}
	r := newTestReading(100, false)
	r.table.Wrote(events[2])
	r.applyAll(events[1], events[2]) // the last event in the log, and the end
	sum := jobtable.Minute{}
	for _, m := range film(r, now) {
		sum = jobtable.Minute{Accepted: sum.Accepted + m.Accepted, Started: sum.Started + m.Started, Ended: sum.Ended + m.Ended, Failed: sum.Failed + m.Failed}
	}
	if want := (jobtable.Minute{Accepted: 1, Started: 1, Ended: 1, Failed: 1}); sum != want {
		t.Errorf("counted %+v, want %+v", sum, want)
	}
}

// BenchmarkRated measures a keeper's part of an overview, with 20 routes and 100,000 jobs of 10,000
// tenants.
func BenchmarkRated(b *testing.B) {
	r, now := newTestReading(DefaultSize, true), time.Now()
	for i := range DefaultSize {
		events := life(now, fmt.Sprintf("video_%026d", i), i%jobtable.RateMinutes, -1, -1)
		events[0].Name.Tenant, events[0].Facts.Route, events[0].Seq = fmt.Sprint("tenant-", i%10_000), fmt.Sprint("r", i%20), uint64(i+1)
		r.applyAll(events...)
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := r.rated(); len(got.Routes) != 20 || got.Unfinished != DefaultSize {
			b.Fatalf("%d routes, %d jobs", len(got.Routes), got.Unfinished)
		}
	}
}
