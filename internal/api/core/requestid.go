package core

import "github.com/nats-io/nuid"

// maxCallID is the longest X-Request-Id that is taken from a caller.
const maxCallID = 128

// RequestID is the id of one call, as header values: the caller's own if it is
// harmless to log and to send back, else a new one.
func RequestID(values []string) []string {
	if len(values) == 1 && saneCallID(values[0]) {
		return values
	}
	return []string{nuid.Next()}
}

func saneCallID(id string) bool {
	if id == "" || len(id) > maxCallID {
		return false
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' || id[i] == '"' || id[i] == '\\' {
			return false
		}
	}
	return true
}
