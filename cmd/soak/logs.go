package main

import (
	"bufio"
	"bytes"
	"os"
	"strings"

	"github.com/genbus/genbus/test/faultinject/check"
)

// alarms are what a log of the service must never say.
var alarms = []string{`"panic`, "panic: ", "WARNING: DATA RACE", " cannot go from ", "fatal error"}

// complaints are the lines of the replicas' logs that must not be there.
func (f *fleet) complaints() []check.Violation {
	var out []check.Violation
	for _, r := range f.replicas {
		file, err := os.Open(r.log)
		if err != nil {
			continue // it never began
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() && len(out) < 20 {
			if line := lines.Text(); alarming(line) {
				out = append(out, check.Violation{Rule: "log", Text: r.Name + ": " + line})
			}
		}
		_ = file.Close() // it was only read
	}
	return out
}

// keepsIndex is what the service says when it begins to keep the index of jobs. With an
// embedded broker it says nothing, for there is no other replica.
const keepsIndex = `"started serving the job index"`

// keeps counts how often a replica has begun to keep the index.
func (f *fleet) keeps() (n int) {
	for _, r := range f.replicas {
		data, err := os.ReadFile(r.log)
		if err != nil {
			continue // it never began
		}
		n += bytes.Count(data, []byte(keepsIndex))
	}
	return n
}

// graceEnded is what the service says on its way out when calls were still in
// hand. A chat may take longer than the grace period; that is no unclean stop.
const graceEnded = "the grace period ended with running calls"

// ranOutOfGrace reports whether that was the last that a replica said.
func (r *replica) ranOutOfGrace() bool {
	data, err := os.ReadFile(r.log)
	if err != nil {
		return false
	}
	last := strings.TrimSpace(string(data))
	return strings.Contains(last[strings.LastIndexByte(last, '\n')+1:], graceEnded)
}

func alarming(line string) bool {
	for _, a := range alarms {
		if strings.Contains(line, a) {
			return true
		}
	}
	return false
}
