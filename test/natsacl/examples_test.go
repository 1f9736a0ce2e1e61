package natsacl_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

// TestTheExamplesWork proves that the examples run unchanged with the users of a tenant and of an
// operator, and are refused as another tenant.
func TestTheExamplesWork(t *testing.T) {
	brokertest.Full(t, "builds the examples")
	t.Parallel()
	n := start(t, deploy(t, local))
	r := run(t, "", n)
	n.provision(t, local, 1)
	app := r.url(local + "-app")

	subscribe := spawn(t, nil, "subscribe", "-nats", app)
	spawn(t, nil, "publish", "-nats", app).wait()
	subscribe.line("completed", "100 %")
	subscribe.stop(syscall.SIGINT)

	chat := spawn(t, nil, "chat", "-nats", app)
	chat.line("chat_")
	chat.line("You wrote")
	chat.wait()

	operator := r.url("administrator")
	spawn(t, nil, "deadletters", "-nats", operator).line("no dead letters")
	id := r.refusedVideo(t)
	await(t, "the dead letter", func() error {
		letters := spawn(t, nil, "deadletters", "-nats", operator)
		defer letters.wait()
		for line := range letters.lines {
			if strings.Contains(line, id) {
				return nil
			}
		}
		return errors.New("is not there")
	})
	r.end()
	for _, example := range []string{"publish", "chat"} {
		p := spawn(t, nil, example, "-nats", app, "-tenant", attacker)
		if err := <-p.ended; err == nil || !strings.Contains(p.stderr.String(), `Permissions Violation for Publish to "genbus.`) {
			t.Errorf("%s as another tenant: %v: %s", example, err, p.stderr)
		}
	}
}

// refusedVideo submits a request that admission refuses, and returns the job ID.
func (r *running) refusedVideo(t *testing.T) string {
	t.Helper()
	js := stream(t, r.connect(t, local+"-publisher"))
	picture := strings.Repeat("x", 300<<10) // puts the dead letter's body into the object store
	m := message(names.Request("video", local), `{"model":"unknown","prompt":"a cat","image":"`+picture+`"}`, []string{"content-type", "application/json", "genbus-request-id", "refused"})
	if _, err := js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	read := stream(t, r.connect(t, local+"-subscriber"))
	name, err := names.ParseDone(r.read(read, "genbus.done.video.default.failed.*", 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	return name.ID
}
