package broker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/streamread"
	"github.com/genbus/genbus/internal/subject"
)

// requests collects the requests on an API subject.
type requests struct {
	b     *broker.Broker
	found chan *nats.Msg
}

func requestsOn(t testing.TB, b *broker.Broker, api string) requests {
	t.Helper()
	r := requests{b: b, found: make(chan *nats.Msg, 4096)}
	sub, err := b.Conn().ChanSubscribe(api, r.found)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() }) // a closed connection has none
	r.count(t)
	return r
}

// count returns the number of requests so far. The flush makes sure that all earlier ones have
// arrived.
func (r requests) count(t testing.TB) int {
	t.Helper()
	if err := r.b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	return len(r.found)
}

func shortly(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for !is() {
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// ofLeader reads a message from the leader of its stream.
func ofLeader(t testing.TB, b *broker.Broker, stream string, r streamread.Request) (broker.Stored, error) {
	t.Helper()
	body, err := r.Encode()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := b.Conn().RequestWithContext(t.Context(), streamread.Subject(stream), body)
	if err != nil {
		t.Fatal(err)
	}
	return streamread.Decode(reply.Data)
}

// TestReadsAreTheLeaders proves that every kind of read returns the leader's result, and that only
// reads that find a message on an unreplicated stream bypass the leader.
func TestReadsAreTheLeaders(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		n := b.Names()
		stream, other := n.Work(), n.WorkItem(subject.Chat, "r", "t", "other")
		mine := n.WorkItem(subject.Chat, "r", "t", "mine")
		strange := msg(mine, "", "with headers")
		strange.Header = nats.Header{"Nats-Sequence": {"7"}, "Status": {"404"}, "a": {"1", "2"}}
		put(t, b, &nats.Msg{Subject: n.WorkItem(subject.Video, "r", "t", "x")})
		last := put(t, b, strange)
		first := put(t, b, &nats.Msg{Subject: other, Data: []byte("bare")})
		state, err := b.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		single := state.CachedInfo().Config.Replicas == 1
		for _, tt := range []struct {
			name string
			get  func(context.Context) (broker.Stored, error)
			want streamread.Request
			// direct reports whether a direct get may answer.
			direct bool
		}{
			{"a sequence", func(ctx context.Context) (broker.Stored, error) { return b.At(ctx, stream, first) }, streamread.At(first), true},
			{"a sequence without a message", func(ctx context.Context) (broker.Stored, error) { return b.At(ctx, stream, first+1) }, streamread.At(first + 1), false},
			{"the last of a subject", func(ctx context.Context) (broker.Stored, error) { return b.Last(ctx, stream, other) }, streamread.Last(other), true},
			{"of a job on whichever route", func(ctx context.Context) (broker.Stored, error) {
				return b.Last(ctx, stream, n.WorkAnyRoute(subject.Chat, "t", "other"))
			}, streamread.Last(n.WorkAnyRoute(subject.Chat, "t", "other")), true},
			{"of all", func(ctx context.Context) (broker.Stored, error) { return b.Last(ctx, stream, ">") }, streamread.Last(">"), true},
			{"of no job", func(ctx context.Context) (broker.Stored, error) {
				return b.Last(ctx, stream, n.WorkAnyRoute(subject.Chat, "t", "none"))
			}, streamread.Last(n.WorkAnyRoute(subject.Chat, "t", "none")), false},
			{"with headers of the server's", func(ctx context.Context) (broker.Stored, error) { return b.At(ctx, stream, last) }, streamread.At(last), false},
			{"the next one", func(ctx context.Context) (broker.Stored, error) {
				return b.Next(ctx, stream, n.WorkRoutePattern(subject.Chat, "r"), last+1)
			}, streamread.Next(n.WorkRoutePattern(subject.Chat, "r"), last+1), true},
			{"the first one", func(ctx context.Context) (broker.Stored, error) {
				return b.Next(ctx, stream, n.WorkRoutePattern(subject.Video, "r"), 0)
			}, streamread.Next(n.WorkRoutePattern(subject.Video, "r"), 0), true},
			{"what is mostly not there", func(ctx context.Context) (broker.Stored, error) { return b.Probe(ctx, stream, other) }, streamread.Last(other), false},
		} {
			want, wantErr := ofLeader(t, b, stream, tt.want)
			leader := requestsOn(t, b, streamread.Subject(stream))
			got, err := tt.get(t.Context())
			if !errors.Is(err, wantErr) || wantErr == nil && err != nil {
				t.Errorf("%s: %v, want %v", tt.name, err, wantErr)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: (-leader +got)\n%s", tt.name, diff)
			}
			if asked := leader.count(t) > 0; asked == (single && tt.direct) {
				t.Errorf("%s: the leader was asked: %t", tt.name, asked)
			}
		}
	})
}

// TestAMirrorIsNotBelieved proves that a mirror's answer to a direct get is ignored, because it may
// lag.
func TestAMirrorIsNotBelieved(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	stream, subj := b.Names().Tasks(), b.Names().Task(subject.Chat, "t", "job")
	put(t, b, msg(subj, "", "old"))
	mirror, err := b.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "MIRROR", Mirror: &jetstream.StreamSource{Name: stream}})
	if err != nil {
		t.Fatal(err)
	}
	if !mirror.CachedInfo().Config.MirrorDirect {
		t.Fatal("the mirror does not answer for its origin, and nothing is tested")
	}
	gone := put(t, b, msg(subj, "", "new"))
	shortly(t, "the mirror has it", func() bool { info, err := mirror.Info(t.Context()); return err == nil && info.State.LastSeq == gone })
	if err := mirror.DeleteMsg(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	leader := requestsOn(t, b, streamread.Subject(stream))
	for range 200 {
		if m, err := b.Last(t.Context(), stream, subj); err != nil || string(m.Data) != "new" {
			t.Fatalf("the last message is %q, %v", m.Data, err)
		}
		if m, err := b.At(t.Context(), stream, gone); err != nil || string(m.Data) != "new" {
			t.Fatalf("message %d is %q, %v", gone, m.Data, err)
		}
	}
	if leader.count(t) == 0 {
		t.Error("the mirror was never asked")
	}
}

// TestAStreamInAClusterIsReadFromItsLeader proves that a direct get is not used in a cluster, even
// for a single replica, because an operator may add more.
func TestAStreamInAClusterIsReadFromItsLeader(t *testing.T) {
	t.Parallel()
	b := brokertest.NewCluster(t).Open(t)
	stream, err := b.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "SCALED", Subjects: []string{"scaled"}, Replicas: 1, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, replicas := range []int{1, 3} {
		config := stream.CachedInfo().Config
		config.Replicas = replicas
		if stream, err = b.JetStream().UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Stream(t.Context(), "SCALED"); err != nil {
			t.Fatal(err)
		}
		var seq uint64
		shortly(t, "a leader", func() bool { // during its election
			ack, err := b.Publish(t.Context(), msg("scaled", "", "m"))
			seq = ack.Seq
			return err == nil
		})
		direct := requestsOn(t, b, "$JS.API.DIRECT.GET.SCALED")
		if m, err := b.Last(t.Context(), "SCALED", "scaled"); err != nil || m.Seq != seq {
			t.Errorf("%d replicas: read %d, %v, want %d", replicas, m.Seq, err, seq)
		}
		if n := direct.count(t); n > 0 {
			t.Errorf("%d replicas: %d direct gets", replicas, n)
		}
	}
}

// TestAStreamThatIsLost proves that a read from a deleted stream fails with ErrUnavailable.
func TestAStreamThatIsLost(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	put(t, b, msg(b.Names().Task(subject.Chat, "t", "job"), "", "m"))
	if err := b.JetStream().DeleteStream(t.Context(), b.Names().Tasks()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Last(t.Context(), b.Names().Tasks(), ">"); !errors.Is(err, broker.ErrUnavailable) {
		t.Errorf("of a lost stream: %v", err)
	}
}
