package task

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

var update = flag.Bool("update", false, "write the state machine into docs/architecture.md")

// edge is a transition of the table.
type edge struct{ from, to genbusv1.JobPhase }

// why labels transitions whose cause the phase names do not show.
var why = map[edge]string{
	{none, queued}:           "accepted",
	{none, submitted}:        "attached to an upstream task",
	{none, inProgress}:       "inline chat",
	{none, failed}:           "rejected request",
	{queued, queued}:         "returned to the queue",
	{queued, submitting}:     "committed before the create is sent",
	{queued, submitted}:      "found after an unknown outcome",
	{queued, inProgress}:     "first attempt of a chat",
	{queued, failed}:         "queue_timeout, expired",
	{submitting, queued}:     "refused for now, or another key to try",
	{submitting, submitting}: "outcome unknown, on_unknown_outcome: resubmit",
	{submitting, submitted}:  "accepted by the upstream",
	{submitting, failed}:     "refused for good, or outcome unknown",
	{submitted, submitted}:   "new status or progress",
	{inProgress, inProgress}: "progress, result copied, next attempt of a chat",
}

const none = genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED

// diagram returns the transition table as a Mermaid state diagram.
func diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, from := range []genbusv1.JobPhase{none, queued, submitting, submitted, inProgress} {
		for _, to := range allowed[from] {
			if to == cancelled { // from every phase: the note says so
				continue
			}
			label := ""
			if w, ok := why[edge{from, to}]; ok {
				label = ": " + w
			}
			fmt.Fprintf(&b, "  %s --> %s%s\n", state(from), PhaseWord(to), label)
		}
	}
	for _, end := range []genbusv1.JobPhase{completed, failed, cancelled} {
		fmt.Fprintf(&b, "  %s --> [*]\n", PhaseWord(end))
	}
	b.WriteString("  note right of cancelled: from every state that is not terminal\n")
	return b.String()
}

func state(p genbusv1.JobPhase) string {
	if p == none {
		return "[*]"
	}
	return PhaseWord(p)
}

// diagramPattern matches the marker of the state machine and the block below it.
var diagramPattern = regexp.MustCompile("(?ms)^<!-- internal/task diagram -->\n```mermaid\n(.*?)^```$")

// TestStateMachineIsDrawnFromItsTable checks that the diagram in docs/architecture.md matches the
// transition table.
func TestStateMachineIsDrawnFromItsTable(t *testing.T) {
	t.Parallel()
	const name = "../../docs/architecture.md"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if *update {
		text = diagramPattern.ReplaceAllLiteralString(text, "<!-- internal/task diagram -->\n```mermaid\n"+diagram()+"```")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	drawn := diagramPattern.FindStringSubmatch(text)
	if drawn == nil {
		t.Fatalf("%s has no state machine", name)
	}
	if diff := cmp.Diff(diagram(), drawn[1]); diff != "" {
		t.Errorf("%s: run `go test ./internal/task -update`:\n%s", name, diff)
	}
}

// TestDiagramIsTheTable checks that the diagram has every transition and no other.
func TestDiagramIsTheTable(t *testing.T) {
	t.Parallel()
	drawn := diagram()
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
	if len(allowed) != len(genbusv1.JobPhase_name)-3 { // terminal phases have no transitions
		t.Errorf("the table has %d phases", len(allowed))
	}
}
