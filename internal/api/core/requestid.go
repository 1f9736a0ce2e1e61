package core

import "github.com/nats-io/nuid"

// maxCallID is the longest accepted X-Request-Id.
const maxCallID = 128

// RequestID returns the id of a call as header values. It keeps the caller's id if it is safe to
// log and send back.
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
