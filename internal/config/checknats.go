package config

import (
	"net/url"
	"slices"
	"strings"
	"time"
)

const maxPrefix = 64 // keeps the longest subject far below the broker's limit

func (c *Config) checkNATS(r *report) {
	n := c.NATS
	if len(n.Prefix) > maxPrefix || slices.ContainsFunc(strings.Split(n.Prefix, "."), func(t string) bool { return !tokenPattern.MatchString(t) }) {
		r.bad("nats.prefix", n.Prefix, "one or more tokens of letters, digits, _ or -, joined by dots, at most 64 characters, such as genbus or acme.genbus")
	}
	c.checkStreams(r)
	password := !n.Password.Empty() || n.PasswordEnv != "" || n.PasswordFile != "" || r.follows("nats.password_env") || r.follows("nats.password_file")
	if (n.User == "") == password {
		r.bad("nats.user", n.User, "a user together with password_env or password_file, or none of them")
	}
	if n.Embedded() {
		c.checkEmbedded(r)
		return
	}
	c.checkCluster(r)
}

func (c *Config) checkEmbedded(r *report) {
	n := c.NATS
	if n.Listen != ListenNone {
		checkAddr(r, "nats.listen", n.Listen)
	}
	if n.DataDir == "" {
		r.bad("nats.data_dir", n.DataDir, "a directory, such as ./data")
	}
	if n.Replicas != 1 {
		r.bad("nats.replicas", n.Replicas, "1 for an embedded server, or nats.url (GENBUS_NATS_URL) of a cluster")
	}
	if n.CredsFile != "" {
		r.bad("nats.creds_file", n.CredsFile, "nats.url (GENBUS_NATS_URL) of a cluster as well; the embedded server does not use it")
	}
	n.checkEmbeddedTLS(r)
	within(r, "nats.max_store_bytes", n.MaxStoreBytes, 64*MiB, 1024*TiB)
	within(r, "nats.max_memory_bytes", n.MaxMemoryBytes, MiB, TiB)
	// The broker reserves each stream's limit when it creates the stream, and refuses a stream that
	// does not fit. Each tenant's object store reserves its limit too. Tenants without keys or
	// limits are not known here.
	if sum := n.Streams.Requests.MaxBytes + 2*n.Streams.Work.MaxBytes + n.Streams.Tasks.MaxBytes + n.Streams.Dead.MaxBytes + n.Streams.Rejected.MaxBytes + n.Streams.Usage.MaxBytes + n.Streams.Ops.MaxBytes +
		Size(max(c.tenantCount(), 1))*n.Streams.Bodies.MaxBytes; sum > n.MaxStoreBytes {
		r.bad("nats.max_store_bytes", n.MaxStoreBytes, "at least "+sum.String()+", the sum of max_bytes of the streams requests, work (twice), tasks, dead, rejected, usage and ops, and of bodies for each tenant")
	}
	if n.Streams.Chunks.MaxBytes > n.MaxMemoryBytes {
		r.bad("nats.max_memory_bytes", n.MaxMemoryBytes, "at least "+n.Streams.Chunks.MaxBytes.String()+", which is nats.streams.chunks.max_bytes")
	}
}

// tenantCount returns the number of tenants with keys or limits.
func (c *Config) tenantCount() int {
	names := map[string]bool{}
	for _, k := range c.APIKeys {
		names[k.Tenant] = true
	}
	for name := range c.Tenants {
		names[name] = true
	}
	return len(names)
}

func (c *Config) checkCluster(r *report) {
	n := c.NATS
	for _, server := range n.Servers() {
		u, err := url.Parse(server)
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			r.bad("nats.url", server, "nats://host:4222 or tls://host:4222, several separated by commas")
		}
	}
	if len(n.Servers()) == 0 {
		r.bad("nats.url", n.URL, "nats://host:4222, or nothing for an embedded server")
	}
	if !slices.Contains([]int{1, 3, 5}, n.Replicas) {
		r.bad("nats.replicas", n.Replicas, "1, 3 or 5")
	}
	if (n.TLS.CertFile == "") != (n.TLS.KeyFile == "") {
		r.bad("nats.tls.cert_file", n.TLS.CertFile, "cert_file and key_file together, or none of them")
	}
}

func (c *Config) checkStreams(r *report) {
	s := c.NATS.Streams
	within(r, "nats.streams.requests.max_msgs", s.Requests.MaxMsgs, 1, 1_000_000_000)
	within(r, "nats.streams.requests.max_bytes", s.Requests.MaxBytes, MiB, 1024*TiB)
	within(r, "nats.streams.work.max_msgs", s.Work.MaxMsgs, 1, 1_000_000_000)
	if s.Work.MaxBytes != 0 {
		within(r, "nats.streams.work.max_bytes", s.Work.MaxBytes, MiB, 1024*TiB)
	}
	if bodies := s.Bodies.MaxBytes; bodies != 0 && bodies <= c.Limits.BodiesBytes {
		r.bad("nats.streams.bodies.max_bytes", bodies, "more than "+c.Limits.BodiesBytes.String()+", which is limits.bodies_bytes, or 0")
	}
	within(r, "nats.streams.tasks.max_age", s.Tasks.MaxAge, time.Second, 10*year)
	within(r, "nats.streams.tasks.max_bytes", s.Tasks.MaxBytes, MiB, 1024*TiB)
	within(r, "nats.streams.chunks.max_age", s.Chunks.MaxAge, time.Second, 24*time.Hour)
	within(r, "nats.streams.chunks.max_bytes", s.Chunks.MaxBytes, MiB, TiB)
	within(r, "nats.streams.dead.max_age", s.Dead.MaxAge, time.Minute, 10*year)
	within(r, "nats.streams.dead.max_bytes", s.Dead.MaxBytes, MiB, 1024*TiB)
	within(r, "nats.streams.rejected.max_age", s.Rejected.MaxAge, time.Minute, 10*year)
	within(r, "nats.streams.rejected.max_bytes", s.Rejected.MaxBytes, MiB, 1024*TiB)
	within(r, "nats.streams.usage.max_age", s.Usage.MaxAge, time.Minute, 10*year)
	within(r, "nats.streams.usage.max_bytes", s.Usage.MaxBytes, MiB, 1024*TiB)
	within(r, "nats.streams.ops.max_age", s.Ops.MaxAge, time.Minute, 10*year)
	within(r, "nats.streams.ops.max_bytes", s.Ops.MaxBytes, MiB, 1024*TiB)
}
