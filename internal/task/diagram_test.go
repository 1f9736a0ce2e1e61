package task

import (
	"slices"
	"strings"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// TestDiagramIsTheTable: every transition is drawn or said, and nothing else is.
func TestDiagramIsTheTable(t *testing.T) {
	t.Parallel()
	drawn := Diagram()
	arrows := 3 // to the end
	for from, tos := range allowed {
		for _, to := range tos {
			if to == cancelled {
				continue
			}
			arrows++
			if !strings.Contains(drawn, "  "+state(from)+" --> "+PhaseWord(to)) {
				t.Errorf("%s to %s is not drawn", from, to)
			}
		}
		if from != none && !slices.Contains(tos, cancelled) {
			t.Errorf("%s cannot be cancelled, and the note says that it can", from)
		}
	}
	if n := strings.Count(drawn, "-->"); n != arrows {
		t.Errorf("%d arrows are drawn, the table has %d", n, arrows)
	}
	for e := range why {
		if !slices.Contains(allowed[e.from], e.to) {
			t.Errorf("%s to %s is explained, and is no transition", e.from, e.to)
		}
	}
	if len(allowed) != len(genbusv1.JobPhase_name)-3 { // the last phases lead nowhere
		t.Errorf("the table has %d phases", len(allowed))
	}
}
