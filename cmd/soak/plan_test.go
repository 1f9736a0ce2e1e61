package main

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"os"
	"path/filepath"

	"github.com/genbus/genbus/internal/config"
)

func TestAPlanIsItsSeeds(t *testing.T) {
	t.Parallel()
	for _, cluster := range []bool{false, true} {
		o := options{Duration: 10 * time.Minute, Seed: 7, Cluster: cluster, Replicas: 2}
		if first, again := o.plan().String(), o.plan().String(); first != again {
			t.Errorf("two plans of one seed:\n%s\n%s", first, again)
		}
		other := o
		if other.Seed = 8; other.plan().String() == o.plan().String() {
			t.Error("two seeds have one plan")
		}
	}
}

// TestPlansHaveEveryStep proves that a hundred plans contain every kind of step with valid targets,
// and have about the requested duration.
func TestPlansHaveEveryStep(t *testing.T) {
	t.Parallel()
	seen, moment, longest := map[action]bool{}, map[string]bool{}, time.Duration(0)
	for seed := range uint64(100) {
		o := options{Duration: 3 * time.Minute, Seed: seed, Cluster: seed%2 == 0, Replicas: int(1 + seed%3)}
		var sum time.Duration
		for _, s := range o.plan() {
			seen[s.Action] = true
			sum += s.For
			ofReplica := slices.Contains([]action{kill, stopReplica, aimKill, aimStop, aimHold, cutReplica, clock}, s.Action)
			if s.Action == aimKill || s.Action == aimHold {
				moment[moments[s.Moment].name] = true
			}
			if s.Action == aimStop {
				longest = max(longest, s.For)
			}
			if !o.Cluster && (s.After > 0 || s.Late || s.Action == aimHold) {
				t.Errorf("seed %d holds answers of an embedded broker: %+v", seed, s)
			}
			targets := map[action]int{durable: len(durables), stream: len(streams)}[s.Action]
			if s.Target >= cmp.Or(targets, nodeCount) || ofReplica && s.Target >= o.Replicas || s.For < 0 || s.Action == changeMix && s.Mix == "" {
				t.Errorf("seed %d: %+v", seed, s)
			}
		}
		if sum < o.Duration || sum > o.Duration+time.Minute {
			t.Errorf("seed %d lasts %s", seed, sum)
		}
	}
	if len(moment) != len(moments) || longest <= deadline {
		t.Errorf("moments %v, the longest stop %s", moment, longest)
	}
	upgrade := options{Duration: 3 * time.Minute, Seed: 1, Cluster: true, Replicas: 2, UpgradeFrom: "HEAD"}.plan()
	if !upgrade.has(replace) || !upgrade.has(replaceKill) {
		t.Errorf("an upgrade has only %s", upgrade)
	}
	filled := options{Duration: time.Minute, Seed: 1, Replicas: 1, SmallLog: true}
	if !filled.plan().has(fill) {
		t.Error("a small log is not filled")
	}
	small := options{Duration: 10 * time.Minute, Seed: 1, Replicas: 1, SmallDisk: true, Only: []string{"full-disk"}}
	if !small.plan().has(fullDisk) {
		t.Error("a small disk is not filled")
	}
	for _, d := range slices.Concat(singleDraws, clusterDraws, []draw{{action: quiet}}) {
		if !seen[d.action] {
			t.Errorf("no plan has %s", d.action)
		}
	}
}

func TestAPlanOfChosenSteps(t *testing.T) {
	t.Parallel()
	o := options{Duration: 3 * time.Minute, Seed: 1, Cluster: true, Replicas: 2, Rate: 1, Only: []string{"node-kill", "foreign-ack"}}
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	for _, s := range o.plan()[1:] {
		if s.Action != nodeKill && s.Action != foreignAck && s.Action != quiet {
			t.Errorf("the plan has %s", s)
		}
	}
	for _, wrong := range [][]string{{"nodekill"}, {"node-kill", "node-kill"}} {
		if o.Only = wrong; o.check() == nil {
			t.Errorf("--only %v is taken", wrong)
		}
	}
	o.Cluster, o.Only = false, []string{"node-kill"}
	if o.check() == nil {
		t.Error("--only node-kill is taken without a cluster")
	}
}

func TestMixesAreLegal(t *testing.T) {
	t.Parallel()
	for name, mix := range mixes {
		if err := mix.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range mixNames {
		if _, known := mixes[name]; !known {
			t.Errorf("there is no mix %s", name)
		}
	}
}

// TestTheSetupIsLegal proves that the service accepts the configuration and that it matches the
// checker's.
func TestTheSetupIsLegal(t *testing.T) {
	t.Parallel()
	for i, nats := range []string{"", "nats://127.0.0.1:1", "nats://127.0.0.1:1"} {
		s := setup{SmallLog: i == 2, Name: "replica 0", HTTP: "127.0.0.1:0", GRPC: "127.0.0.1:0", NATS: nats, Listen: "127.0.0.1:0", DataDir: t.TempDir(), Frail: "http://127.0.0.1:1", Strict: "http://127.0.0.1:1", Honest: "http://127.0.0.1:2"}
		data, err := s.yaml()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "genbus.yaml")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(config.ProcessSource(file))
		if err != nil {
			t.Fatal(err)
		}
		want := checked()
		if cfg.Chat.MaxAttempts != want.ChatAttempts || cfg.Shutdown.Grace != stopGrace || len(cfg.Routes) != 6 {
			t.Errorf("%+v", cfg.Chat)
		}
		for _, r := range cfg.Routes {
			if r.AckWait != ackWait || want.Resubmit[r.Name] != (r.OnUnknownOutcome == config.OnUnknownResubmit) || r.Kind == config.KindVideo && r.Timeouts.Create != want.Create {
				t.Errorf("%+v", r)
			}
		}
	}
}
