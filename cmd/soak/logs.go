package main

import (
	"bufio"
	"bytes"
	"os"
	"strings"

	"github.com/genbus/genbus/test/faultinject/check"
)

// alarms are texts that must never appear in a log of the service.
var alarms = []string{`"panic`, "panic: ", "WARNING: DATA RACE", " cannot go from ", "fatal error"}

// complaints returns up to 20 log lines with an alarm.
func (f *fleet) complaints() []check.Violation {
	var out []check.Violation
	for _, r := range f.replicas {
		file, err := os.Open(r.log)
		if err != nil {
			continue // it never started
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() && len(out) < 20 {
			if line := lines.Text(); alarming(line) {
				out = append(out, check.Violation{Rule: "log", Text: r.Name + ": " + line})
			}
		}
		_ = file.Close() // opened for reading
	}
	return out
}

// keepsIndex is the log message of a replica that starts to keep the job index. A replica with an
// embedded broker does not log it.
const keepsIndex = `"started serving the job index"`

// keeps counts how often replicas started to keep the index.
func (f *fleet) keeps() (n int) {
	for _, r := range f.replicas {
		data, err := os.ReadFile(r.log)
		if err != nil {
			continue // it never started
		}
		n += bytes.Count(data, []byte(keepsIndex))
	}
	return n
}

// graceEnded is the final error of a service that stopped with running calls. Since a chat may take
// longer than the grace period, this counts as a clean stop.
const graceEnded = "the grace period ended with running calls"

// ranOutOfGrace reports whether the last log line contains graceEnded.
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
