package subject

import (
	"cmp"
	"strings"
)

// InvalidTenant replaces an illegal tenant in dead letter subjects.
const InvalidTenant = "_invalid"

// Requests names the stream GENBUS_REQUESTS, the durable inbox.
func (s Space) Requests() string { return s.stream + "_REQUESTS" }

// RequestPattern matches the inbox subjects of one kind: genbus.request.<kind>.*.
func (s Space) RequestPattern(k Kind) string { return s.join("request", string(k), "*") }

// Request is a tenant's inbox subject: genbus.request.<kind>.<tenant>.
func (s Space) Request(k Kind, tenant string) string { return s.join("request", string(k), tenant) }

// ParseRequest is the inverse of Request. Even with an error, it returns the tenant, which may be
// illegal, so that the dead letter can name it.
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

// Call is a tenant's request-reply subject: genbus.call.<kind>.<tenant>.
func (s Space) Call(k Kind, tenant string) string { return s.join("call", string(k), tenant) }

// CallPattern matches the request-reply subjects of one kind: genbus.call.<kind>.*.
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

// Get is a tenant's subject for reading a job: genbus.get.<kind>.<tenant>.
func (s Space) Get(k Kind, tenant string) string { return s.join("get", string(k), tenant) }

// List is a tenant's subject for listing jobs: genbus.list.<kind>.<tenant>.
func (s Space) List(k Kind, tenant string) string { return s.join("list", string(k), tenant) }

// Cancel is a tenant's subject for cancelling a job: genbus.cancel.<kind>.<tenant>.
func (s Space) Cancel(k Kind, tenant string) string { return s.join("cancel", string(k), tenant) }

// Content is a tenant's subject for downloading results: genbus.content.<tenant>.
func (s Space) Content(tenant string) string { return s.join("content", tenant) }

// Models is a tenant's subject for listing models: genbus.models.<tenant>.
func (s Space) Models(tenant string) string { return s.join("models", tenant) }

// TenantOf returns the tenant in a subject of Get, List, Cancel, Content or Models, or an error if
// it is illegal.
func TenantOf(subject string) (string, error) {
	tenant := subject[strings.LastIndexByte(subject, '.')+1:]
	return tenant, CheckToken(tenant)
}

// Dead names the stream GENBUS_DEAD, which holds the dead letters of accepted jobs.
func (s Space) Dead() string { return s.stream + "_DEAD" }

// DeadPattern matches all dead letters of accepted jobs: genbus.dead.>.
func (s Space) DeadPattern() string { return s.join("dead", ">") }

// DeadLetter is the subject of one dead letter: genbus.dead.<kind>.<tenant>.<id>. An illegal tenant
// becomes InvalidTenant.
func (s Space) DeadLetter(k Kind, tenant, id string) string {
	if CheckToken(tenant) != nil {
		tenant = InvalidTenant
	}
	return s.join("dead", string(k), tenant, id)
}

// DeadLetters matches the dead letters of a kind and tenant: genbus.dead.<kind>.<tenant>.*. An
// empty argument matches any value. The caller must have checked the tenant.
func (s Space) DeadLetters(k Kind, tenant string) string {
	return s.join("dead", cmp.Or(string(k), "*"), cmp.Or(tenant, "*"), "*")
}

// Rejected names the stream GENBUS_REJECTED, which holds inbox requests that were never accepted.
func (s Space) Rejected() string { return s.stream + "_REJECTED" }

// FirstRejected is the first sequence of GENBUS_REJECTED. GENBUS_DEAD never reaches it, so a
// sequence identifies a dead letter in either stream.
const FirstRejected = 1_000_000_000_000

// RejectedPattern matches all rejected requests: genbus.rejected.>.
func (s Space) RejectedPattern() string { return s.join("rejected", ">") }

// RejectedDeadLetter is the subject of rejected requests: genbus.rejected.<kind>.<tenant>.<slot>.
// An illegal tenant becomes InvalidTenant.
func (s Space) RejectedDeadLetter(k Kind, tenant, slot string) string {
	if CheckToken(tenant) != nil {
		tenant = InvalidTenant
	}
	return s.join("rejected", string(k), tenant, slot)
}

// RejectedDeadLetters matches the rejected requests of a kind and tenant, like DeadLetters.
func (s Space) RejectedDeadLetters(k Kind, tenant string) string {
	return s.join("rejected", cmp.Or(string(k), "*"), cmp.Or(tenant, "*"), "*")
}
