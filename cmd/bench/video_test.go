package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestVideoAims proves that lifecycles with fsync are compared to those without, and that the CPU
// aim applies only without fsync.
func TestVideoAims(t *testing.T) {
	t.Parallel()
	write := func(r videoReport, table int) string {
		t.Helper()
		var b bytes.Buffer
		if err := r.tables()[table].write(&b); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	const admission, lifecycles = 0, 3
	r := videoReport{
		Flights:    []flightResult{{Fsync: "on", AdmissionServiceMS: 0.2}, {Fsync: "off", AdmissionServiceMS: 0.26}},
		Lifecycles: []lifecycleResult{{Fsync: "on", PerSecond: 840}, {Fsync: "off", PerSecond: 1200}},
	}
	if got := write(r, admission); !strings.Contains(got, "| 0.200 | - |") || !strings.Contains(got, "| 0.260 | missed |") {
		t.Error(got)
	}
	if got := write(r, lifecycles); !strings.Contains(got, "| on | 840 | - | 0.700 | met |") || !strings.Contains(got, "| off | 1200 | met | - | - |") {
		t.Error(got)
	}
	r.Lifecycles = r.Lifecycles[:1]
	if got := write(r, lifecycles); !strings.Contains(got, "| on | 840 | - | - | - |") {
		t.Error(got)
	}
}
