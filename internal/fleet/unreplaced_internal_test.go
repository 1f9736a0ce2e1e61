package fleet

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// TestReplacedReplicasAreNotMissing checks who replaces whom. Times are minutes.
func TestReplacedReplicasAreNotMissing(t *testing.T) {
	t.Parallel()
	at := func(minute int) *timestamppb.Timestamp {
		return timestamppb.New(time.Unix(0, 0).Add(time.Duration(minute) * time.Minute))
	}
	gone := func(id, address string, heard int) *genbusv1.SilentReplica {
		return &genbusv1.SilentReplica{Id: id, Address: address, HeardAt: at(heard)}
	}
	serves := func(address string, started int) *genbusv1.ReplicaState {
		return &genbusv1.ReplicaState{Address: address, StartedAt: at(started)}
	}
	drains := serves("n3:1", 9)
	drains.Draining = true
	for name, row := range map[string]struct {
		silent  []*genbusv1.SilentReplica
		states  []*genbusv1.ReplicaState
		missing []string
	}{
		"none started since":          {[]*genbusv1.SilentReplica{gone("a", "n1:1", 5)}, []*genbusv1.ReplicaState{serves("n2:1", 1)}, []string{"a"}},
		"restarted at its address":    {[]*genbusv1.SilentReplica{gone("a", "n1:1", 5)}, []*genbusv1.ReplicaState{serves("n1:1", 6), serves("n2:1", 1)}, nil},
		"restarted several times":     {[]*genbusv1.SilentReplica{gone("b", "n1:1", 6), gone("a", "n1:1", 5)}, []*genbusv1.ReplicaState{serves("n1:1", 7)}, nil},
		"another pod":                 {[]*genbusv1.SilentReplica{gone("a", "pod-x:1", 5)}, []*genbusv1.ReplicaState{serves("pod-y:1", 6), serves("pod-z:1", 1)}, nil},
		"one pod for two":             {[]*genbusv1.SilentReplica{gone("b", "pod-w:1", 5), gone("a", "pod-x:1", 4)}, []*genbusv1.ReplicaState{serves("pod-y:1", 6)}, []string{"b"}},
		"two pods for two":            {[]*genbusv1.SilentReplica{gone("b", "pod-w:1", 5), gone("a", "pod-x:1", 7)}, []*genbusv1.ReplicaState{serves("pod-y:1", 8), serves("pod-z:1", 6)}, nil},
		"a restart is only its own":   {[]*genbusv1.SilentReplica{gone("b", "n2:1", 5), gone("a", "n1:1", 5)}, []*genbusv1.ReplicaState{serves("n1:1", 6)}, []string{"b"}},
		"one that stops":              {[]*genbusv1.SilentReplica{gone("a", "n3:1", 5)}, []*genbusv1.ReplicaState{drains}, []string{"a"}},
		"no address, older version":   {[]*genbusv1.SilentReplica{gone("b", "", 5), gone("a", "", 4)}, []*genbusv1.ReplicaState{serves("", 6)}, []string{"b"}},
		"one that hangs in a rollout": {[]*genbusv1.SilentReplica{gone("a", "pod-x:1", 5)}, []*genbusv1.ReplicaState{serves("pod-y:1", 4), serves("pod-z:1", 3)}, []string{"a"}},
	} {
		var missing []string
		for _, r := range unreplaced(row.silent, row.states) {
			missing = append(missing, r.GetId())
		}
		if !slices.Equal(missing, row.missing) {
			t.Errorf("%s: %v are missing, want %v", name, missing, row.missing)
		}
	}
}
