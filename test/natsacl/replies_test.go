package natsacl_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/subject"
)

// TestReplies proves that a request for content may have 17 replies, which are 16 pieces and the
// end, and that every other request has one.
func TestReplies(t *testing.T) {
	t.Parallel()
	n := start(t, deploy(t))
	for name, row := range map[string]struct {
		served, asked string
		want          int
	}{
		"content": {names.Content("*"), names.Content(attacker), 17},
		"get":     {names.Get(subject.Video, "*"), names.Get(subject.Video, attacker), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service, caller := n.connect(t, "service"), n.connect(t, app)
			answered := make(chan struct{})
			_, err := service.QueueSubscribe(row.served, "genbus", func(m *nats.Msg) {
				for range 66 {
					_ = m.Respond([]byte("a piece")) // the server refuses the last one
				}
				close(answered)
			})
			if err := errors.Join(err, service.Flush()); err != nil {
				t.Fatal(err)
			}
			replies, err := caller.SubscribeSync(caller.NewInbox())
			if err := errors.Join(err, caller.PublishRequest(row.asked, replies.Subject, nil)); err != nil {
				t.Fatal(err)
			}
			<-answered
			if err := refused(service); !errors.Is(err, errPermission) {
				t.Errorf("the 66th reply: %v", err)
			}
			if err := caller.FlushTimeout(patience); err != nil {
				t.Fatal(err)
			}
			if got, _, err := replies.Pending(); err != nil || got != row.want {
				t.Errorf("%d replies, want %d (%v)", got, row.want, err)
			}
		})
	}
}
