package consumer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/test/faultinject"
)

// TestBrokerUnavailableForLongerThanAckWait proves that a replica resumes all held jobs after an
// outage longer than AckWait, without a second create or call and without unknown outcomes.
func TestBrokerUnavailableForLongerThanAckWait(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]faultinject.CutMode{"reset": faultinject.Reset, "silent": faultinject.Blackhole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link, through, direct := linked(t)
			up := newSlowUpstream(t)
			cfg := testConfig(t, up.url)
			l := directLog(t, direct, cfg)
			r := newReplica(t, through, cfg)
			const videos = 10
			ids := inFlight(t, direct, l, up, videos)

			link.Cut(mode)
			// The test is about time: longer than AckWait, and than a running extension.
			if err := broker.Wait(t.Context(), cfg.Routes[0].AckWait*5/4); err != nil {
				t.Fatal(err)
			}
			reads := up.number(func() int { return up.reads })
			link.Heal()
			shortly(t, "everything was delivered again", func() bool { return redelivered(t, direct) == videos+1 })
			shortly(t, "polls go on", func() bool { return up.number(func() int { return up.reads }) > reads+2*videos })
			if n := heldJobs(r.holder); n != videos+1 {
				t.Errorf("%d jobs are held, want %d", n, videos+1)
			}
			close(up.done)
			allCompleted(t, direct, l, ids)
			up.askedOnce(t, videos, 1)
			shortly(t, "nothing is held", func() bool { return heldJobs(r.holder) == 0 })
		})
	}
}

// TestForeignAcksChangeNothing proves that foreign acknowledgements of held messages, and of other
// deliveries, neither end a job twice nor repeat a request.
func TestForeignAcksChangeNothing(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"-NAK", `-NAK {"delay":1000000}`, "+WPI", "+TERM", "+ACK", "+NXT"} {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			b, up := brokertest.Single(t), newSlowUpstream(t)
			r := newReplica(t, b, testConfig(t, up.url))
			const videos = 4
			ids := inFlight(t, b, r.log, up, videos)
			for _, reply := range replies(r.holder) {
				for _, subj := range []string{reply, nextConsumerSequence(t, reply)} {
					for range 3 {
						if err := b.Conn().Publish(subj, []byte(verb)); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if err := b.Conn().Flush(); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(verb, "-NAK") {
				shortly(t, "they are delivered again", func() bool { return redelivered(t, b) > 0 })
			}
			reads := up.number(func() int { return up.reads })
			shortly(t, "polls go on", func() bool { return up.number(func() int { return up.reads }) > reads+2*videos })
			close(up.done)
			allCompleted(t, b, r.log, ids)
			up.askedOnce(t, videos, 1)
		})
	}
}

func replies(h *hold.Holder) (out []string) {
	h.Each(func(j hold.Held) { out = append(out, j.Job().Message.Delivery().Reply()) })
	return out
}

// nextConsumerSequence returns the reply subject of another delivery:
// $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>.
func nextConsumerSequence(t testing.TB, reply string) string {
	t.Helper()
	m, err := jetstreamMeta(reply)
	if err != nil {
		t.Fatal(err)
	}
	tokens := strings.Split(reply, ".")
	at := len(tokens) - 3
	if len(tokens) > 9 { // with a domain, an account and a random token
		at = 8
	}
	if tokens[at] != fmt.Sprint(m.Sequence.Consumer) {
		t.Fatalf("%s: token %d is not %d", reply, at, m.Sequence.Consumer)
	}
	tokens[at] = fmt.Sprint(m.Sequence.Consumer + 1)
	return strings.Join(tokens, ".")
}

func jetstreamMeta(reply string) (*nats.MsgMetadata, error) {
	return (&nats.Msg{Reply: reply, Sub: &nats.Subscription{}}).Metadata()
}

// TestCancelEndsPollsAndCalls proves that a cancel stops the polls of a video and closes the
// connection of a chat's call.
func TestCancelEndsPollsAndCalls(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSlowUpstream(t)
	r := newReplica(t, b, testConfig(t, up.url))
	ids := inFlight(t, b, r.log, up, 2)
	for _, id := range []string{ids[0], ids[2]} {
		doneOnce(t, b, cancelJob(t, r.log, last(follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS))))
	}
	shortly(t, "the call is closed", func() bool { return up.number(func() int { return up.cut }) == 1 })
	shortly(t, "one job is held", func() bool { return heldJobs(r.holder) == 1 })
	polls := func(id string) int { return up.number(func() int { return up.polls[id] }) }
	cancelled, other := polls(ids[0]), polls(ids[1])
	shortly(t, "the other is polled on", func() bool { return polls(ids[1]) >= other+10 })
	if n := polls(ids[0]); n > cancelled+1 { // a poll that the cancel cut off may be counted late
		t.Errorf("the cancelled task was polled %d times more", n-cancelled)
	}
	close(up.done)
	allCompleted(t, b, r.log, ids[1:2])
	up.askedOnce(t, 2, 1)
}
