package broker

import (
	"cmp"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// configRevision is the version of the stream and consumer configurations. Increment it with every
// change. A configuration never overwrites one with a higher revision, so an old replica cannot
// revert changes during a rolling deploy.
const configRevision = 5

// maxConsumers is set on every stream, because the server defaults to 1,000 and -1 does not lift
// that limit.
const maxConsumers = 4096

// RejectedPerSubject is the number of rejected requests that a subject keeps. New ones replace the
// oldest.
const RejectedPerSubject = 50

// Limits sets the limits of the streams. MaxMsgs fields are in messages and MaxBytes fields in
// bytes.
type Limits struct {
	RequestsMaxMsgs  int64
	RequestsMaxBytes int64
	WorkMaxMsgs      int64 // for each of GENBUS_WORK and GENBUS_WAIT
	WorkMaxBytes     int64 // for each of GENBUS_WORK and GENBUS_WAIT; 0 means no limit
	TasksMaxAge      time.Duration
	TasksMaxBytes    int64
	ChunksMaxAge     time.Duration
	ChunksMaxBytes   int64
	DeadMaxAge       time.Duration
	DeadMaxBytes     int64
	RejectedMaxAge   time.Duration
	RejectedMaxBytes int64
	UsageMaxAge      time.Duration
	UsageMaxBytes    int64
	OpsMaxAge        time.Duration
	OpsMaxBytes      int64
	// BodiesMaxBytes and BodiesMaxMsgs limit each tenant's object store. genbus enforces them
	// itself, because JetStream limits would reserve the bytes for every tenant and refuse bodies
	// that are already paid for.
	BodiesMaxBytes int64
	BodiesMaxMsgs  int64
	// BodiesReserved is the max_bytes of each tenant's object store, which JetStream reserves. 0
	// means no limit.
	BodiesReserved int64
}

// DefaultLimits returns the limits that replace zero fields of Options.Limits.
func DefaultLimits() Limits {
	return Limits{
		RequestsMaxMsgs: 1_000_000, RequestsMaxBytes: 4 << 30,
		WorkMaxMsgs: 1_000_000,
		TasksMaxAge: 7 * 24 * time.Hour, TasksMaxBytes: 4 << 30,
		ChunksMaxAge: 15 * time.Minute, ChunksMaxBytes: 256 << 20,
		DeadMaxAge: 30 * 24 * time.Hour, DeadMaxBytes: 1 << 30,
		RejectedMaxAge: 30 * 24 * time.Hour, RejectedMaxBytes: 256 << 20,
		UsageMaxAge: 31 * 24 * time.Hour, UsageMaxBytes: 1 << 30,
		OpsMaxAge: 90 * 24 * time.Hour, OpsMaxBytes: 64 << 20, BodiesMaxBytes: 20 << 30, BodiesMaxMsgs: 1_000_000,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	l.RequestsMaxMsgs = cmp.Or(l.RequestsMaxMsgs, d.RequestsMaxMsgs)
	l.RequestsMaxBytes = cmp.Or(l.RequestsMaxBytes, d.RequestsMaxBytes)
	l.WorkMaxMsgs = cmp.Or(l.WorkMaxMsgs, d.WorkMaxMsgs)
	l.TasksMaxBytes = cmp.Or(l.TasksMaxBytes, d.TasksMaxBytes)
	l.ChunksMaxBytes = cmp.Or(l.ChunksMaxBytes, d.ChunksMaxBytes)
	l.DeadMaxBytes = cmp.Or(l.DeadMaxBytes, d.DeadMaxBytes)
	l.RejectedMaxBytes = cmp.Or(l.RejectedMaxBytes, d.RejectedMaxBytes)
	l.UsageMaxBytes = cmp.Or(l.UsageMaxBytes, d.UsageMaxBytes)
	l.OpsMaxBytes = cmp.Or(l.OpsMaxBytes, d.OpsMaxBytes)
	l.BodiesMaxMsgs = cmp.Or(l.BodiesMaxMsgs, d.BodiesMaxMsgs)
	l.BodiesMaxBytes = cmp.Or(l.BodiesMaxBytes, d.BodiesMaxBytes)
	l.TasksMaxAge = cmp.Or(l.TasksMaxAge, d.TasksMaxAge)
	l.ChunksMaxAge = cmp.Or(l.ChunksMaxAge, d.ChunksMaxAge)
	l.DeadMaxAge = cmp.Or(l.DeadMaxAge, d.DeadMaxAge)
	l.RejectedMaxAge = cmp.Or(l.RejectedMaxAge, d.RejectedMaxAge)
	l.UsageMaxAge = cmp.Or(l.UsageMaxAge, d.UsageMaxAge)
	l.OpsMaxAge = cmp.Or(l.OpsMaxAge, d.OpsMaxAge)
	return l
}

// Streams creates and updates the streams and their durable consumers according to this replica's
// configuration. It is safe for concurrent use.
type Streams struct {
	admin    *admin
	limits   Limits
	replicas int
	creating chan struct{} // semaphore held while a stream is being created

	mu          sync.Mutex
	logged      map[string]string // last logged differences, by stream
	seen        map[string]bool   // streams that this process has found or created
	lost        map[string]int    // how often a stream was lost and recreated
	unconfirmed map[string]bool   // streams whose create request got no answer
}

func newStreams(a *admin, limits Limits, replicas int) *Streams {
	return &Streams{
		admin: a, limits: limits.withDefaults(), replicas: max(replicas, 1), creating: make(chan struct{}, 1),
		logged: map[string]string{}, seen: map[string]bool{}, lost: map[string]int{}, unconfirmed: map[string]bool{},
	}
}

// Configs returns the complete configuration of every stream. It never sets AllowMsgSchedules or
// AllowRollup, because they would let any publisher erase a stream or forge a message.
func (s *Streams) Configs() []jetstream.StreamConfig {
	n, l := s.admin.names, s.limits
	return []jetstream.StreamConfig{
		s.stream(n.Requests(), "durable inbox of requests", jetstream.StreamConfig{
			Subjects:  []string{n.RequestPattern(subject.Video), n.RequestPattern(subject.Chat)},
			Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
			MaxMsgs: l.RequestsMaxMsgs, MaxBytes: l.RequestsMaxBytes, Discard: jetstream.DiscardNew,
			// This is the minimum. With a longer window, a publisher could suppress another
			// tenant's request by using the same Nats-Msg-Id.
			Duplicates: 100 * time.Millisecond,
		}),
		s.stream(n.Work(), "accepted, unfinished jobs", jetstream.StreamConfig{
			Subjects:  []string{n.WorkPattern()},
			Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
			MaxMsgs: l.WorkMaxMsgs, MaxBytes: unlimited(l.WorkMaxBytes), MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, AllowDirect: true,
			Duplicates: 100 * time.Millisecond, AllowAtomicPublish: true,
		}),
		// This is not a work queue, because a work queue delivers each message to only one reader,
		// and every dispatching replica must read all of them. genbus deletes an item once it is
		// dispatched.
		s.stream(n.Wait(), "accepted jobs that wait for their turn", jetstream.StreamConfig{
			Subjects:  []string{n.WaitPattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxMsgs: l.WorkMaxMsgs, MaxBytes: unlimited(l.WorkMaxBytes), MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, AllowDirect: true,
			Duplicates: 100 * time.Millisecond, AllowAtomicPublish: true,
		}),
		s.stream(n.Tasks(), "log of record, and feed of finished jobs", jetstream.StreamConfig{
			Subjects:  []string{n.TaskPattern(), n.DonePattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxAge: l.TasksMaxAge, MaxBytes: l.TasksMaxBytes, Discard: jetstream.DiscardNew, AllowDirect: true, AllowAtomicPublish: true,
			Duplicates: 2 * time.Minute,
			RePublish:  &jetstream.RePublish{Source: n.TaskPattern(), Destination: n.LiveTaskPattern()},
		}),
		s.stream(n.Chunks(), "streamed chat chunks", jetstream.StreamConfig{
			Subjects:  []string{n.ChunkPattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.MemoryStorage,
			MaxAge: l.ChunksMaxAge, MaxBytes: l.ChunksMaxBytes, Discard: jetstream.DiscardOld, AllowDirect: true,
			Duplicates: 100 * time.Millisecond,
			RePublish:  &jetstream.RePublish{Source: n.ChunkPattern(), Destination: n.LiveChunkPattern()},
		}),
		// Dead letters represent paid work, so a new one never evicts another.
		s.stream(n.Dead(), "accepted jobs that could not be processed", jetstream.StreamConfig{
			Subjects:  []string{n.DeadPattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxAge: l.DeadMaxAge, MaxBytes: l.DeadMaxBytes, Discard: jetstream.DiscardNew,
			Duplicates: 2 * time.Minute,
		}),
		// The per-subject limit bounds each tenant. MaxBytes bounds the total, because publishers
		// can invent tenants. When MaxBytes is reached, the stream refuses new messages instead of
		// discarding old ones. After a crash, messages beyond the per-subject limit reappear on
		// disk, and the server would apply MaxBytes before it removes them (nats-server 2.15.2).
		// The publisher frees capacity instead.
		s.stream(n.Rejected(), "requests that were never accepted", jetstream.StreamConfig{
			Subjects:  []string{n.RejectedPattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxAge: l.RejectedMaxAge, MaxBytes: l.RejectedMaxBytes, MaxMsgsPerSubject: RejectedPerSubject, Discard: jetstream.DiscardNew,
			FirstSeq:   subject.FirstRejected,
			Duplicates: 2 * time.Minute,
		}),
		s.stream(n.UsageStream(), "what ended jobs consumed", jetstream.StreamConfig{
			Subjects:  []string{n.UsagePattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxAge: l.UsageMaxAge, MaxBytes: l.UsageMaxBytes, Discard: jetstream.DiscardOld,
			Duplicates: 2 * time.Minute, AllowAtomicPublish: true,
		}),
		// A full stream keeps its records, and genbus refuses an operator action that it cannot
		// record.
		s.stream(n.Ops(), "what operators did", jetstream.StreamConfig{
			Subjects:  []string{n.OpsPattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxAge: l.OpsMaxAge, MaxBytes: l.OpsMaxBytes, Discard: jetstream.DiscardNew,
			Duplicates: 2 * time.Minute,
		}),
	}
}

// ObjectStore returns the configuration of a tenant's object store. Objects expire at the same age
// as the job log.
func (s *Streams) ObjectStore(bucket string) jetstream.ObjectStoreConfig {
	return jetstream.ObjectStoreConfig{
		Bucket: bucket, Description: "genbus: bodies that are too large for a message",
		TTL: s.limits.TasksMaxAge, MaxBytes: unlimited(s.limits.BodiesReserved), Storage: jetstream.FileStorage, Replicas: s.replicas, Metadata: revisionMetadata(),
	}
}

func (s *Streams) stream(name, description string, c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Name, c.Description = name, "genbus: "+description
	c.Replicas, c.MaxConsumers = s.replicas, maxConsumers
	c.Metadata = revisionMetadata()
	return c
}

func revisionMetadata() map[string]string {
	return map[string]string{subject.MetadataRevision: strconv.Itoa(configRevision)}
}

// newer reports whether metadata comes from a newer version of genbus.
func newer(metadata map[string]string) bool {
	rev, err := strconv.Atoi(metadata[subject.MetadataRevision])
	return err == nil && rev > configRevision
}
