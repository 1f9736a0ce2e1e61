package broker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// TestARestoredConsumerTakesChanges proves that a restored durable consumer accepts updates.
// Replicas notice a deletion before the server has removed the old consumer's files; without
// deletionTakes, the server would remove the new one's too, and it would accept no change and
// vanish at the next restart.
func TestARestoredConsumerTakesChanges(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		operator, replica := open(t), open(t)
		work := operator.Names().Work()
		want := make([]jetstream.ConsumerConfig, 8)
		for i := range want {
			route := fmt.Sprint("r", i)
			want[i] = jetstream.ConsumerConfig{Durable: route, FilterSubject: operator.Names().WorkRoutePattern(subject.Video, route), AckPolicy: jetstream.AckExplicitPolicy}
			if _, err := operator.Streams().EnsureConsumer(t.Context(), work, want[i]); err != nil {
				t.Fatal(err)
			}
		}
		restored := make(chan error)
		var watched sync.WaitGroup
		for _, c := range want {
			watched.Add(1)
			go func() {
				first, err := replica.Consumer(t.Context(), work, c.Durable)
				watched.Done()
				for now := first; err == nil && now.CachedInfo().Created.Equal(first.CachedInfo().Created); {
					if now, err = replica.Streams().RestoreConsumer(t.Context(), work, c); broker.Unavailable(err) {
						now, err = first, nil // while servers of a cluster delete it, none of them answers
					}
				}
				restored <- err
			}()
		}
		watched.Wait()
		for _, c := range want {
			if err := operator.JetStream().DeleteConsumer(t.Context(), work, c.Durable); err != nil {
				t.Fatal(err)
			}
		}
		for range want {
			if err := <-restored; err != nil {
				t.Error(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
		defer cancel()
		for _, c := range want {
			if _, err := operator.JetStream().PauseConsumer(ctx, work, c.Durable, time.Now().Add(time.Hour)); err != nil {
				t.Errorf("%s: %v", c.Durable, err)
			}
		}
	})
}

// TestARecreatedStreamOutlivesARestart proves that a stream recreated right after its deletion
// keeps its messages over a restart of the server.
func TestARecreatedStreamOutlivesARestart(t *testing.T) {
	t.Parallel()
	o := broker.Options{Names: subject.Default(), Logger: brokertest.Logger(t), Embedded: broker.Embedded{DataDir: t.TempDir(), Listen: "127.0.0.1:0", NoSync: true}}
	server := brokertest.Open(t, o)
	replica := brokertest.Open(t, broker.Options{Names: o.Names, Logger: o.Logger, URL: server.ClientURL()})
	work := server.Names().Work()
	recreated := make(chan error, 4)
	for range cap(recreated) {
		go func() {
			err := replica.Streams().CreateMissing(t.Context())
			for err == nil && replica.Streams().Recreated(work) == 0 {
				err = replica.Streams().CreateMissing(t.Context())
			}
			recreated <- err
		}()
	}
	if err := server.JetStream().DeleteStream(t.Context(), work); err != nil {
		t.Fatal(err)
	}
	for range cap(recreated) {
		if err := <-recreated; err != nil {
			t.Fatal(err)
		}
	}
	if n := replica.Streams().Recreated(work); n != 1 {
		t.Errorf("the stream is counted %d times", n)
	}
	item := &nats.Msg{Subject: server.Names().WorkItem(subject.Video, "r", "acme", "video_1"), Data: []byte("item")}
	stored, err := server.Publish(t.Context(), item)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(replica.Close(), server.Close()); err != nil {
		t.Fatal(err)
	}
	server = brokertest.Open(t, o)
	if m, err := server.At(t.Context(), work, stored.Seq); err != nil || m.Subject != item.Subject {
		t.Errorf("after the restart the item is %v, %v", m, err)
	}
}

// TestDeadLettersOfRejectedRequestsOutliveACrash proves that dead letters beyond one subject's
// limit, which reappear on disk after a crash, do not evict another tenant's.
func TestDeadLettersOfRejectedRequestsOutliveACrash(t *testing.T) {
	t.Parallel()
	running, crashed := t.TempDir(), t.TempDir()
	o := broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Limits: broker.Limits{RejectedMaxBytes: 4 << 20},
		Embedded: broker.Embedded{DataDir: running, NoSync: true},
	}
	server := brokertest.Open(t, o)
	reject := func(tenant, slot string, size int) string {
		t.Helper()
		m := &nats.Msg{Subject: server.Names().RejectedDeadLetter(subject.Video, tenant, slot), Data: make([]byte, size)}
		if _, err := server.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		return m.Subject
	}
	careful := reject("careful", "0", 100)
	for range broker.RejectedPerSubject * 3 / 2 { // JetStream compacts the file if there are more
		reject("noisy", "large", 70<<10)
	}
	if err := os.CopyFS(crashed, os.DirFS(running)); err != nil {
		t.Fatal(err)
	}
	o.Embedded.DataDir = crashed
	after := brokertest.Open(t, o)
	if _, err := after.Last(t.Context(), after.Names().Rejected(), careful); err != nil {
		t.Errorf("the careful tenant's dead letter: %v", err)
	}
	s, err := after.Stream(t.Context(), after.Names().Rejected())
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 1+broker.RejectedPerSubject {
		t.Errorf("%d dead letters, want the careful tenant's and the last %d of the noisy one", n, broker.RejectedPerSubject)
	}
}
