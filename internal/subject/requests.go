package subject

import (
	"cmp"
	"strings"
)

// InvalidTenant replaces, in dead letter subjects, a tenant that is not a legal
// token.
const InvalidTenant = "_invalid"

// Requests is the stream GENBUS_REQUESTS: the durable inbox.
func (s Space) Requests() string { return s.stream + "_REQUESTS" }

// RequestPattern is what the inbox of one kind listens to:
// genbus.request.<kind>.*.
func (s Space) RequestPattern(k Kind) string { return s.join("request", string(k), "*") }

// Request is the inbox subject of one tenant: genbus.request.<kind>.<tenant>.
func (s Space) Request(k Kind, tenant string) string { return s.join("request", string(k), tenant) }

// ParseRequest is the inverse of Request. The tenant is returned as it is,
// even when it is not a legal token, together with the error, so that the dead
// letter can name it.
func (s Space) ParseRequest(subject string) (Kind, string, error) {
	rest, ok := strings.CutPrefix(subject, s.prefix+".request.")
	if !ok {
		_, err := s.split(subject, "request", 2)
		return "", "", err
	}
	word, tenant, _ := strings.Cut(rest, ".")
	k, err := parseKind(word)
	if err != nil {
		return "", tenant, err
	}
	return k, tenant, CheckToken(tenant)
}

// Call is the request-reply subject of one tenant: genbus.call.<kind>.<tenant>.
func (s Space) Call(k Kind, tenant string) string { return s.join("call", string(k), tenant) }

// CallPattern is what the request-reply endpoint of one kind listens to:
// genbus.call.<kind>.*.
func (s Space) CallPattern(k Kind) string { return s.join("call", string(k), "*") }

// ParseCall is the inverse of Call.
func (s Space) ParseCall(subject string) (Kind, string, error) {
	t, err := s.split(subject, "call", 2)
	if err != nil {
		return "", "", err
	}
	k, err := parseKind(t[0])
	return k, t[1], err
}

// Dead is the stream GENBUS_DEAD: accepted jobs that could not be processed.
func (s Space) Dead() string { return s.stream + "_DEAD" }

// DeadPattern is everything in the stream of dead letters: genbus.dead.>.
func (s Space) DeadPattern() string { return s.join("dead", ">") }

// DeadLetter is the subject of one dead letter: genbus.dead.<kind>.<tenant>.<id>.
// An illegal tenant becomes InvalidTenant.
func (s Space) DeadLetter(k Kind, tenant, id string) string {
	if CheckToken(tenant) != nil {
		tenant = InvalidTenant
	}
	return s.join("dead", string(k), tenant, id)
}

// DeadLetters is every dead letter of a kind and a tenant, where an empty one means
// any: genbus.dead.<kind>.<tenant>.*. The caller has checked the tenant.
func (s Space) DeadLetters(k Kind, tenant string) string {
	return s.join("dead", cmp.Or(string(k), "*"), cmp.Or(tenant, "*"), "*")
}

// Rejected is the stream GENBUS_REJECTED: what came into the inbox and was never
// accepted.
func (s Space) Rejected() string { return s.stream + "_REJECTED" }

// FirstRejected is the first sequence of GENBUS_REJECTED. GENBUS_DEAD never gets there,
// so that one number names a letter of either stream.
const FirstRejected = 1_000_000_000_000

// RejectedPattern is everything in the stream of rejected requests:
// genbus.rejected.>.
func (s Space) RejectedPattern() string { return s.join("rejected", ">") }

// RejectedLetter is the subject of rejected requests:
// genbus.rejected.<kind>.<tenant>.<slot>. An illegal tenant becomes InvalidTenant.
func (s Space) RejectedLetter(k Kind, tenant, slot string) string {
	if CheckToken(tenant) != nil {
		tenant = InvalidTenant
	}
	return s.join("rejected", string(k), tenant, slot)
}

// RejectedLetters is every rejected request of a kind and a tenant, as DeadLetters.
func (s Space) RejectedLetters(k Kind, tenant string) string {
	return s.join("rejected", cmp.Or(string(k), "*"), cmp.Or(tenant, "*"), "*")
}
