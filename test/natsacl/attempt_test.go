package natsacl_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/genbus/genbus/internal/subject"
)

// Outcomes that an attacker sees. "error" is followed by a JetStream error code, "status" by the
// status of a direct get.
const (
	isRefused   = "refused"      // the server reports a permissions violation
	noResponder = "no responder" // the attacker's account has no listener there
	isSilence   = "no answer"
	isAnswered  = "answered"
	isSent      = "sent" // allowed; the test checks that it had no effect
	anything    = ""
	isListening = "listening, and hears nothing"
)

// silence is the wait for an answer that should not come.
const silence = 300 * time.Millisecond

func waitFor(seen string) time.Duration {
	if seen == isSilence || seen == anything {
		return silence
	}
	return patience
}

type attempt struct {
	*stage
	t      testing.TB
	nc     *nats.Conn
	wait   time.Duration
	gained bytes.Buffer // all that the attacker received
}

// move runs one attack and returns the outcome that the attacker sees.
type move func(a *attempt) string

// send publishes a message. header alternates names and values.
func send(subj string, header ...string) move { return sendFor("", subj, header...) }

// sendFor publishes a message with any reply subject.
func sendFor(reply, subj string, header ...string) move {
	return func(a *attempt) string {
		m := message(subj, "forged by the attacker", header)
		m.Reply = reply
		if err := a.nc.PublishMsg(m); err != nil {
			a.t.Fatal(err)
		}
		return a.outcome(isSent)
	}
}

func message(subj, data string, header []string) *nats.Msg {
	m := nats.NewMsg(subj)
	m.Data = []byte(data)
	for i := 0; i < len(header); i += 2 {
		m.Header[header[i]] = []string{header[i+1]}
	}
	return m
}

// outcome returns isRefused if the server refused anything on this connection, and otherwise its
// argument.
func (a *attempt) outcome(otherwise string) string {
	switch err := refused(a.nc); {
	case errors.Is(err, errPermission):
		return isRefused
	case err != nil:
		a.t.Fatal(err)
	}
	return otherwise
}

// ask sends a request and waits for the answer.
func ask(subj, data string, header ...string) move {
	return func(a *attempt) string {
		inbox, err := a.nc.SubscribeSync(a.nc.NewInbox())
		if err != nil {
			a.t.Fatal(err)
		}
		m := message(subj, data, header)
		m.Reply = inbox.Subject
		if err := a.nc.PublishMsg(m); err != nil {
			a.t.Fatal(err)
		}
		if seen := a.outcome(""); seen != "" {
			return seen
		}
		answer, err := inbox.NextMsg(a.wait)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return noResponder
		case err != nil:
			return isSilence
		}
		return a.read(answer)
	}
}

func (a *attempt) read(answer *nats.Msg) string {
	a.gain(answer)
	if status := answer.Header.Get("Status"); status != "" {
		return "status " + status
	}
	var api *jetstream.APIError
	if errors.As(apiError(answer.Data), &api) {
		return fmt.Sprintf("error %d", api.ErrorCode)
	}
	return isAnswered
}

func (a *attempt) gain(m *nats.Msg) {
	fmt.Fprintf(&a.gained, "%s %v %s\n", m.Subject, m.Header, m.Data)
}

// listen subscribes and then triggers messages of the victim.
func listen(subj string) move {
	return func(a *attempt) string {
		sub, err := a.nc.SubscribeSync(subj)
		if err != nil {
			a.t.Fatal(err)
		}
		if seen := a.outcome(""); seen != "" {
			return seen
		}
		a.happen()
		// The server answers this after it has sent the messages above.
		if err := a.nc.FlushTimeout(patience); err != nil {
			a.t.Fatal(err)
		}
		for {
			m, err := sub.NextMsg(time.Millisecond)
			if err != nil {
				return isListening
			}
			a.gain(m)
		}
	}
}

// happen publishes a call, a live event and a live chunk of the victim.
func (a *attempt) happen() {
	a.t.Helper()
	nc := a.connect(a.t, victim+"-publisher")
	defer nc.Close()
	a.publish(nc, names.Call(subject.Video, victim))
	a.publish(a.origin, names.LiveTask(subject.Video, victim, job))
	a.publish(a.origin, names.LiveChunk(victim, job), "Nats-Expected-Stream", "none") // keeps it out of the victim's copy
	a.trespasses()                                                                    // discards the messages above
}

// readAll creates a consumer with this configuration and reads all of its messages.
func readAll(name, config string) move {
	return func(a *attempt) string {
		spy := name + "." + nuid.Next()
		_, consumer, _ := strings.Cut(spy, ".")
		seen := ask("$JS.API.CONSUMER.CREATE."+spy, fmt.Sprintf(`{"stream_name":%q,"config":{"name":%q,"ack_policy":"none",%s}}`, name, consumer, config))(a)
		if seen != isAnswered {
			return seen
		}
		inbox, err := a.nc.SubscribeSync(a.nc.NewInbox())
		if err != nil {
			a.t.Fatal(err)
		}
		if err := a.nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+spy, inbox.Subject, []byte(`{"batch":100,"no_wait":true}`)); err != nil {
			a.t.Fatal(err)
		}
		n := 0
		for {
			m, err := inbox.NextMsg(a.wait)
			if err != nil || strings.HasPrefix(m.Header.Get("Status"), "4") {
				return fmt.Sprintf("%d messages", n)
			}
			a.gain(m)
			n++
		}
	}
}
