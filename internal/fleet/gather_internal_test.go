package fleet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// TestALostReplicaIsWaitedForShorter checks that a replica that did not answer twice gets less
// time, until it answers or announces itself again.
func TestALostReplicaIsWaitedForShorter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Self: "me"})
		note := func(id string) { m.note(id, nats.Header{}) }
		// ask makes the replicas answer after the given times, and returns how long asking took.
		ask := func(answers map[string]time.Duration) (took time.Duration, silent int) {
			inbox := make(chan *nats.Msg, len(answers))
			for id, after := range answers {
				data, err := proto.Marshal(&genbusv1.ReplicaState{Id: id})
				if err != nil {
					t.Fatal(err)
				}
				time.AfterFunc(after, func() { inbox <- &nats.Msg{Data: data} })
			}
			begin := time.Now()
			_, missed := m.gather(t.Context(), m.others(), func(ctx context.Context) (*nats.Msg, error) {
				select {
				case msg := <-inbox:
					return msg, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})
			return time.Since(begin), len(missed)
		}
		expect := func(what string, answers map[string]time.Duration, want time.Duration, missed int) {
			t.Helper()
			if took, silent := ask(answers); took != want || silent != missed {
				t.Errorf("%s: %d are silent after %s; want %d after %s", what, silent, took, missed, want)
			}
		}
		const slow = 500 * time.Millisecond
		note("a")
		note("b")
		expect("all answer", map[string]time.Duration{"a": 0, "b": slow}, slow, 0)
		for range maxMissed {
			expect("b is lost", map[string]time.Duration{"a": 0}, patience, 1)
		}
		expect("b is known to be lost", map[string]time.Duration{"a": 0}, lostPatience, 1)
		expect("a has a second as before", map[string]time.Duration{"a": slow}, slow, 1)
		expect("b answers", map[string]time.Duration{"a": 0, "b": lostPatience / 2}, leastAsk, 0)
		for range maxMissed {
			expect("b has a second", map[string]time.Duration{"a": 0}, patience, 1)
		}
		note("b")
		expect("b announced itself", map[string]time.Duration{"a": 0, "b": slow}, slow, 0)
		time.AfterFunc(slow, func() { m.note("b", nats.Header{headerLeaving: []string{"true"}}) })
		expect("b leaves without an answer", map[string]time.Duration{"a": 0}, patience, 0)
		note("b")
		// A caller that leaves early says nothing about the replicas.
		ctx, leave := context.WithCancel(t.Context())
		leave()
		for range maxMissed {
			m.gather(ctx, m.others(), func(ctx context.Context) (*nats.Msg, error) { return nil, ctx.Err() })
		}
		expect("after callers that left", map[string]time.Duration{"a": slow, "b": slow}, slow, 0)
	})
}
