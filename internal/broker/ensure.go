package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/objectwrite"
)

// Ensure creates missing streams and updates those that differ from this replica's configuration.
// Call it at startup. The replica that starts last determines the configuration. If a stream cannot
// be updated, the error names the fields.
func (s *Streams) Ensure(ctx context.Context) error {
	if err := s.admin.reads.link.checkServer(); err != nil {
		return err
	}
	if err := s.checkAccount(ctx); err != nil {
		return err
	}
	if err := s.eachStream(ctx, s.updateStream); err != nil {
		return err
	}
	return s.updateObjectStores(ctx)
}

// CreateMissing creates missing streams and leaves the others unchanged, because another replica
// may have started later with other settings. If two replicas kept reverting each other's changes,
// each could drop messages that the other should keep. CreateMissing logs each difference once.
func (s *Streams) CreateMissing(ctx context.Context) error {
	return s.eachStream(ctx, s.logDifference)
}

// differs handles a stream whose configuration differs from want in the given fields.
type differs func(ctx context.Context, want jetstream.StreamConfig, fields []string) error

// eachStream creates missing streams, calls differs for each stream that differs, and then measures
// the broker's clock.
func (s *Streams) eachStream(ctx context.Context, differs differs) error {
	var log bool
	err := s.admin.RetryUntilLeader(ctx, "read the streams", func(ctx context.Context) (err error) {
		log, err = s.checkLogPresent(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, want := range s.Configs() {
		err := s.admin.RetryUntilLeader(ctx, "ensure stream "+want.Name, func(ctx context.Context) error {
			created, err := s.ensureStream(ctx, want, differs)
			if created && s.wasLost(want, log) {
				s.recreated(want.Name)
			}
			return err
		})
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.seen[want.Name] = true
		s.mu.Unlock()
	}
	return s.admin.RetryUntilLeader(ctx, "read the broker's clock", func(ctx context.Context) error {
		_, err := s.admin.timedInfo(ctx, s.admin.names.Tasks())
		return err
	})
}

// accountTimeout bounds the request for the account limits, which gets no answer if the user lacks
// permission.
const accountTimeout = 2 * time.Second

// checkAccount compares the configuration with the limits of the NATS account, so that a startup
// error names the key or the limit to change. If the user may not read the limits, creating a
// stream fails later instead.
func (s *Streams) checkAccount(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	account, err := s.admin.js.AccountInfo(ctx)
	if err != nil {
		s.admin.log.Debug("could not read NATS account limits", "error", err)
		return nil
	}
	limits, streams := account.Limits, len(s.Configs())
	if tier, ok := account.Tiers[fmt.Sprintf("R%d", s.replicas)]; ok {
		limits = tier.Limits
	}
	switch {
	case limits.MaxBytesRequired && s.limits.WorkMaxBytes == 0:
		return errors.New("NATS account requires max_bytes on every stream; set nats.streams.work.max_bytes")
	case limits.MaxBytesRequired && s.limits.BodiesReserved == 0:
		return errors.New("NATS account requires max_bytes on every stream; set nats.streams.bodies.max_bytes")
	case limits.MaxStreams > 0 && limits.MaxStreams <= streams:
		return fmt.Errorf("NATS account allows %d streams (max_streams); genbus needs %d plus one per tenant", limits.MaxStreams, streams)
	}
	return nil
}

// objectStoresTimeout bounds the update of the tenants' object stores at startup.
const objectStoresTimeout = 10 * time.Second

// updateObjectStores applies the configured replicas, TTL and reserved bytes to the tenants'
// existing object stores. A store that does not answer in time keeps its settings until the next
// start, so one store cannot delay the others for long.
func (s *Streams) updateObjectStores(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, objectStoresTimeout)
	defer cancel()
	list := s.admin.js.StreamNames(ctx, jetstream.WithStreamListSubject(objectwrite.ChunksOf("*", ">")))
	for name := range list.Name() {
		if !strings.HasPrefix(name, objectwrite.Stream(s.admin.names.Bodies(""))) {
			continue
		}
		err := try(ctx, func(ctx context.Context) error { return s.updateObjectStore(ctx, name) })
		if err != nil && !passing(err) {
			return err
		}
		if err != nil {
			s.admin.log.Warn("could not update object store", "stream", name, "error", err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		s.admin.log.Warn("could not update all object stores in time", "timeout", objectStoresTimeout)
		return nil
	}
	if err := list.Err(); err != nil {
		s.admin.log.Warn("could not list object stores, settings not updated", "error", err)
	}
	return nil
}

func (s *Streams) updateObjectStore(ctx context.Context, name string) error {
	stream, err := s.admin.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	have := stream.CachedInfo().Config
	want := have
	want.Replicas, want.MaxAge, want.MaxBytes, want.Metadata = s.replicas, s.limits.TasksMaxAge, unlimited(s.limits.BodiesReserved), revisionMetadata()
	fields := objectStoreDiff(have, want)
	if len(fields) == 0 || newer(have.Metadata) {
		return nil
	}
	return s.updateStream(ctx, want, fields)
}

// wasLost reports whether a missing stream used to exist: this process has seen it, or it is the
// work stream and the log exists. Memory streams do not count, because they end with their server.
func (s *Streams) wasLost(want jetstream.StreamConfig, log bool) bool {
	return s.wasSeen(want) || log && want.Name == s.admin.names.Work()
}

// wasSeen reports whether a stream is kept on disk and this process has seen it.
func (s *Streams) wasSeen(want jetstream.StreamConfig) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return want.Storage == jetstream.FileStorage && s.seen[want.Name]
}

// recreated counts and logs a stream whose contents were lost.
func (s *Streams) recreated(name string) {
	s.mu.Lock()
	s.lost[name]++
	s.mu.Unlock()
	s.admin.log.Error("recreated lost stream, its messages are gone", "stream", name)
}

// Recreated returns how often this process recreated a lost stream.
func (s *Streams) Recreated(stream string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[stream]
}

// checkLogPresent reports whether the log exists. It fails if there are accepted jobs but no log,
// because an operator must decide what happens to them.
func (s *Streams) checkLogPresent(ctx context.Context) (log bool, err error) {
	if _, err := s.admin.js.Stream(ctx, s.admin.names.Tasks()); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return true, wrapf(err, "stream %s", s.admin.names.Tasks())
	}
	for _, name := range []string{s.admin.names.Work(), s.admin.names.Wait()} {
		jobs, err := s.admin.streamInfo(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return false, err // names the stream
		}
		if jobs.State.Msgs > 0 {
			return false, fmt.Errorf("stream %s is missing, but %s holds %d accepted jobs: restore the log from a backup, or delete %s to give up these jobs",
				s.admin.names.Tasks(), name, jobs.State.Msgs, name)
		}
	}
	return false, nil
}

// ensureStream creates a stream if it is missing, and calls differs if it differs from want. It
// reports whether it created the stream.
func (s *Streams) ensureStream(ctx context.Context, want jetstream.StreamConfig, differs differs) (created bool, err error) {
	down, _ := s.admin.reads.link.state.now()
	stream, err := s.admin.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, created, err = s.createStream(ctx, want)
	}
	if err != nil {
		return false, fmt.Errorf("stream %s: %w", want.Name, err)
	}
	s.admin.reads.unreplicated.learn(down, stream.CachedInfo())
	if s.takeUnconfirmed(want.Name) || created {
		return true, nil
	}
	have := stream.CachedInfo().Config
	fields := streamDiff(have, want)
	if len(fields) == 0 || newer(have.Metadata) {
		return false, nil
	}
	want.FirstSeq = have.FirstSeq
	return false, differs(ctx, want, fields)
}

// deletionTakes is how long a server may continue to remove the files of a stream or consumer that
// it no longer reports. A stream or consumer created under the same name during this time loses its
// files. It works until the server restarts and then disappears (nats-server 2.15.2).
const deletionTakes = time.Second

// createStream creates a missing stream and reports whether it did. Of several concurrent calls in
// this process, only one creates the stream.
func (s *Streams) createStream(ctx context.Context, want jetstream.StreamConfig) (stream jetstream.Stream, created bool, err error) {
	release, err := s.oneCreates(ctx)
	if err != nil {
		return nil, false, err
	}
	defer release()
	if s.wasSeen(want) {
		if stream, err = s.admin.js.Stream(ctx, want.Name); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return stream, false, err
		}
		if err := Wait(ctx, deletionTakes); err != nil {
			return nil, false, err
		}
	}
	want.FirstSeq = s.firstSequence(want, time.Now())
	stream, err = s.admin.js.CreateStream(ctx, want)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		stream, err = s.admin.js.Stream(ctx, want.Name) // another replica created it
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, false, errBeingCreated
		}
		return stream, false, err
	}
	if CutOff(err) {
		s.mu.Lock()
		s.unconfirmed[want.Name] = true
		s.mu.Unlock()
	}
	return stream, err == nil, wrapf(explainReplicas(err, s.replicas), "cannot be created")
}

// takeUnconfirmed reports whether this process asked to create a stream and got no answer. If the
// stream now exists, this process counts as its creator. takeUnconfirmed returns true only once.
func (s *Streams) takeUnconfirmed(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	unconfirmed := s.unconfirmed[name]
	delete(s.unconfirmed, name)
	return unconfirmed
}

// oneCreates waits until no other goroutine of this process is creating a stream.
func (s *Streams) oneCreates(ctx context.Context) (release func(), err error) {
	select {
	case s.creating <- struct{}{}:
		return func() { <-s.creating }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// firstSequence returns the first sequence of a new stream. An ack identifies its message only by
// stream, consumer and sequence. The streams of requests and work items therefore start at the
// current time in microseconds. Their sequences never repeat, and a late ack for a lost stream
// cannot match another job's item. The log starts at 1, because its last sequence reveals lost
// events.
func (s *Streams) firstSequence(want jetstream.StreamConfig, now time.Time) uint64 {
	if slices.Contains([]string{s.admin.names.Requests(), s.admin.names.Work(), s.admin.names.Wait()}, want.Name) {
		return uint64(now.UnixMicro())
	}
	return want.FirstSeq
}

// logDifference logs how a stream differs, unless its last log entry reported the same difference.
func (s *Streams) logDifference(_ context.Context, want jetstream.StreamConfig, fields []string) error {
	difference := strings.Join(fields, ", ")
	s.mu.Lock()
	before := s.logged[want.Name] == difference
	s.logged[want.Name] = difference
	s.mu.Unlock()
	if !before {
		s.admin.log.Warn("stream settings differ, applied at next start", "stream", want.Name, "changes", fields)
	}
	return nil
}

func (s *Streams) updateStream(ctx context.Context, want jetstream.StreamConfig, fields []string) error {
	down, _ := s.admin.reads.link.state.now()
	stream, err := s.admin.js.UpdateStream(ctx, want)
	if err != nil {
		return fmt.Errorf("change stream %s from %s: %w", want.Name, strings.Join(fields, ", "), err)
	}
	s.admin.reads.unreplicated.learn(down, stream.CachedInfo())
	s.admin.log.Info("updated stream", "stream", want.Name, "changes", fields)
	return nil
}

func explainReplicas(err error, replicas int) error {
	if err != nil && replicas > 1 {
		return fmt.Errorf("%w (nats.replicas is %d; the cluster needs at least as many servers with JetStream)", err, replicas)
	}
	return err
}
