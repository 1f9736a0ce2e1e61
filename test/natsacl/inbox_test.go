package natsacl_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// The tests in this file prove what docs/nats-security.md lists as still possible for a publisher
// against others in the shared inbox, genbus.request. None of it applies to genbus.call, because no
// stream stores those requests.

func put(t testing.TB, js jetstream.JetStream, tenant string, header ...string) (*jetstream.PubAck, error) {
	t.Helper()
	return js.PublishMsg(t.Context(), message(names.Request(subject.Video, tenant), "{}", header))
}

// newInbox starts a server whose inbox holds this many messages, and returns two publishers.
func newInbox(t testing.TB, places int64) (mine, theirs jetstream.JetStream) {
	t.Helper()
	n := start(t, deploy(t, victim))
	n.ensure(t, broker.Limits{RequestsMaxMsgs: places})
	return stream(t, n.connect(t, publisher)), stream(t, n.connect(t, victim+"-publisher"))
}

// TestTheInboxReportsItsSize proves that a publisher with a wrong expectation is told the right
// sequence or message ID.
func TestTheInboxReportsItsSize(t *testing.T) {
	t.Parallel()
	mine, theirs := newInbox(t, 100)
	expect := func(last string, header ...string) {
		t.Helper()
		var api *jetstream.APIError
		_, err := put(t, mine, attacker, header...)
		if !errors.As(err, &api) || !strings.HasSuffix(api.Description, last) {
			t.Errorf("%v: %v, not %s", header, err, last)
		}
	}
	other := []string{"Nats-Expected-Last-Subject-Sequence", "999", "Nats-Expected-Last-Subject-Sequence-Subject", names.Request(subject.Video, victim)}
	expect(": 0", other...)
	var stored string // sequence of the only stored message
	for range 3 {
		ack, err := put(t, theirs, victim, "Nats-Msg-Id", "order-7")
		if err != nil {
			t.Fatal(err)
		}
		stored = strconv.FormatUint(ack.Sequence, 10)
	}
	expect(": "+stored, "Nats-Expected-Last-Sequence", "999")
	expect(": "+stored, other...)
	expect(": order-7", "Nats-Expected-Last-Msg-Id", "x")
}

// TestAMessageIDCanBeTaken proves that a message is dropped if another client used its message ID
// within the last tenth of a second. Messages without an ID are not affected.
func TestAMessageIDCanBeTaken(t *testing.T) {
	t.Parallel()
	mine, theirs := newInbox(t, 100_000)
	await(t, "a message that is taken for another one", func() error {
		if _, err := put(t, mine, attacker, "Nats-Msg-Id", "order-7"); err != nil {
			return err
		}
		ack, err := put(t, theirs, victim, "Nats-Msg-Id", "order-7")
		if err == nil && !ack.Duplicate {
			err = errors.New("it was stored")
		}
		return err
	})
	for range 3 {
		if _, err := put(t, mine, attacker, "Nats-Msg-Id", "order-7"); err != nil {
			t.Fatal(err)
		}
		if ack, err := put(t, theirs, victim); err != nil || ack.Duplicate {
			t.Fatalf("a message without an id: %+v, %v", ack, err)
		}
	}
}

// TestTheInboxCanBeFilled proves that one publisher can fill the inbox for all.
func TestTheInboxCanBeFilled(t *testing.T) {
	t.Parallel()
	mine, theirs := newInbox(t, 3)
	for range 3 {
		if _, err := put(t, mine, attacker); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := put(t, theirs, victim); err == nil {
		t.Error("there was room for the victim")
	}
}

// TestTheInboxKeepsTheSubject proves that the tenant of a request comes from its subject, which the
// server enforces. Headers cannot change it.
func TestTheInboxKeepsTheSubject(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	if _, err := put(t, stream(t, s.connect(t, publisher)), attacker, "Nats-Request-Info", `{"acc":"globex"}`, "Nats-Subject", names.Request(subject.Video, victim)); err != nil {
		t.Fatal(err)
	}
	st, err := stream(t, s.origin).Stream(t.Context(), names.Requests())
	if err != nil {
		t.Fatal(err)
	}
	m, err := st.GetMsg(t.Context(), st.CachedInfo().State.LastSeq)
	if err != nil {
		t.Fatal(err)
	}
	if want := names.Request(subject.Video, attacker); m.Subject != want {
		t.Errorf("stored under %s", m.Subject)
	}
	// The server replaces a Nats-Request-Info header of the caller by the real account.
	calls := s.listen(s.origin, names.CallPattern(subject.Video))
	if err := s.connect(t, publisher).PublishMsg(message(names.Call(subject.Video, attacker), "{}", []string{"Nats-Request-Info", `{"acc":"globex"}`})); err != nil {
		t.Fatal(err)
	}
	call, err := calls.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	var from struct {
		Account string `json:"acc"`
	}
	info := call.Header["Nats-Request-Info"]
	if err := json.Unmarshal([]byte(strings.Join(info, "")), &from); err != nil || from.Account != attacker {
		t.Errorf("the call says that it is from %v (%v)", info, err)
	}
}
