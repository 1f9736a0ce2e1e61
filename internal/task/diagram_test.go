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
	{none, submitted}:        "attached to a task of the upstream",
	{none, inProgress}:       "a chat on its caller's connection",
	{none, failed}:           "can never run",
	{queued, queued}:         "has survived its holders, or waits for dead letters to be resolved",
	{queued, submitting}:     "committed before the create is written",
	{queued, submitted}:      "found, after an outcome that was unknown",
	{queued, inProgress}:     "a chat's attempt",
	{queued, failed}:         "queue_timeout, expired",
	{submitting, queued}:     "refused for now, never reached, or another upstream key is left to try",
	{submitting, submitting}: "outcome unknown, and the route says resubmit",
	{submitting, submitted}:  "accepted, with the upstream's id",
	{submitting, failed}:     "refused for good by all, or it cannot be known",
	{submitted, submitted}:   "what was learned of it",
	{inProgress, inProgress}: "progress, the copy of the result, a chat's next attempt",
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
	b.WriteString("  note right of cancelled: from every state but the last ones\n")
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
