package config

import (
	"strings"
	"time"
)

// ListenNone is the value of NATS.Listen that keeps the embedded server off the network.
const ListenNone = "none"

// NATS configures the broker: an embedded server, or a cluster if URL is set.
type NATS struct {
	// Servers of a NATS cluster, comma separated (nats:// or tls://); empty starts an embedded server.
	// Only the variable's URL may contain a user and password. Default: none.
	URL string `yaml:"url" env:"GENBUS_NATS_URL"`
	// Embedded only: address that the server listens on, host:port, or "none" for no TCP. Default:
	// 127.0.0.1:4222.
	Listen string `yaml:"listen" env:"GENBUS_NATS_LISTEN"`
	// Embedded only: data directory, for one process at a time. Default: ./data.
	DataDir string `yaml:"data_dir" env:"GENBUS_DATA_DIR"`
	// Prefix of all subjects and stream names of genbus. Default: genbus.
	Prefix string `yaml:"prefix" env:"GENBUS_NATS_PREFIX"`
	// Copies of each stream: 1, 3 or 5 on a cluster, 1 when embedded. Default: 1 embedded, 3 on a
	// cluster.
	Replicas int `yaml:"replicas" env:"GENBUS_NATS_REPLICAS"`
	// Cluster only: credentials file (.creds) of a NATS user. Default: none.
	CredsFile string `yaml:"creds_file" env:"GENBUS_NATS_CREDS_FILE"`
	// User name. Cluster: genbus logs in with it. Embedded: clients must log in with it. Default: none.
	User string `yaml:"user"`
	// Environment variable that holds the password of nats.user. Default: none.
	PasswordEnv string `yaml:"password_env"`
	// File that holds the password of nats.user. Default: none.
	PasswordFile string `yaml:"password_file"`
	TLS          TLS    `yaml:"tls"`
	// Embedded only: sync every write to disk before confirming it. With false, a power failure may
	// lose accepted jobs and cause videos to be paid twice. Default: true.
	SyncAlways bool `yaml:"sync_always" env:"GENBUS_NATS_SYNC_ALWAYS"`
	// Embedded only: maximum bytes of all streams on disk. Default: 16GiB.
	MaxStoreBytes Size `yaml:"max_store_bytes"`
	// Embedded only: maximum bytes of all streams in memory. Default: 512MiB.
	MaxMemoryBytes Size    `yaml:"max_memory_bytes"`
	Streams        Streams `yaml:"streams"`

	// Password is the loaded password of User.
	Password Secret `yaml:"-"`
}

// Embedded reports whether genbus runs its own NATS server.
func (n NATS) Embedded() bool { return n.URL == "" }

// Servers returns the URLs of the cluster, without credentials. It is empty for an embedded server.
func (n NATS) Servers() []string {
	var servers []string
	for part := range strings.SplitSeq(n.URL, ",") {
		if part = strings.TrimSpace(part); part != "" {
			servers = append(servers, part)
		}
	}
	return servers
}

// TLS configures TLS to the cluster, or between the embedded server and its clients.
type TLS struct {
	// PEM file with CA certificates. Cluster: to verify the servers. Embedded: to verify clients,
	// which must then present a certificate. Default: none.
	CAFile string `yaml:"ca_file"`
	// PEM file of the certificate. Cluster: genbus's client certificate. Embedded: the server's; empty
	// for no TLS. Default: none.
	CertFile string `yaml:"cert_file"`
	// PEM file of the private key. Default: none.
	KeyFile string `yaml:"key_file"`
}

// Streams limits each JetStream stream. For an embedded server, the sums of the limits must not
// exceed nats.max_store_bytes and nats.max_memory_bytes.
type Streams struct {
	Requests RequestsStream `yaml:"requests"`
	Work     WorkStream     `yaml:"work"`
	Tasks    TasksStream    `yaml:"tasks"`
	Chunks   ChunksStream   `yaml:"chunks"`
	Dead     DeadStream     `yaml:"dead"`
	Rejected RejectedStream `yaml:"rejected"`
	Usage    UsageStream    `yaml:"usage"`
	Ops      OpsStream      `yaml:"ops"`
	Bodies   BodiesStreams  `yaml:"bodies"`
}

// RequestsStream is the inbox of publishers. Publishing fails when the inbox is full.
type RequestsStream struct {
	// Maximum requests that wait for admission. Default: 1000000.
	MaxMsgs int64 `yaml:"max_msgs"`
	// Maximum bytes of requests that wait for admission. Default: 4GiB.
	MaxBytes Size `yaml:"max_bytes"`
}

// WorkStream holds the accepted, unfinished jobs.
type WorkStream struct {
	// Maximum accepted jobs that are ready or in progress, over all routes; the same again for the
	// backlog. Default: 1000000.
	MaxMsgs int64 `yaml:"max_msgs"`
	// Maximum bytes of ready jobs; the same again for the backlog. Some NATS accounts require a limit.
	// 0: no limit. Default: 0.
	MaxBytes Size `yaml:"max_bytes"`
}

// BodiesStreams limits the tenants' object stores.
type BodiesStreams struct {
	// Maximum bytes of each tenant's object store, which NATS reserves. Some NATS accounts require a
	// limit. Must exceed limits.bodies_bytes. 0: no limit. Default: 0.
	MaxBytes Size `yaml:"max_bytes"`
}

// TasksStream holds the job logs and the feed.
type TasksStream struct {
	// How long events are kept; must exceed twice the longest life of a job (queue timeout and
	// deadline). Default: 168h.
	MaxAge time.Duration `yaml:"max_age"`
	// Maximum bytes of events. genbus refuses new jobs when 80 % are used or reserved for unfinished
	// jobs. Default: 4GiB.
	MaxBytes Size `yaml:"max_bytes"`
}

// ChunksStream holds the chunks of streamed chats, in memory.
type ChunksStream struct {
	// How long chunks can be replayed, if max_bytes allows. Default: 15m.
	MaxAge time.Duration `yaml:"max_age"`
	// Maximum bytes of chunks; NATS drops the oldest beyond it. The default holds 15 minutes of 12
	// chats at 30 chunks a second. Default: 256MiB.
	MaxBytes Size `yaml:"max_bytes"`
}

// DeadStream holds the dead letters of accepted jobs.
type DeadStream struct {
	// How long dead letters are kept. Default: 720h.
	MaxAge time.Duration `yaml:"max_age"`
	// Maximum bytes of dead letters; a new one never replaces an old one. Default: 1GiB.
	MaxBytes Size `yaml:"max_bytes"`
}

// RejectedStream holds the dead letters of rejected requests.
type RejectedStream struct {
	// How long rejected requests are kept. Default: 720h.
	MaxAge time.Duration `yaml:"max_age"`
	// Maximum bytes of rejected requests; NATS drops the oldest beyond it. Default: 256MiB.
	MaxBytes Size `yaml:"max_bytes"`
}

// UsageStream holds the usage events of ended jobs.
type UsageStream struct {
	// How long usage events are kept. Default: 744h.
	MaxAge time.Duration `yaml:"max_age"`
	// Maximum bytes of usage events; NATS drops the oldest beyond it. The default holds about 1.5
	// million. Default: 1GiB.
	MaxBytes Size `yaml:"max_bytes"`
}

// OpsStream holds the audit records of operators.
type OpsStream struct {
	// How long audit records are kept. Default: 2160h.
	MaxAge time.Duration `yaml:"max_age"`
	// Maximum bytes of audit records; when full, genbus refuses operator actions. The default holds
	// about 100,000. Default: 64MiB.
	MaxBytes Size `yaml:"max_bytes"`
}

func defaultNATS() NATS {
	return NATS{
		Listen: "127.0.0.1:4222", DataDir: "./data", Prefix: "genbus",
		SyncAlways: true, MaxStoreBytes: 16 * GiB, MaxMemoryBytes: 512 * MiB,
		Streams: Streams{
			Requests: RequestsStream{MaxMsgs: 1_000_000, MaxBytes: 4 * GiB},
			Work:     WorkStream{MaxMsgs: 1_000_000},
			Tasks:    TasksStream{MaxAge: 168 * time.Hour, MaxBytes: 4 * GiB},
			Chunks:   ChunksStream{MaxAge: 15 * time.Minute, MaxBytes: 256 * MiB},
			Dead:     DeadStream{MaxAge: 720 * time.Hour, MaxBytes: GiB},
			Rejected: RejectedStream{MaxAge: 720 * time.Hour, MaxBytes: 256 * MiB},
			Usage:    UsageStream{MaxAge: 744 * time.Hour, MaxBytes: GiB},
			Ops:      OpsStream{MaxAge: 2160 * time.Hour, MaxBytes: 64 * MiB},
		},
	}
}
