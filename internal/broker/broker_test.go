package broker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

func msg(subj, id, data string) *nats.Msg {
	m := nats.NewMsg(subj)
	m.Data = []byte(data)
	if id != "" {
		m.Header.Set(jetstream.MsgIDHeader, id)
	}
	return m
}

func TestPublishExpecting(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, ctx := open(t), t.Context()
		subj := b.Names().Task(subject.Video, "t", "i")
		ack, err := b.PublishExpecting(ctx, broker.Jobs, msg(subj, "a", "1"), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.PublishExpecting(ctx, broker.Jobs, msg(subj, "b", "2"), 0); !errors.Is(err, broker.ErrWrongSequence) && !errors.Is(err, broker.ErrInFlight) {
			t.Errorf("a stale write gave %v", err)
		}
		got, err := b.Last(ctx, b.Names().Tasks(), subj)
		if err != nil || got.Seq != ack.Seq || string(got.Data) != "1" || got.Header.Get(jetstream.MsgIDHeader) != "a" {
			t.Errorf("Last = %+v, %v", got, err)
		}
	})
}

// TestRacingWritersOneWins proves the rule behind every state change: of concurrent writers with
// the same expected sequence, one succeeds.
func TestRacingWritersOneWins(t *testing.T) {
	t.Parallel()
	brokertest.EachCAS(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		brokers := []*broker.Broker{open(t), open(t)}
		const writers, rounds = 8, 25
		subj := brokers[0].Names().Task(subject.Video, "t", "race")
		var last uint64
		for round := range rounds {
			var wg sync.WaitGroup
			acks := make(chan uint64, writers)
			for w := range writers {
				wg.Go(func() {
					m := msg(subj, strings.Repeat("x", round+1)+string(rune('a'+w)), "r")
					ack, err := brokers[w%2].PublishExpecting(t.Context(), broker.Jobs, m, last)
					if err == nil && !ack.Duplicate {
						acks <- ack.Seq
					}
				})
			}
			wg.Wait()
			close(acks)
			var won []uint64
			for seq := range acks {
				won = append(won, seq)
			}
			if len(won) != 1 {
				t.Fatalf("round %d: %d writers won", round, len(won))
			}
			last = won[0]
		}
	})
}

func TestWorkHoldsOneMessageForEachSubject(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, ctx := open(t), t.Context()
		subj := b.Names().WorkItem(subject.Video, "r", "t", "i")
		if _, err := b.Publish(ctx, msg(subj, "", "1")); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Publish(ctx, msg(subj, "", "2")); !errors.Is(err, broker.ErrFull) {
			t.Errorf("the second item gave %v", err)
		}
		got, err := b.Last(ctx, b.Names().Work(), b.Names().WorkAnyRoute(subject.Video, "t", "i"))
		if err != nil || string(got.Data) != "1" || got.Subject != subj {
			t.Errorf("Last = %+v, %v", got, err)
		}
		if _, err := b.Last(ctx, b.Names().Work(), b.Names().WorkAnyRoute(subject.Video, "t", "other")); !errors.Is(err, broker.ErrNoMessage) {
			t.Errorf("a missing item gave %v", err)
		}
	})
}

func TestPublishClassifiesRefusals(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	if _, err := b.Publish(t.Context(), msg("genbus.nobody", "", "1")); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("no stream gave %v", err)
	}
	big := nats.NewMsg(b.Names().Chunk("t", "i"))
	big.Data = make([]byte, 9<<20)
	if _, err := b.Publish(t.Context(), big); !errors.Is(err, broker.ErrTooLarge) {
		t.Errorf("9 MiB gave %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Publish(ctx, msg(b.Names().Chunk("t", "i"), "", "1")); err != nil && !errors.Is(err, broker.ErrNoAnswer) { // nil if the ack came first
		t.Errorf("an ended context gave %v", err)
	}
}

// TestAPublishWaitsForItsStream proves that a publish is retried until a stream listens, as during
// an election.
func TestAPublishWaitsForItsStream(t *testing.T) {
	t.Parallel()
	b, ctx := brokertest.Single(t), t.Context()
	answers, stored := b.WriteConn().Stats().InMsgs, make(chan error, 1)
	go func() {
		_, err := b.Publish(ctx, msg("late.stream", "", "1"))
		stored <- err
	}()
	for b.WriteConn().Stats().InMsgs == answers { // only the 503 of the publish arrives here
		if err := broker.Wait(ctx, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.JetStream().CreateStream(ctx, jetstream.StreamConfig{Name: "LATE", Subjects: []string{"late.*"}}); err != nil {
		t.Fatal(err)
	}
	if err := <-stored; err != nil {
		t.Error(err)
	}
}

func TestEnsureStreamsNamesWhatCannotChange(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	ctx := t.Context()
	js := b.JetStream()
	if err := js.DeleteStream(ctx, b.Names().Dead()); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: b.Names().Dead(), Subjects: []string{b.Names().DeadPattern()}, Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	err := b.Streams().Ensure(ctx)
	if err == nil || !strings.Contains(err.Error(), "storage Memory to File") || !strings.Contains(err.Error(), b.Names().Dead()) {
		t.Errorf("got %v", err)
	}
}

func TestLowerRevisionChangesNothing(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	ctx := t.Context()
	s, err := b.JetStream().Stream(ctx, b.Names().Dead())
	if err != nil {
		t.Fatal(err)
	}
	newer := s.CachedInfo().Config
	newer.MaxBytes = 12345678
	newer.Metadata = map[string]string{subject.MetadataRevision: "999"}
	if _, err := b.JetStream().UpdateStream(ctx, newer); err != nil {
		t.Fatal(err)
	}
	if err := b.Streams().Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(ctx)
	if err != nil || info.Config.MaxBytes != 12345678 {
		t.Errorf("max_bytes %d, %v", info.Config.MaxBytes, err)
	}
}

// TestReconnectChangesNoSettings proves that the streams keep the settings of the replica that
// started last, and that a reconnect of another replica logs the difference once.
func TestReconnectChangesNoSettings(t *testing.T) {
	t.Parallel()
	url := brokertest.Alone(t).ClientURL()
	var said bytes.Buffer
	first := brokertest.Open(t, broker.Options{
		Names: subject.Default(), URL: url, Logger: slog.New(slog.NewTextHandler(&said, nil)),
		Limits: broker.Limits{TasksMaxAge: 24 * time.Hour, TasksMaxBytes: 1 << 20},
	})
	reconnected := make(chan struct{})
	first.OnReconnect(func(context.Context) { reconnected <- struct{}{} })
	second := brokertest.Open(t, broker.Options{
		Names: subject.Default(), URL: url, Logger: brokertest.Logger(t),
		Limits: broker.Limits{TasksMaxAge: 48 * time.Hour, TasksMaxBytes: 2 << 20},
	})
	dead := second.Names().Dead()
	for range 3 {
		if err := errors.Join(second.JetStream().DeleteStream(t.Context(), dead), first.Conn().ForceReconnect()); err != nil {
			t.Fatal(err)
		}
		<-reconnected
		s, err := second.Stream(t.Context(), second.Names().Tasks())
		if err != nil {
			t.Fatal(err)
		}
		if cfg := s.CachedInfo().Config; cfg.MaxAge != 48*time.Hour || cfg.MaxBytes != 2<<20 {
			t.Errorf("after a reconnect: max_age %s, max_bytes %d", cfg.MaxAge, cfg.MaxBytes)
		}
		if _, err := second.Stream(t.Context(), dead); err != nil {
			t.Errorf("a stream that was missing: %v", err)
		}
	}
	if n := strings.Count(said.String(), "stream settings differ"); n != 1 || !strings.Contains(said.String(), "max_age 48h0m0s to 24h0m0s") {
		t.Errorf("said %d times: %s", n, said.String())
	}
}

// TestObjectStoresAreAsTheConfigurationSays proves that a start applies the TTL and the replicas to
// existing object stores of genbus and to no others.
func TestObjectStoresAreAsTheConfigurationSays(t *testing.T) {
	t.Parallel()
	t.Run("TTL", func(t *testing.T) {
		t.Parallel()
		checkObjectStores(t, brokertest.Alone(t).ClientURL(), 1, time.Hour)
	})
	t.Run("copies", func(t *testing.T) {
		t.Parallel()
		checkObjectStores(t, brokertest.NewCluster(t).Servers[0].ClientURL(), 3, 48*time.Hour)
	})
}

func checkObjectStores(t *testing.T, url string, copies int, ttl time.Duration) {
	t.Helper()
	open := func(copies int, ttl time.Duration) *broker.Broker {
		return brokertest.Open(t, broker.Options{
			Names: subject.Default(), URL: url, Logger: brokertest.Logger(t), Replicas: copies, Limits: broker.Limits{TasksMaxAge: ttl},
		})
	}
	before := open(1, 24*time.Hour)
	bodies := broker.NewBodies(before)
	for _, tenant := range []string{"acme", "globex"} {
		if _, err := bodies.Put(t.Context(), tenant, "body", noise(10)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := before.JetStream().CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "others", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	open(copies, ttl)
	for store, want := range map[string]jetstream.StreamConfig{
		before.Names().Bodies("acme"): {Replicas: copies, MaxAge: ttl}, before.Names().Bodies("globex"): {Replicas: copies, MaxAge: ttl},
		"others": {Replicas: 1, MaxAge: time.Hour},
	} {
		s, err := before.JetStream().Stream(t.Context(), "OBJ_"+store)
		if err != nil {
			t.Fatal(err)
		}
		if have := s.CachedInfo().Config; have.Replicas != want.Replicas || have.MaxAge != want.MaxAge {
			t.Errorf("%s has %d copies and a TTL of %s", store, have.Replicas, have.MaxAge)
		}
	}
}

func TestMissingLogBesideWorkIsRefused(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	ctx := t.Context()
	if _, err := b.Publish(ctx, msg(b.Names().WorkItem(subject.Video, "r", "t", "i"), "", "1")); err != nil {
		t.Fatal(err)
	}
	if err := b.JetStream().DeleteStream(ctx, b.Names().Tasks()); err != nil {
		t.Fatal(err)
	}
	if err := b.Streams().Ensure(ctx); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("got %v", err)
	}
}

// TestEveryLostStreamIsCounted proves that lost streams on disk are recreated and counted, and that
// the first start counts none.
func TestEveryLostStreamIsCounted(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		all := b.Streams().Configs()
		if full, _ := brokertest.InFull(); !full { // one second each
			all = slices.DeleteFunc(all, func(s jetstream.StreamConfig) bool {
				return !slices.Contains([]string{b.Names().Tasks(), b.Names().Work(), b.Names().Chunks()}, s.Name)
			})
		}
		for _, s := range all {
			if n := b.Streams().Recreated(s.Name); n != 0 {
				t.Errorf("%s: %d at the start", s.Name, n)
			}
			if err := b.JetStream().DeleteStream(t.Context(), s.Name); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Streams().CreateMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			want := 1
			if s.Storage == jetstream.MemoryStorage {
				want = 0
			}
			if n := b.Streams().Recreated(s.Name); n != want {
				t.Errorf("%s: counted %d times, want %d", s.Name, n, want)
			}
		}
	})
}

// TestAnUnusableDataDirectoryIsNamed proves that an error about files in the data directory names the
// setting. The files stand for some that genbus may not write, which root may write in a test.
func TestAnUnusableDataDirectoryIsNamed(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir string) error{
		"the directory": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"the lock":      func(dir string) error { return os.MkdirAll(filepath.Join(dir, "genbus.lock"), 0o700) },
		"the store": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600))
		},
	} {
		o := broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), Embedded: broker.Embedded{DataDir: filepath.Join(t.TempDir(), "data"), NoSync: true}}
		if err := spoil(o.Embedded.DataDir); err != nil {
			t.Fatal(err)
		}
		if _, err := broker.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "nats.data_dir (GENBUS_DATA_DIR): ") || !strings.Contains(err.Error(), o.Embedded.DataDir) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDataDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	o := broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true}}
	b, err := broker.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := broker.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second server on the directory: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := broker.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("after the first has closed: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	ctx := t.Context()
	bodies := broker.NewBodies(b)
	data := bytes.Repeat([]byte("genbus"), 100_000)
	ref, err := bodies.Put(ctx, "acme", "video_1", data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := bodies.Get(ctx, ref)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("got %d bytes, %v", len(got), err)
	}
	damaged := ref
	damaged.SHA256[0]++
	if _, err := bodies.Get(ctx, damaged); !errors.Is(err, broker.ErrBodyLost) {
		t.Errorf("another digest gave %v", err)
	}
	for range 2 {
		if err := bodies.Delete(ctx, ref); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bodies.Get(ctx, ref); !errors.Is(err, broker.ErrBodyLost) {
		t.Errorf("a deleted body gave %v", err)
	}
}

func TestTakenAddressIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	o := broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), Embedded: broker.Embedded{DataDir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true}}
	b, err := broker.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	o.Embedded.DataDir, o.Embedded.Listen = t.TempDir(), strings.TrimPrefix(b.ClientURL(), "nats://")
	if _, err := broker.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "GENBUS_NATS_LISTEN") {
		t.Errorf("got %v", err)
	}
}
