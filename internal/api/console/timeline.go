package console

import (
	"slices"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/task"
)

// timelineWidth is the width of a timeline in SVG units, which the page scales.
const timelineWidth = 1000.0

// timeline is a job's history drawn to scale.
type timeline struct {
	Bars  []bar
	Marks []mark
	// Legend has the phases in their first order, each with its time in all.
	Legend []bar
	Total  string
}

// bar is a period in one phase.
type bar struct {
	X, Width    float64
	Phase, Span string
}

type mark struct {
	X     float64
	Title string
}

// timelineOf draws a history up to the job's end, or up to now if the job has not ended.
func timelineOf(j *genbusv1.GetJobResponse, now time.Time) (t timeline) {
	h := j.GetHistory()
	if len(h) == 0 {
		return t
	}
	first, last := h[0].GetTime().AsTime(), h[len(h)-1].GetTime().AsTime()
	// Use whole seconds so that a live page changes at most once a second.
	if second := now.Truncate(time.Second); !ended(j.GetJob().GetStatus()) && second.After(last) {
		last = second
	}
	total := max(last.Sub(first), time.Millisecond)
	at := func(t time.Time) float64 {
		return min(max(t.Sub(first).Seconds()/total.Seconds(), 0), 1) * timelineWidth
	}
	for i, e := range h {
		t.Marks = append(t.Marks, mark{X: at(e.GetTime().AsTime()), Title: task.PhaseWord(e.GetPhase()) + " after " + spanOf(e.GetTime().AsTime().Sub(first))})
		end := last
		if i+1 < len(h) {
			end = h[i+1].GetTime().AsTime()
		}
		if n := len(t.Bars); n == 0 || t.Bars[n-1].Phase != task.PhaseWord(e.GetPhase()) {
			t.Bars = append(t.Bars, bar{X: at(e.GetTime().AsTime()), Phase: task.PhaseWord(e.GetPhase())})
		}
		b := &t.Bars[len(t.Bars)-1]
		b.Width = max(at(end)-b.X, 0) // the clocks of two replicas may differ
	}
	for i, b := range t.Bars {
		t.Bars[i].Span = spanOf(time.Duration(b.Width / timelineWidth * float64(total)))
		at := slices.IndexFunc(t.Legend, func(l bar) bool { return l.Phase == b.Phase })
		if at < 0 {
			at, t.Legend = len(t.Legend), append(t.Legend, bar{Phase: b.Phase})
		}
		t.Legend[at].Width += b.Width
		t.Legend[at].Span = spanOf(time.Duration(t.Legend[at].Width / timelineWidth * float64(total)))
	}
	if last := len(t.Legend) - 1; task.TerminalWord(t.Legend[last].Phase) {
		t.Legend = t.Legend[:last] // takes no time
	}
	t.Total = spanOf(total)
	return t
}
