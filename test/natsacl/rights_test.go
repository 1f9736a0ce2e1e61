package natsacl_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

type subjects struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (s *subjects) add(m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	s.seen[m.Subject] = true
}

func (s *subjects) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.seen))
}

// unused lists permissions that the tests cannot make the service use, with the reason.
var unused = map[string]string{
	"$JS.ACK.*.*.GENBUS_REQUESTS.>": "the form of servers with the feature flag js_ack_fc_v2",
	"$JS.ACK.*.*.GENBUS_WORK.>":     "the same",
}

// needsAll fails if the service has a permission that it did not use.
func (r *running) needsAll(published, listened []string) {
	r.t.Helper()
	o, err := server.ProcessConfigFile(filepath.Join(r.dir, "genbus.conf"))
	if err != nil {
		r.t.Fatal(err)
	}
	at := slices.IndexFunc(o.Users, func(u *server.User) bool { return u.Username == "service" })
	for _, side := range []struct {
		name    string
		allowed []string
		seen    []string
	}{
		{"publish", o.Users[at].Permissions.Publish.Allow, published}, {"subscribe", o.Users[at].Permissions.Subscribe.Allow, listened},
	} {
		for _, pattern := range side.allowed {
			if _, known := unused[pattern]; !known && !slices.ContainsFunc(side.seen, func(s string) bool { return covers(pattern, s) }) {
				r.t.Errorf("the service does not %s on %s", side.name, pattern)
			}
		}
	}
}

// covers reports whether a permission allows a subject. Wildcards in the subject are compared as
// plain tokens.
func covers(pattern, subj string) bool {
	pattern, queue, _ := strings.Cut(pattern, " ")
	subj, group, _ := strings.Cut(subj, " ")
	want, have := strings.Split(pattern, "."), strings.Split(subj, ".")
	for i, token := range want {
		switch {
		case i == len(have):
			return false
		case token == ">":
			return queue == group
		case token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have) && queue == group
}

func (r *running) connections(t *testing.T, user string) (out []*server.ConnInfo) {
	t.Helper()
	for _, n := range r.nodes {
		conns, err := n.Connz(&server.ConnzOptions{Username: true, User: user, Account: "GENBUS", Subscriptions: true, SubscriptionsDetail: true})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, conns.Conns...)
	}
	return out
}

// subscriptions returns a user's subscriptions, each with its queue group.
func (r *running) subscriptions(t *testing.T, user string) (out []string) {
	t.Helper()
	for _, c := range r.connections(t, user) {
		for _, s := range c.SubsDetail {
			out = append(out, strings.TrimSpace(s.Subject+" "+s.Queue))
		}
	}
	return out
}
