package upstream

import (
	"strings"
	"testing"
)

var spelt = map[Progression]string{
	Queued:     "queued QUEUED NOT_START SUBMITTED submitted pending created preparing waiting queueing in_queue in-queue",
	InProgress: "in_progress IN_PROGRESS In-Progress processing running generating starting",
	Completed:  "completed SUCCESS succeeded succeed success complete finished done",
	Failed:     "failed FAILURE failure fail error timeout TIMEOUT cancelled canceled expired not_found",
	Running:    "unknown UNKNOWN moderating null 0",
}

func TestProgressionOf(t *testing.T) {
	t.Parallel()
	for want, words := range spelt {
		for word := range strings.FieldsSeq(words) {
			for _, spelling := range []string{word, " " + word + "\n", strings.ToUpper(word)} {
				if got := ProgressionOf(spelling); got != want {
					t.Errorf("%q stands for %d, want %d", spelling, got, want)
				}
			}
		}
	}
	for _, nothing := range []string{"", " ", "in  progress", "fail ed"} {
		if got := ProgressionOf(nothing); got != Running {
			t.Errorf("%q stands for %d", nothing, got)
		}
	}
	if got := ProgressionOf("In Progress"); got != InProgress {
		t.Errorf("a space stands for %d", got)
	}
}

func TestUnjudged(t *testing.T) {
	t.Parallel()
	judged := map[string]bool{
		"failed": true, "failure": true, "fail": true, "error": true,
		"rejected": true, "moderated": true, "content_moderated": true, "request_moderated": true,
	}
	for word, p := range progressions {
		if p == Failed && Unjudged(word) == judged[word] || p != Failed && Unjudged(word) {
			t.Errorf("Unjudged(%s) = %v", word, Unjudged(word))
		}
	}
}

func TestMeaningful(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"success": "", "Success": "", "OK": "", "200": "", "10000": "", "": "", "none": "", "null": "", "0": "", "N/A": "", "-": "", "No error": "", "50411": "50411", "invalid_request": "invalid_request",
	} {
		if got := Meaningful(code); got != want {
			t.Errorf("Meaningful(%q) = %q, want %q", code, got, want)
		}
	}
}
