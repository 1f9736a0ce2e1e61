package natsacl_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// oneAccount is deploy/nats without accounts: the same permissions within one account.
const oneAccount = `
jetstream { max_file_store: 100GB }
accounts { GENBUS { jetstream: enabled, users: [
  { user: witness-GENBUS, password: secret-of-witness- }
  { user: acme-publisher, password: secret-of-acme-publisher, permissions: {
    publish: ["genbus.request.*.acme"], subscribe: ["_INBOX_acme-publisher.>"] } }
  { user: acme-subscriber, password: secret-of-acme-subscriber, permissions: {
    publish: ["$JS.API.CONSUMER.CREATE.GENBUS_TASKS.*.genbus.task.*.acme.*", "$JS.API.CONSUMER.MSG.NEXT.GENBUS_TASKS.*"]
    subscribe: ["_INBOX_acme-subscriber.>"] } }
] } }
`

// TestOneAccountWouldNotDo proves that tenants need accounts: within one account, subject
// permissions do not protect a tenant's events.
func TestOneAccountWouldNotDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "genbus.conf"), []byte(oneAccount), 0o600); err != nil {
		t.Fatal(err)
	}
	n := start(t, dir)
	js := stream(t, n.connect(t, witness+"GENBUS"))
	for _, c := range []jetstream.StreamConfig{
		{Name: names.Requests(), Subjects: []string{names.RequestPattern(subject.Video)}},
		{Name: names.Tasks(), Subjects: []string{names.TaskPattern()}},
	} {
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("forge", func(t *testing.T) { forgeInOneAccount(t, n, js) })
	t.Run("read", func(t *testing.T) { readInOneAccount(t, n, js) })
}

// forgeInOneAccount forges an event of the victim by naming its subject as the reply subject of a
// request.
func forgeInOneAccount(t *testing.T, n *node, js jetstream.JetStream) {
	nc := n.connect(t, publisher)
	forged := names.Task(subject.Video, victim, job)
	if err := nc.PublishRequest(names.Request(subject.Video, attacker), forged, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := refused(nc); err != nil {
		t.Fatal(err)
	}
	await(t, "the forged event", func() error {
		s, err := js.Stream(t.Context(), names.Tasks())
		if err == nil {
			_, err = s.GetLastMsgForSubject(t.Context(), forged)
		}
		return err
	})
}

// readInOneAccount reads from the victim's consumer. Permissions cannot separate consumer names by
// tenant.
func readInOneAccount(t *testing.T, n *node, js jetstream.JetStream) {
	if _, err := js.CreateConsumer(t.Context(), names.Tasks(), jetstream.ConsumerConfig{
		Durable: "globex-events", FilterSubject: names.Task(subject.Video, victim, "*"),
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), names.Task(subject.Video, victim, job), []byte(secret)); err != nil {
		t.Fatal(err)
	}
	nc := n.connect(t, subscriber)
	await(t, "the victim's event", func() error {
		m, err := nc.Request("$JS.API.CONSUMER.MSG.NEXT.GENBUS_TASKS.globex-events", nil, time.Second)
		if err == nil && string(m.Data) != secret {
			err = fmt.Errorf("%s", m.Data)
		}
		return err
	})
}

// TestWhoMayStoreMayForge proves that no tenant user may create a stream or publish into one: a
// message keeps the subject under which it was stored when a consumer delivers it, even across an
// import.
func TestWhoMayStoreMayForge(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	nc := s.connect(t, witness+attacker)
	js := stream(t, nc)
	if err := js.DeleteStream(t.Context(), names.Chunks()); err != nil { // the account allows two streams
		t.Fatal(err)
	}
	forged := names.Call(subject.Video, victim)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "FORGE", Subjects: []string{forged}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), forged, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateConsumer(t.Context(), "FORGE", jetstream.ConsumerConfig{Durable: "forge"}); err != nil {
		t.Fatal(err)
	}
	calls := s.listen(s.origin, names.CallPattern(subject.Video))
	if err := nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.FORGE.forge", names.Call(subject.Video, attacker), nil); err != nil {
		t.Fatal(err)
	}
	if m, err := calls.NextMsg(patience); err != nil || m.Subject != forged {
		t.Errorf("genbus was called on %v (%v): NATS has closed this hole; docs/nats-security.md may say so", m, err)
	}
}

// TestTenantsWithInternalNames proves that a tenant whose name is a token of an internal subject
// reaches none of these subjects. So permissions list a tenant's subjects by name.
func TestTenantsWithInternalNames(t *testing.T) {
	t.Parallel()
	n := start(t, deploy(t, internalNames...))
	origin := n.connect(t, witness+"GENBUS")
	heard, err := origin.SubscribeSync("genbus.>")
	if err == nil {
		err = origin.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range internalNames {
		subjects := []string{
			names.PeerNotification(subject.AnyWriter), names.IndexKeepers(), names.PeerNotification(tenant), names.Index(tenant), names.Dispatch(),
			names.AuditBulk(tenant), names.AuditRoute(subject.Video, tenant),
		}
		for _, user := range []string{tenant + "-publisher", tenant + "-subscriber", tenant + "-app", tenant + "-administrator"} {
			for _, subj := range subjects {
				for action, try := range map[string]func(*nats.Conn) error{
					"publish on": func(nc *nats.Conn) error { return nc.Publish(subj, []byte("forged")) },
					"listen to":  func(nc *nats.Conn) error { _, err := nc.SubscribeSync(subj); return err },
				} {
					nc := n.connect(t, user)
					if err := errors.Join(try(nc), refused(nc)); !errors.Is(err, errPermission) {
						t.Errorf("%s may %s %s: %v", user, action, subj, err)
					}
					nc.Close()
				}
			}
		}
		unlimited := n.connect(t, witness+tenant)
		for _, subj := range subjects {
			if err := unlimited.Publish(subj, []byte("forged")); err != nil {
				t.Fatal(err)
			}
		}
		if err := unlimited.FlushTimeout(patience); err != nil {
			t.Fatal(err)
		}
	}
	if err := origin.FlushTimeout(patience); err != nil {
		t.Fatal(err)
	}
	if m, err := heard.NextMsg(time.Millisecond); err == nil {
		t.Errorf("genbus heard %s", m.Subject)
	}
}

// TestLosingTheCopies proves that a tenant's user can delete the tenant's own copy, and that an
// administrator can create it again.
func TestLosingTheCopies(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	before := s.glance()
	nc := s.connect(t, subscriber)
	js := stream(t, nc)
	// A direct get that finds nothing is answered without a body. That answer is a valid request to
	// delete a stream.
	if err := nc.PublishRequest("$JS.API.DIRECT.GET.GENBUS_TASKS.nothing", "$JS.API.STREAM.DELETE.GENBUS_TASKS", nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the copy", func() error {
		if _, err := js.Stream(t.Context(), names.Tasks()); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("it is still there: %w", err)
		}
		return nil
	})
	(&attempt{stage: s, t: t, nc: nc}).harmless(before, attack{})
	operator := s.connect(t, "administrator")
	if _, err := operator.Request("$JS.API.CONSUMER.DELETE.GENBUS_TASKS."+attacker, nil, patience); err != nil {
		t.Fatal(err)
	}
	s.provision(t, attacker, 1)
	s.await(attacker, 3)
}

// TestAnAccountImportsItsOwnNameOnly proves that a wrong name in a tenant's file gives no access:
// the server does not start.
func TestAnAccountImportsItsOwnNameOnly(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		`service: { account: GENBUS, subject: "genbus.call.*.acme" }`,
		`service: { account: GENBUS, subject: "genbus.get.*.acme" }`,
		`service: { account: GENBUS, subject: "genbus.list.*.acme" }`,
		`service: { account: GENBUS, subject: "genbus.cancel.*.acme" }`,
		`service: { account: GENBUS, subject: "genbus.content.acme" }`,
		`service: { account: GENBUS, subject: "genbus.models.acme" }`,
		`service: { account: GENBUS, subject: "genbus.request.*.acme" }`,
		`stream: { account: GENBUS, subject: "genbus.live.task.*.acme.*" }`,
		`stream: { account: GENBUS, subject: "genbus.live.chunk.acme.*" }`,
		`stream: { account: GENBUS, subject: "genbus.copy.acme" }`,
		`service: { account: GENBUS, subject: "$JS.API.CONSUMER.RESET.GENBUS_TASKS.acme" }, to: "genbus.origin.CONSUMER.RESET.GENBUS_TASKS.acme"`,
		`service: { account: GENBUS, subject: "$JS.FC.GENBUS_TASKS.acme.*" }`,
	} {
		for _, other := range []string{victim, "*"} {
			t.Run(strings.Replace(line, attacker, other, 1), func(t *testing.T) {
				t.Parallel()
				dir := deploy(t, victim)
				file := filepath.Join(dir, "acme.conf")
				rewrite(t, file, file, line, strings.Replace(line, attacker, other, 1))
				if err := tryToStart(t, dir); err == nil || !strings.Contains(err.Error(), "import") {
					t.Errorf("starting says %v", err)
				}
			})
		}
	}
	if err := tryToStart(t, deploy(t, victim)); err != nil {
		t.Errorf("without a mistake: %v", err)
	}
}

// TestErasingFromACopy proves that a tenant's administrator can erase a job from the tenant's copy
// as docs/nats-security.md describes.
func TestErasingFromACopy(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	keeper := s.connect(t, keeper)
	for _, filter := range []string{names.Task(subject.Video, attacker, jobOf(attacker)), names.Done(subject.Video, attacker, "*", jobOf(attacker))} {
		reply, err := keeper.Request("$JS.API.STREAM.PURGE.GENBUS_TASKS", []byte(`{"filter":"`+filter+`"}`), patience)
		if err == nil {
			err = apiError(reply.Data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.await(attacker, 1) // the chunk
	s.await(victim, 3)
}

// TestNoPasswordNoServer proves that the server does not start with a password variable unset, and
// that clients need the right password.
func TestNoPasswordNoServer(t *testing.T) {
	t.Parallel()
	dir := deploy(t)
	file := filepath.Join(dir, "genbus.conf")
	rewrite(t, file, file, "$NATS_SERVICE_PASSWORD", "$NATS_NOT_SET_PASSWORD")
	if err := tryToStart(t, dir); err == nil || !strings.Contains(err.Error(), "NATS_NOT_SET_PASSWORD") {
		t.Errorf("starting says %v", err)
	}
	n := start(t, deploy(t))
	for _, opts := range [][]nats.Option{
		nil, {nats.UserInfo("service", "")}, {nats.UserInfo("service", "x")}, {nats.UserInfo("", "")}, {nats.UserInfo("acme-app", password("acme-publisher"))},
	} {
		if nc, err := nats.Connect(n.ClientURL(), opts...); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("connecting without the password: %v", err)
			nc.Close()
		}
	}
}
