package broker

import (
	"strings"
	"testing"
)

func TestCheckVersion(t *testing.T) {
	t.Parallel()
	for version, lacks := range map[string]string{
		"":            "", // not connected
		"2.9.25":      "Nats-Stream-Source",
		"2.14.10":     "Nats-Stream-Source",
		"unknown":     "Nats-Stream-Source",
		"2.15.0":      "Raft log",
		"2.15.1-RC.1": "Raft log",
		"2.15.1":      "",
		"2.15.10":     "",
		"2.16.0-dev":  "",
		"3.0.0":       "",
	} {
		err := checkVersion("nats-1", version)
		if (err != nil) != (lacks != "") || err != nil && !strings.Contains(err.Error(), lacks) {
			t.Errorf("%q: %v", version, err)
		}
	}
}
