package console

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// TestChartHasOneScale checks that the figures of a route share the scale of the highest one, that
// the incomplete minute is summed but not drawn, and that idle minutes have no tooltip.
func TestChartHasOneScale(t *testing.T) {
	t.Parallel()
	from := timestamppb.New(time.Date(2026, 5, 1, 14, 2, 0, 0, time.UTC))
	c := chartOf(from, []*genbusv1.RouteMinute{{}, {Accepted: 4, Started: 4, Ended: 2, Failed: 1}, {}, {Accepted: 100}})
	if c.Peak != 4 || c.Accepted != "M0 36.0H4V0.0H8V36.0H12" || c.Ended != "M0 36.0H4V18.0H8V36.0H12V36H0Z" || c.Failed != "M0 36.0H4V27.0H8V36.0H12V36H0Z" {
		t.Errorf("%+v", c)
	}
	if len(c.Minutes) != 1 || c.Minutes[0] != (chartMinute{4, "14:03 UTC: 4 accepted, 4 started, 1 completed or cancelled, 1 failed"}) {
		t.Errorf("%+v", c.Minutes)
	}
	if want := "Last hour: 104 accepted, 4 started, 1 completed or cancelled, 1 failed; at most 4 a minute"; c.Summary() != want {
		t.Errorf("%q, want %q", c.Summary(), want)
	}
	if c := chartOf(from, []*genbusv1.RouteMinute{{}, {Accepted: 1}}); c == nil || c.Peak != 1 || c.Minutes != nil {
		t.Errorf("with an event in the incomplete minute: %+v", c)
	}
	for _, minutes := range [][]*genbusv1.RouteMinute{nil, {{}, {}}} {
		if c := chartOf(from, minutes); c != nil {
			t.Errorf("without events: %+v", c)
		}
	}
}
