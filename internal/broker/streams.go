package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// configRevision counts the changes of the stream and consumer configurations
// below. A lower revision never overwrites a higher one, so that a replica of
// the old version, still running during a rolling deploy, changes nothing back.
const configRevision = 4

// maxConsumers is set on every stream, because the server's own default is
// 1,000 and -1 does not lift it.
const maxConsumers = 4096

// RejectedPerSubject is how many rejected requests one subject keeps; the oldest go
// first.
const RejectedPerSubject = 50

// Limits of the streams. Counts are messages, sizes bytes.
type Limits struct {
	RequestsMaxMsgs  int64
	RequestsMaxBytes int64
	WorkMaxMsgs      int64 // also of the jobs that wait for their turn
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
	// BodiesMaxBytes bounds one tenant's object store. It is looked at before each
	// write rather than reserved: JetStream would set it aside for every tenant.
	BodiesMaxBytes int64
}

// DefaultLimits are the limits that a newcomer meets.
func DefaultLimits() Limits {
	return Limits{
		RequestsMaxMsgs: 1_000_000, RequestsMaxBytes: 4 << 30,
		WorkMaxMsgs: 1_000_000,
		TasksMaxAge: 7 * 24 * time.Hour, TasksMaxBytes: 4 << 30,
		ChunksMaxAge: 15 * time.Minute, ChunksMaxBytes: 256 << 20,
		DeadMaxAge: 30 * 24 * time.Hour, DeadMaxBytes: 1 << 30,
		RejectedMaxAge: 30 * 24 * time.Hour, RejectedMaxBytes: 256 << 20,
		UsageMaxAge: 31 * 24 * time.Hour, UsageMaxBytes: 1 << 30, BodiesMaxBytes: 20 << 30,
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	fill := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	fillAge := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	fill(&l.RequestsMaxMsgs, d.RequestsMaxMsgs)
	fill(&l.RequestsMaxBytes, d.RequestsMaxBytes)
	fill(&l.WorkMaxMsgs, d.WorkMaxMsgs)
	fill(&l.TasksMaxBytes, d.TasksMaxBytes)
	fill(&l.ChunksMaxBytes, d.ChunksMaxBytes)
	fill(&l.DeadMaxBytes, d.DeadMaxBytes)
	fill(&l.RejectedMaxBytes, d.RejectedMaxBytes)
	fill(&l.UsageMaxBytes, d.UsageMaxBytes)
	fill(&l.BodiesMaxBytes, d.BodiesMaxBytes)
	fillAge(&l.TasksMaxAge, d.TasksMaxAge)
	fillAge(&l.ChunksMaxAge, d.ChunksMaxAge)
	fillAge(&l.DeadMaxAge, d.DeadMaxAge)
	fillAge(&l.RejectedMaxAge, d.RejectedMaxAge)
	fillAge(&l.UsageMaxAge, d.UsageMaxAge)
	return l
}

// Streams is the whole configuration of every stream. Neither AllowMsgSchedules
// nor AllowRollup is ever set: with them, any publisher could wipe a stream or
// forge a message.
func (b *Broker) Streams() []jetstream.StreamConfig {
	n, l := b.names, b.limits
	return []jetstream.StreamConfig{
		b.stream(n.Requests(), "durable inbox of requests", jetstream.StreamConfig{
			Subjects:  []string{n.RequestPattern(subject.Video), n.RequestPattern(subject.Chat)},
			Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
			MaxMsgs: l.RequestsMaxMsgs, MaxBytes: l.RequestsMaxBytes, Discard: jetstream.DiscardNew,
			// The shortest window: with a long one, a publisher could make another
			// tenant's request vanish by using its Nats-Msg-Id.
			Duplicates: 100 * time.Millisecond,
		}),
		b.stream(n.Work(), "accepted, unfinished jobs", jetstream.StreamConfig{
			Subjects:  []string{n.WorkPattern()},
			Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
			MaxMsgs: l.WorkMaxMsgs, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
			Duplicates: 100 * time.Millisecond,
		}),
		// No work queue: every replica reads along which tenants wait, and a work
		// queue has one reader for each message. What had its turn is deleted.
		b.stream(n.Wait(), "accepted jobs that wait for their turn", jetstream.StreamConfig{
			Subjects:  []string{n.WaitPattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxMsgs: l.WorkMaxMsgs, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
			Duplicates: 100 * time.Millisecond,
		}),
		b.stream(n.Tasks(), "log of record, and feed of finished jobs", jetstream.StreamConfig{
			Subjects:  []string{n.TaskPattern(), n.DonePattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxAge: l.TasksMaxAge, MaxBytes: l.TasksMaxBytes, Discard: jetstream.DiscardNew, AllowDirect: true,
			Duplicates: 2 * time.Minute,
			RePublish:  &jetstream.RePublish{Source: n.TaskPattern(), Destination: n.LiveTaskPattern()},
		}),
		b.stream(n.Chunks(), "streamed chat chunks", jetstream.StreamConfig{
			Subjects:  []string{n.ChunkPattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.MemoryStorage,
			MaxAge: l.ChunksMaxAge, MaxBytes: l.ChunksMaxBytes, Discard: jetstream.DiscardOld, AllowDirect: true,
			Duplicates: 100 * time.Millisecond,
			RePublish:  &jetstream.RePublish{Source: n.ChunkPattern(), Destination: n.LiveChunkPattern()},
		}),
		// These are money: a new letter never pushes out another one.
		b.stream(n.Dead(), "accepted jobs that could not be processed", jetstream.StreamConfig{
			Subjects:  []string{n.DeadPattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxAge: l.DeadMaxAge, MaxBytes: l.DeadMaxBytes, Discard: jetstream.DiscardNew,
			Duplicates: 2 * time.Minute,
		}),
		// The bound of each tenant is that of its subjects, which are few; publishers
		// can invent any number of tenants, so that the sum has a bound too. A server that
		// discards old messages applies that one first after a crash, when what subjects had
		// too many is on disk again (nats-server 2.15.2). So the publisher makes room.
		b.stream(n.Rejected(), "requests that were never accepted", jetstream.StreamConfig{
			Subjects:  []string{n.RejectedPattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxAge: l.RejectedMaxAge, MaxBytes: l.RejectedMaxBytes, MaxMsgsPerSubject: RejectedPerSubject, Discard: jetstream.DiscardNew,
			FirstSeq:   subject.FirstRejected,
			Duplicates: 2 * time.Minute,
		}),
		b.stream(n.UsageStream(), "what ended jobs consumed", jetstream.StreamConfig{
			Subjects:  []string{n.UsagePattern()},
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			MaxAge: l.UsageMaxAge, MaxBytes: l.UsageMaxBytes, Discard: jetstream.DiscardOld,
			Duplicates: 2 * time.Minute,
		}),
	}
}

func (b *Broker) stream(name, description string, c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Name, c.Description = name, "genbus: "+description
	c.Replicas, c.MaxConsumers = b.replicas, maxConsumers
	c.Metadata = revisionMetadata()
	return c
}

func revisionMetadata() map[string]string {
	return map[string]string{subject.MetadataRevision: strconv.Itoa(configRevision)}
}

// EnsureStreams creates the streams that are missing and updates those that
// differ. What cannot be updated is an error that names the field. It is for a start:
// the replica that started last says how the streams are.
func (b *Broker) EnsureStreams(ctx context.Context) error {
	return b.eachStream(ctx, b.updateStream)
}

// CreateMissingStreams creates the streams that are missing, and changes none: another
// replica may have started later with other settings, and two that changed them back in
// turn would each drop what the other one keeps. A difference is logged once.
func (b *Broker) CreateMissingStreams(ctx context.Context) error {
	return b.eachStream(ctx, b.logDifference)
}

// eachStream creates the streams that are missing, and has those that differ dealt with.
// At the end the clock was compared with the broker's.
func (b *Broker) eachStream(ctx context.Context, differs differs) error {
	var log bool
	err := b.RetryUntilLeader(ctx, "read the streams", func(ctx context.Context) (err error) {
		log, err = b.checkLogPresent(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, want := range b.Streams() {
		err := b.RetryUntilLeader(ctx, "ensure stream "+want.Name, func(ctx context.Context) error {
			created, err := b.ensureStream(ctx, want, differs)
			if created && b.wasLost(want, log) {
				b.recreated(want.Name)
			}
			return err
		})
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.seen[want.Name] = true
		b.mu.Unlock()
	}
	return b.RetryUntilLeader(ctx, "read the broker's clock", func(ctx context.Context) error {
		_, err := b.timedInfo(ctx, b.names.Tasks())
		return err
	})
}

// wasLost reports whether a stream that was missing had existed: this process has seen it,
// or it is the queue of an existing log. A stream in memory ends with its server.
func (b *Broker) wasLost(want jetstream.StreamConfig, log bool) bool {
	return b.wasSeen(want) || log && want.Name == b.names.Work()
}

// wasSeen reports whether this process has seen a stream on disk.
func (b *Broker) wasSeen(want jetstream.StreamConfig) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return want.Storage == jetstream.FileStorage && b.seen[want.Name]
}

// recreated counts a stream that was lost, and says so: what was in it is gone.
func (b *Broker) recreated(name string) {
	b.mu.Lock()
	b.lost[name]++
	b.mu.Unlock()
	b.log.Error("a stream was gone, with all that was in it, and is created again", "stream", name)
}

// Recreated is how often this process found that a stream was lost, and created it again.
func (b *Broker) Recreated(stream string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost[stream]
}

// checkLogPresent reports whether there is a log. It refuses to work with accepted
// jobs whose whole history is gone: an operator has to decide what those jobs are.
func (b *Broker) checkLogPresent(ctx context.Context) (log bool, err error) {
	if _, err := b.js.Stream(ctx, b.names.Tasks()); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return true, wrapf(err, "stream %s", b.names.Tasks())
	}
	for _, name := range []string{b.names.Work(), b.names.Wait()} {
		jobs, err := b.streamInfo(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return false, err // it names the stream
		}
		if jobs.State.Msgs > 0 {
			return false, fmt.Errorf("stream %s is missing, but %s holds %d accepted jobs: restore the log from a backup, or delete %s to give these jobs up",
				b.names.Tasks(), name, jobs.State.Msgs, name)
		}
	}
	return false, nil
}

// deletionTakes is how long a server may still be removing the files of a stream or a
// consumer that it says is gone. Another one of that name that is created meanwhile loses its
// own: it seems to work, and is gone, with all that was put into it, after a restart of the
// server (nats-server 2.15.2).
const deletionTakes = time.Second

// differs deals with a stream that is not as wanted, in some fields.
type differs func(ctx context.Context, want jetstream.StreamConfig, fields []string) error

// ensureStream reports whether it created the stream.
func (b *Broker) ensureStream(ctx context.Context, want jetstream.StreamConfig, differs differs) (created bool, err error) {
	s, err := b.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, created, err = b.createStream(ctx, want)
	}
	if created {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("stream %s: %w", want.Name, err)
	}
	have := s.CachedInfo().Config
	fields := streamDiff(have, want)
	if len(fields) == 0 || newer(have.Metadata) {
		return false, nil
	}
	want.FirstSeq = have.FirstSeq
	return false, differs(ctx, want, fields)
}

// createStream creates a stream that was not there, and reports whether it did: of all
// that miss it at the same time, one in this process.
func (b *Broker) createStream(ctx context.Context, want jetstream.StreamConfig) (s jetstream.Stream, created bool, err error) {
	release, err := b.oneCreates(ctx)
	if err != nil {
		return nil, false, err
	}
	defer release()
	if b.wasSeen(want) {
		if s, err = b.js.Stream(ctx, want.Name); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return s, false, err
		}
		if err := Wait(ctx, deletionTakes); err != nil {
			return nil, false, err
		}
	}
	want.FirstSeq = b.firstSequence(want, time.Now())
	s, err = b.js.CreateStream(ctx, want)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		s, err = b.js.Stream(ctx, want.Name) // another replica was faster
		return s, false, err
	}
	return s, err == nil, wrapf(explainReplicas(err, b.replicas), "cannot be created")
}

// oneCreates waits until no other call in this process creates what is missing.
func (b *Broker) oneCreates(ctx context.Context) (release func(), err error) {
	select {
	case b.creating <- struct{}{}:
		return func() { <-b.creating }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// firstSequence is where the sequences of a stream begin that is created now. An
// acknowledgement names its message by stream, consumer and sequence alone. So that one
// of a holder from before a stream was lost finds nothing in the next one of that name,
// instead of the item of another job, no sequence comes twice: no stream takes a million
// messages a second. The log begins at 1: what it has lost is told by its last sequence.
func (b *Broker) firstSequence(want jetstream.StreamConfig, now time.Time) uint64 {
	if slices.Contains([]string{b.names.Requests(), b.names.Work(), b.names.Wait()}, want.Name) {
		return uint64(now.UnixMicro())
	}
	return want.FirstSeq
}

// logDifference logs how a stream differs, unless that was the last thing that was
// logged of it.
func (b *Broker) logDifference(_ context.Context, want jetstream.StreamConfig, fields []string) error {
	difference := strings.Join(fields, ", ")
	b.mu.Lock()
	before := b.logged[want.Name] == difference
	b.logged[want.Name] = difference
	b.mu.Unlock()
	if !before {
		b.log.Warn("a stream has other settings than this replica's configuration; they are applied by its next start", "stream", want.Name, "changes", fields)
	}
	return nil
}

func (b *Broker) updateStream(ctx context.Context, want jetstream.StreamConfig, fields []string) error {
	if _, err := b.js.UpdateStream(ctx, want); err != nil {
		return fmt.Errorf("stream %s cannot be changed from %s: %w", want.Name, strings.Join(fields, ", "), err)
	}
	b.log.Info("stream updated", "stream", want.Name, "changes", fields)
	return nil
}

func explainReplicas(err error, replicas int) error {
	if err != nil && replicas > 1 {
		return fmt.Errorf("%w (nats.replicas is %d; the cluster needs at least as many servers with JetStream)", err, replicas)
	}
	return err
}

// newer reports whether metadata was written by a newer genbus.
func newer(metadata map[string]string) bool {
	rev, err := strconv.Atoi(metadata[subject.MetadataRevision])
	return err == nil && rev > configRevision
}

// streamDiff names the fields that differ, each with the old and the new value.
func streamDiff(have, want jetstream.StreamConfig) []string {
	var d diff
	d.add("subjects", have.Subjects, want.Subjects, slices.Equal(have.Subjects, want.Subjects))
	d.add("retention", have.Retention, want.Retention, have.Retention == want.Retention)
	d.add("storage", have.Storage, want.Storage, have.Storage == want.Storage)
	d.add("replicas", have.Replicas, want.Replicas, have.Replicas == want.Replicas)
	d.add("max_consumers", have.MaxConsumers, want.MaxConsumers, have.MaxConsumers == want.MaxConsumers)
	d.add("max_msgs", have.MaxMsgs, want.MaxMsgs, unlimited(have.MaxMsgs) == unlimited(want.MaxMsgs))
	d.add("max_msgs_per_subject", have.MaxMsgsPerSubject, want.MaxMsgsPerSubject, unlimited(have.MaxMsgsPerSubject) == unlimited(want.MaxMsgsPerSubject))
	d.add("max_bytes", have.MaxBytes, want.MaxBytes, unlimited(have.MaxBytes) == unlimited(want.MaxBytes))
	d.add("max_age", have.MaxAge, want.MaxAge, have.MaxAge == want.MaxAge)
	d.add("discard", have.Discard, want.Discard, have.Discard == want.Discard)
	d.add("discard_new_per_subject", have.DiscardNewPerSubject, want.DiscardNewPerSubject, have.DiscardNewPerSubject == want.DiscardNewPerSubject)
	d.add("duplicate_window", have.Duplicates, want.Duplicates, have.Duplicates == want.Duplicates)
	d.add("allow_direct", have.AllowDirect, want.AllowDirect, have.AllowDirect == want.AllowDirect)
	d.add("republish", have.RePublish, want.RePublish, equalRePublish(have.RePublish, want.RePublish))
	d.add("allow_rollup", have.AllowRollup, false, !have.AllowRollup)
	d.add("revision", have.Metadata[subject.MetadataRevision], configRevision,
		have.Metadata[subject.MetadataRevision] == strconv.Itoa(configRevision))
	return d
}

type diff []string

func (d *diff) add(field string, have, want any, equal bool) {
	if !equal {
		*d = append(*d, fmt.Sprintf("%s %v to %v", field, have, want))
	}
}

// unlimited makes the two spellings of "no limit" equal.
func unlimited(n int64) int64 {
	if n == 0 {
		return -1
	}
	return n
}

func equalRePublish(a, b *jetstream.RePublish) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// EnsureConsumer creates or updates a durable consumer under the same rule of
// revisions as the streams.
func (b *Broker) EnsureConsumer(ctx context.Context, stream string, want jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	want.Metadata = maps.Clone(want.Metadata)
	if want.Metadata == nil {
		want.Metadata = map[string]string{}
	}
	maps.Copy(want.Metadata, revisionMetadata())
	var c jetstream.Consumer
	err := b.RetryUntilLeader(ctx, "ensure consumer "+want.Durable, func(ctx context.Context) (err error) {
		c, err = b.ensureConsumer(ctx, stream, want)
		return err
	})
	return c, err
}

// RestoreConsumer creates a durable consumer that is gone, after the streams that are.
// What is there it does not change: another replica may have made it otherwise.
func (b *Broker) RestoreConsumer(ctx context.Context, stream string, want jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	// Shortly: without a leader there is no answer, and the caller is to go on as soon as
	// there is one.
	look, cancel := context.WithTimeout(ctx, time.Second)
	c, err := b.Consumer(look, stream, want.Durable)
	cancel()
	if err == nil {
		return c, nil
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = b.CreateMissingStreams(ctx)
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, err
	}
	if err := Wait(ctx, deletionTakes); err != nil {
		return nil, err
	}
	if c, err := b.Consumer(ctx, stream, want.Durable); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return c, err // another process created it first
	}
	want.Metadata = revisionMetadata()
	c, err = b.js.CreateConsumer(ctx, stream, want)
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return b.Consumer(ctx, stream, want.Durable)
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s of %s: %w", want.Durable, stream, err)
	}
	b.log.Warn("a durable consumer was gone, and is created again; if its route was paused, it is not any more", "stream", stream, "consumer", want.Durable)
	return c, nil
}

func (b *Broker) ensureConsumer(ctx context.Context, stream string, want jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	have, err := b.js.Consumer(ctx, stream, want.Durable)
	if err == nil && newer(have.CachedInfo().Config.Metadata) {
		return have, nil
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, fmt.Errorf("consumer %s of %s: %w", want.Durable, stream, err)
	}
	c, err := b.js.CreateOrUpdateConsumer(ctx, stream, want)
	return c, wrapf(err, "consumer %s of %s", want.Durable, stream)
}
