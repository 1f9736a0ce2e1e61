package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
	"github.com/genbus/genbus/test/faultinject/load"
)

func TestAReportSaysHowToRunItAgain(t *testing.T) {
	t.Parallel()
	r := result{
		options: options{Seed: 9, Duration: time.Minute, Cluster: true, Replicas: 2, Rate: 10},
		Faults: []check.Fault{{Kind: check.FaultKill}, {Kind: check.FaultKill, At: "copy"}, {Kind: check.FaultMix, Target: "rough"},
			{Kind: check.FaultStall, From: time.Unix(1, 0), To: time.Unix(2, 5e8)}, {Kind: check.FaultStall, From: time.Unix(7, 0), To: time.Unix(9, 0)}},
		Counts: check.Counts{
			Jobs:     map[string]map[string]int{"video, http": {"completed": 3, "cancelled": 1}},
			Posts:    map[string]map[string]int{"video": {"": 4}},
			Accepted: map[string]int{"video": 5}, Stormy: map[string]int{"video": 2}, Looked: map[string]int{"same-key": 7},
			Lists: 9, Listed: 8, Paged: 3, Unlisted: map[string]int{"index_catching_up": 1},
			Trouble: map[string]check.Trouble{"get by http": {Lasted: 1500 * time.Millisecond, Errors: 2}},
		},
		Keeps:      17,
		Violations: []check.Violation{{Rule: "feed-copy", Job: "video_a", Text: "none"}},
	}
	for name, got := range map[string]string{"text": r.text(), "markdown": r.markdown()} {
		for _, want := range []string{
			"go run ./cmd/soak --seed 9 --duration 1m0s --rate 10 --cluster --replicas 2", "mix rough", "kill at copy", "3 completed, 1 cancelled", "4 good",
			"1.5 s, 2 errors", "3.5", "given up", "feed-copy: video_a: none", "same-key", "before the last fault",
			"9, 8 (3 by a page token)", "index_catching_up", "17",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s has no %q:\n%s", name, want, got)
			}
		}
	}
	r.Kills, r.Jobs, r.Cluster = 200, 2000, false
	if got := r.command(); got != "go run ./cmd/soak --seed 9 --kills 200 --jobs 2000" {
		t.Error(got)
	}
}

// TestOnlyGoodAnswersAreAnswers proves that a delivered answer counts only if the client could use
// it.
func TestOnlyGoodAnswersAreAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		post faultinject.Post
		want bool
	}{
		{faultinject.Post{Status: 200, Answered: true}, true},
		{faultinject.Post{Status: 200, Answered: true, Fault: faultinject.Latency}, true},
		{faultinject.Post{Status: 200, Answered: false, Fault: faultinject.Latency}, false},
		{faultinject.Post{Status: 200, Answered: true, Fault: faultinject.HTML}, false},
		{faultinject.Post{Status: 429, Answered: true, Fault: faultinject.TooMany}, false},
	} {
		if got := post(c.post); got.Answered != c.want || got.Video {
			t.Errorf("%+v: answered %t", c.post, got.Answered)
		}
	}
}

func TestLogsAreReadForAlarms(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	text := "{\"msg\":\"started\"}\npanic: no\nWARNING: DATA RACE\ngenbus: the grace period ended with running calls; so\n"
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &replica{Replica: load.Replica{Name: "replica 0"}, log: log}
	f := &fleet{replicas: []*replica{r, {log: "nowhere"}}}
	if got := f.complaints(); len(got) != 2 || !strings.Contains(got[0].Text, "panic: no") {
		t.Errorf("%v", got)
	}
	if !r.ranOutOfGrace() || f.replicas[1].ranOutOfGrace() {
		t.Error("the last words are not understood")
	}
}

func TestLogsSayWhoKeepsTheIndex(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	text := `{"msg":"started serving the job index"}
{"msg":"stopped serving the job index"}
{"msg":"started serving the job index"}
`
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fleet{replicas: []*replica{{log: log}, {log: "nowhere"}}}
	if got := f.keeps(); got != 2 {
		t.Errorf("a replica began to keep the index %d times, want 2", got)
	}
}

func TestAKeptHistoryIsCheckedAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history.json")
	h := &check.History{Config: checked(), Unreadable: []string{"message 7"}}
	if err := keep(file, h); err != nil {
		t.Fatal(err)
	}
	r, err := (&cli{History: file}).result(t.Context(), options{})
	if err != nil || len(r.Violations) != 1 || r.Violations[0].Rule != "readable" {
		t.Errorf("%+v, %v", r.Violations, err)
	}
	if _, err := kept(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there was read")
	}
	if err := os.WriteFile(file, []byte(`{"events":[],"twins":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := kept(file); err == nil {
		t.Error("a history of another version was read")
	}
}
