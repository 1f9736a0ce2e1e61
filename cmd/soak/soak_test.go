package main

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

// TestShortSoak proves that a single replica and a cluster keep all promises under a few faults.
// Run longer soaks by hand.
func TestShortSoak(t *testing.T) {
	brokertest.Full(t, "runs the service under faults")
	const long = time.Minute // longer than the steps take
	for name, o := range map[string]options{
		"single": {Duration: long, Seed: 11, Replicas: 1, Rate: 8, Steps: plan{
			{Action: changeMix, Mix: "breaking"}, {Action: quiet, For: 2 * time.Second}, {Action: kill, For: time.Second},
			{Action: pauseRoute, For: time.Second}, {Action: quiet, For: 2 * time.Second}, {Action: rolling}, {Action: quiet, For: 2 * time.Second},
		}},
		"cluster": {Duration: long, Seed: 11, Replicas: 2, Rate: 8, Cluster: true, Steps: plan{
			{Action: changeMix, Mix: "breaking"}, {Action: quiet, For: 2 * time.Second}, {Action: kill, Target: 1, For: time.Second},
			{Action: nodeKill, For: time.Second}, {Action: pauseRoute, Target: 1, For: time.Second}, {Action: cutReplica, For: ackWait + 2*time.Second}, {Action: quiet, For: 2 * time.Second},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if o.Cluster {
				brokertest.ThreeNodes(t)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
			defer cancel()
			r, err := soak(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Violations {
				t.Error(v)
			}
			for _, nothing := range unseen(r) {
				t.Errorf("nothing was seen of: %s", nothing)
			}
			if t.Failed() {
				t.Log(r.text())
			}
		})
	}
}

// unseen returns rules that checked nothing and ingresses that no client used.
func unseen(r result) []string {
	c := r.Counts
	seen := maps.Clone(c.Looked)
	if r.Cluster { // a replica with an embedded broker does not log this
		seen["replicas that keep the index"] = r.Keeps
	}
	maps.Copy(seen, map[string]int{
		"videos": c.Accepted["video"], "queued chats": c.Accepted["chat"], "inline chats": len(c.Inline), "paid tasks": c.Paid,
		"jobs accepted before the last fault": c.Stormy["video"], "repeated requests": c.Attaches, "followers": c.Followers,
		"lists": c.Listed, "pages by a token": c.Paged,
		"followers that came back": c.Resumes, "jobs that went on elsewhere": c.Takeovers, "faults of the upstreams": len(r.Upstream),
		"faults of processes": len(r.Faults) - 1, // without the mix
	})
	if r.stalled() > 0 { // such a machine may have no time without a fault
		delete(seen, "lists-ready")
	}
	var out []string
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		if seen[what] <= 0 {
			out = append(out, what)
		}
	}
	return out
}
