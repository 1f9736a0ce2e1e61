package main

import (
	"context"
	"testing"
	"time"
)

// TestShortSoak is the run of every change: one replica with its embedded broker,
// and two on three nodes, each for a few faults. Longer ones are for people.
func TestShortSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the service, and runs it under faults for most of a minute")
	}
	const long = time.Minute // more than the steps take
	for name, o := range map[string]options{
		"single": {Duration: long, Seed: 11, Replicas: 1, Rate: 8, Steps: plan{
			{Action: changeMix, Mix: "breaking"}, {Action: quiet, For: 2 * time.Second}, {Action: kill, For: time.Second},
			{Action: quiet, For: 2 * time.Second}, {Action: rolling}, {Action: quiet, For: 2 * time.Second},
		}},
		"cluster": {Duration: long, Seed: 11, Replicas: 2, Rate: 8, Cluster: true, Steps: plan{
			{Action: changeMix, Mix: "breaking"}, {Action: quiet, For: 2 * time.Second}, {Action: kill, Target: 1, For: time.Second},
			{Action: nodeKill, For: time.Second}, {Action: cutReplica, For: ackWait + 2*time.Second}, {Action: quiet, For: 2 * time.Second},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			r, err := soak(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Violations {
				t.Error(v)
			}
			if len(r.Counts.Jobs) == 0 || len(r.Faults) < 3 {
				t.Errorf("nothing happened: %s", r.text())
			}
			if t.Failed() {
				t.Log(r.text())
			}
		})
	}
}
