package task

import (
	"fmt"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// edge is a transition of the table.
type edge struct{ from, to genbusv1.JobPhase }

// why says of transitions what they come from, where the names of the phases do not.
var why = map[edge]string{
	{none, queued}:           "accepted",
	{none, submitted}:        "attached to a task of the upstream",
	{none, inProgress}:       "a chat on its caller's connection",
	{none, failed}:           "can never run",
	{queued, queued}:         "has survived its holders, or waits for dead letters to be resolved",
	{queued, submitting}:     "committed before the create is written",
	{queued, inProgress}:     "a chat's attempt",
	{queued, failed}:         "queue_timeout, expired",
	{submitting, queued}:     "refused for now, never reached, or another account is left to try",
	{submitting, submitting}: "outcome unknown, and the route says resubmit",
	{submitting, submitted}:  "accepted, with the upstream's id",
	{submitting, failed}:     "refused for good by all, or it cannot be known",
	{submitted, submitted}:   "what was learned of it",
	{inProgress, inProgress}: "progress, the copy of the result, a chat's next attempt",
}

const none = genbusv1.JobPhase_JOB_PHASE_UNSPECIFIED

// Diagram is the table of transitions as a state diagram of Mermaid.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n")
	for _, from := range []genbusv1.JobPhase{none, queued, submitting, submitted, inProgress} {
		for _, to := range allowed[from] {
			if to == cancelled { // from everywhere: the note says so
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
