package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/genbus/genbus/internal/subject"
)

func fleetArgs(t *testing.T, args string) (fleetCommand, error) {
	t.Helper()
	var c cli
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"fleet"}, strings.Fields(args)...))
	return c.Fleet, err
}

func TestFleetFlags(t *testing.T) {
	t.Parallel()
	got, err := fleetArgs(t, "")
	if err != nil {
		t.Fatal(err)
	}
	want := fleetCommand{
		Routes: 1000, Warmup: 5 * time.Minute, Hold: 2 * time.Minute, Replicas: []int{1, 4, 8, 16}, Kind: subject.Video, Rate: 20, JobsFor: 30 * time.Second,
		ReplicaWarmup: 10 * time.Second, ReplicaHold: 10 * time.Second, Timeout: 20 * time.Minute,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(fleetCommand{}), cmpopts.IgnoreFields(fleetCommand{}, "common")); diff != "" {
		t.Error(diff)
	}
	for _, row := range []struct {
		args string
		good bool
	}{
		{"--routes 50 --settle 5s --hold 5s --replicas 1,2 --jobs-for 5s", true},
		{"--routes 0 --replicas 0 --settle 0s", true},
		{"--routes -1", false},
		{"--routes 10001", false},
		{"--replicas 1,65", false},
		{"--replicas 1,-2", false},
		{"--replicas x", false},
		{"--kind chat", true},
		{"--kind image", false},
		{"--rate 0.5", false},
		{"--rate 1001", false},
		{"--settle -1s", false},
		{"--replica-settle -1s", false},
		{"--hold 0s", false},
		{"--replica-hold 0s", false},
		{"--jobs-for 0s", false},
	} {
		if _, err := fleetArgs(t, row.args); (err == nil) != row.good {
			t.Errorf("%q: %v", row.args, err)
		}
	}
}

// TestPerJob proves that perJob subtracts the usage of idle replicas over the same time.
func TestPerJob(t *testing.T) {
	t.Parallel()
	idle := usage{seconds: 10, cpu: 100 * time.Millisecond, serverCPU: 200 * time.Millisecond, messages: traffic{In: 50, Out: 100}}
	busy := usage{seconds: 20, cpu: 700 * time.Millisecond, serverCPU: 500 * time.Millisecond, messages: traffic{In: 1100, Out: 2200}}
	got := perJob(4, 100, idle, busy)
	want := replicasResult{
		Replicas: 4, Jobs: 100, Window: 20, IdleCores: 0.01, IdleMessages: 15, CPU: 5, ToServer: 10, FromServer: 20, ServerCPU: 1, LoadAvg: got.LoadAvg,
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}

func TestReplicasAreComparedWithOne(t *testing.T) {
	t.Parallel()
	all := []replicasResult{
		{Replicas: 1, ShareOf: 4, CPU: 20, ToServer: 10, FromServer: 12},
		{Replicas: 4, CPU: 11, ToServer: 10, FromServer: 13},
		{Replicas: 1, CPU: 10, ToServer: 10, FromServer: 10},
	}
	compareReplicas(all)
	if r := all[1]; math.Abs(r.CPURatio-1.1) > 1e-9 || math.Abs(r.MessagesRatio-1.15) > 1e-9 || all[0].CPURatio != 2 || all[2].CPURatio != 1 {
		t.Errorf("compared %+v", all)
	}
	verdict := func(all ...replicasResult) string {
		var b bytes.Buffer
		if err := (fleetReport{Replicas: all}).tables()[1].write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if text := verdict(all...); !strings.Contains(text, "| met ") || !strings.Contains(text, "| 1, with 1/4 of the jobs |") {
		t.Error(text)
	}
	all[1].MessagesRatio = 1.3
	if text := verdict(all...); !strings.Contains(text, "| missed ") {
		t.Error(text)
	}
	without := []replicasResult{{Replicas: 4, CPU: 11, ToServer: 10, FromServer: 13}}
	if compareReplicas(without); without[0].CPURatio != 0 || strings.Contains(verdict(without...), "met") {
		t.Errorf("compared with nothing: %+v", without)
	}
}

func TestIdleRoutesAims(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		idle      idleResult
		met, aims int
	}{
		{idleResult{Cores: 0.02, ToServer: 25, FromServer: 25}, 2, 2},
		{idleResult{Cores: 0.021, ToServer: 25, FromServer: 26}, 0, 2},
	} {
		var b bytes.Buffer
		if err := (fleetReport{Idle: &row.idle}).tables()[0].write(&b); err != nil {
			t.Fatal(err)
		}
		met, missed := strings.Count(b.String(), "| met "), strings.Count(b.String(), "| missed ")
		if met != row.met || met+missed != row.aims {
			t.Errorf("%+v: %s", row.idle, b.String())
		}
	}
}

// TestFleetJobsEnd proves that each job is counted once, and that a failed job is an error.
func TestFleetJobsEnd(t *testing.T) {
	t.Parallel()
	j := &fleetJobs{ended: map[string]bool{}}
	done := func(status, id string) string { return subject.Default().Done(subject.Video, tenant, status, id) }
	for _, s := range []string{done("completed", "video_1"), done("completed", "video_1"), done("completed", "video_2"), "rubbish"} {
		j.add(s)
	}
	if n, failed := j.count(); n != 2 || failed != "" {
		t.Errorf("%d ended, failed: %q", n, failed)
	}
	j.add(done("failed", "video_3"))
	if n, failed := j.count(); n != 3 || failed != "video_3: failed" {
		t.Errorf("%d ended, failed: %q", n, failed)
	}
	if err := j.wait(t.Context()); err == nil || !strings.Contains(err.Error(), "video_3") {
		t.Errorf("a job that failed: %v", err)
	}
}
