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

// What an attacker sees of an attack. Numbers of JetStream's errors stand behind
// "error", those of direct reads behind "status".
const (
	isRefused   = "refused"      // the server says: permissions violation
	noResponder = "no responder" // nothing listens there in the attacker's account
	isSilence   = "no answer"
	isAnswered  = "answered"
	isSent      = "sent" // allowed; that nothing came of it is what the test checks
	anything    = ""
	isListening = "listening, and hears nothing"
)

// silence is how long an answer that should not come is waited for.
const silence = 300 * time.Millisecond

// waitFor is how long an attacker waits that is to see something.
func waitFor(seen string) time.Duration {
	if seen == isSilence || seen == anything {
		return silence
	}
	return patience
}

// attempt is one attacker at work.
type attempt struct {
	*stage
	t      testing.TB
	nc     *nats.Conn
	wait   time.Duration // for an answer
	gained bytes.Buffer  // all that the attacker was sent
}

// move is one attack. It returns what the attacker sees.
type move func(a *attempt) string

// send publishes; header are names and values by turns.
func send(subj string, header ...string) move { return sendFor("", subj, header...) }

// sendFor publishes and asks for the answer on a subject that is not the
// attacker's.
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

// outcome is refused where the server refused what was just sent.
func (a *attempt) outcome(otherwise string) string {
	switch err := refused(a.nc); {
	case errors.Is(err, errPermission):
		return isRefused
	case err != nil:
		a.t.Fatal(err)
	}
	return otherwise
}

// ask sends a request and waits for an answer.
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

// read says what an answer of JetStream is.
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

// listen subscribes, and lets something of the victim happen.
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
		// What was published is on its way before this is answered.
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

// happen lets the victim be told of an event, and ask for a video.
func (a *attempt) happen() {
	a.t.Helper()
	nc := a.connect(a.t, victim+"-publisher")
	defer nc.Close()
	a.publish(nc, names.Call(subject.Video, victim))
	a.publish(a.origin, names.LiveTask(subject.Video, victim, job))
	a.publish(a.origin, names.LiveChunk(victim, job), "Nats-Expected-Stream", "none") // so that the victim's copy does not grow
	a.trespasses()                                                                    // these were none
}

// readAll makes a consumer as it is written here, and takes all that it has.
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
