package consumer

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// limitedServer starts a server outside of genbus's process, with the given max_payload.
func limitedServer(t *testing.T, maxPayload int32) (*server.Server, *server.Options, *broker.Broker) {
	t.Helper()
	o := &server.Options{ServerName: "limited", JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 512 << 20, JetStreamMaxStore: 100 << 30, MaxPayload: maxPayload}
	s := brokertest.Serve(t, o)
	return s, o, brokertest.Open(t, broker.Options{Names: subject.Default(), URL: s.ClientURL(), Logger: brokertest.Logger(t)})
}

// repliesOf starts a chat upstream that replies with size bytes of text, and counts its calls.
func repliesOf(t *testing.T, size int, before func()) (url string, calls *atomic.Int64, reply string) {
	t.Helper()
	calls = new(atomic.Int64)
	reply = fmt.Sprintf(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`,
		strings.Repeat("sea ", size/4))
	return scripted(t, map[string]http.HandlerFunc{"POST /v1/chat/completions": func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		before()
		respond("%s", reply)(w, r)
	}}), calls, reply
}

// TestAReplyThatNATSRefusesIsInItsDeadLetter proves that the dead letter has the paid reply if the
// account cannot create an object store, or its digest if the reply exceeds a message until the
// deadline.
func TestAReplyThatNATSRefusesIsInItsDeadLetter(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"kept": 300 << 10, "kept with a long request": 300 << 10, "digest": 2 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			payload, request := int32(1<<20), chatRequest("c", "sandbox-chat", false)
			if name == "kept with a long request" {
				payload = 8 << 20
				request.GetChat().Messages[0].Content = &genbusv1.ChatMessage_Text{Text: strings.Repeat("sea ", 100<<10)}
			}
			s, _, b := limitedServer(t, payload)
			limits := server.JetStreamAccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: len(b.Streams().Configs()), MaxConsumers: -1}
			if err := s.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": limits}); err != nil {
				t.Fatal(err)
			}
			url, calls, reply := repliesOf(t, size, func() {})
			r := newReplica(t, b, testConfig(t, url, func(c *config.Config) {
				c.Chat.MaxAttempts, c.Limits.ClaimCheckBytes = 1, config.MiB
				for i := range c.Routes {
					if c.Routes[i].Kind == config.KindChat {
						c.Routes[i].Timeouts.Total = 3 * time.Second
					}
				}
			}))
			end := last(follow(t, r.log, publish(t, b, subject.Chat, "c", request)))
			if end.Job.GetError().GetCode() != "reply_not_stored" || !strings.Contains(end.Job.GetError().GetMessage(), "maximum number of streams") {
				t.Errorf("ended %v", end.Job.GetError())
			}
			letters := deadLetters(t, b)
			if len(letters) != 1 || calls.Load() != 1 {
				t.Fatalf("%d dead letters after %d calls", len(letters), calls.Load())
			}
			l, sum := letters[0], sha256.Sum256([]byte(reply))
			switch cut := l.GetReplyCut(); {
			case len(l.GetData()) == 0:
				t.Error("the dead letter has no request")
			case name != "digest" && (string(l.GetReply()) != reply || cut != nil):
				t.Errorf("the dead letter has %d bytes of the reply", len(l.GetReply()))
			case name == "digest" && (l.GetReply() != nil || cut.GetSize() != uint64(len(reply)) || !bytes.Equal(cut.GetSha256(), sum[:])):
				t.Errorf("the dead letter has %v", cut)
			}
			doneOnce(t, b, end)
		})
	}
}

// TestALongReplyFitsIntoWhatNATSTakes proves that a reply goes to the object store, after a single
// call, if max_payload is small or becomes small during the call.
func TestALongReplyFitsIntoWhatNATSTakes(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]struct{ first, then int32 }{"always small": {64 << 10, 64 << 10}, "smaller than before": {8 << 20, 64 << 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, o, b := limitedServer(t, at.first)
			url, calls, reply := repliesOf(t, 200<<10, func() {
				if at.then == at.first {
					return
				}
				again := o.Clone()
				again.Port, again.MaxPayload = s.Addr().(*net.TCPAddr).Port, at.then
				s.Shutdown()
				s.WaitForShutdown()
				restarted, err := server.NewServer(again)
				if err != nil {
					t.Error(err)
					return
				}
				restarted.Start()
				t.Cleanup(restarted.Shutdown)
			})
			r := newReplica(t, b, testConfig(t, url))
			end := last(follow(t, r.log, publish(t, b, subject.Chat, "c", chatRequest("c", "sandbox-chat", false))))
			chat, _ := end.Job.(*genbusv1.Chat)
			if chat.GetReplyRef() == nil || calls.Load() != 1 {
				t.Fatalf("ended %v %v after %d calls", end.Job.GetStatus(), end.Job.GetError(), calls.Load())
			}
			if got := intact(t, r, chat.GetReplyRef()); string(got) != reply {
				t.Errorf("the reply has %d bytes", len(got))
			}
			doneOnce(t, b, end)
		})
	}
}
