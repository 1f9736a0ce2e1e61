package docs_test

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/task"
)

// diagramPattern is the marker of the state machine, and the block below it.
var diagramPattern = regexp.MustCompile("(?ms)^<!-- internal/task Diagram -->\n```mermaid\n(.*?)^```$")

// TestStateMachineIsDrawnFromItsTable: a transition that the code does not know is not
// drawn, and none is missing.
func TestStateMachineIsDrawnFromItsTable(t *testing.T) {
	const name = "docs/architecture.md"
	text := read(t, name)
	if *update {
		text = diagramPattern.ReplaceAllLiteralString(text, "<!-- internal/task Diagram -->\n```mermaid\n"+task.Diagram()+"```")
		write(t, name, text)
	}
	drawn := diagramPattern.FindStringSubmatch(text)
	if drawn == nil {
		t.Fatalf("%s has no state machine", name)
	}
	if diff := cmp.Diff(task.Diagram(), drawn[1]); diff != "" {
		t.Errorf("%s: run `go test ./docs -update`:\n%s", name, diff)
	}
}
