package natsacl_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/subject"
)

// bcrypted is the output of `nats server passwd` for the password "next".
const bcrypted = "$2a$04$amvmWCpPdzBRIDaZg2LWFut4blO.fmw8EdV2cCjytEyU0ZwptBZOO"

// TestRotation proves that a password can be changed without a pause, by adding a second user and
// then removing the first.
func TestRotation(t *testing.T) {
	t.Parallel()
	dir := deploy(t)
	first := options(t, dir)
	n := serve(t, dir, first)
	old := n.connect(t, publisher)

	file := filepath.Join(dir, "acme.conf")
	line := "{ user: acme-publisher, password: $NATS_ACME_PUBLISHER_PASSWORD, permissions: $PUBLISHER,"
	next := "{ user: acme-publisher-2, password: \"" + bcrypted + "\", permissions: $PUBLISHER"
	rewrite(t, file, file, line, next+" }\n"+line)
	n.reload(t, dir, first.Port, first.StoreDir)
	login := []nats.Option{nats.UserInfo("acme-publisher-2", "next"), nats.CustomInboxPrefix("_INBOX_acme-publisher"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	nc, err := nats.Connect(n.ClientURL(), login...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := refused(old); err != nil {
		t.Errorf("the old user: %v", err)
	}
	for _, row := range []struct {
		subj string
		want error
	}{{names.Call(subject.Video, attacker), nil}, {names.Call(subject.Video, victim), errPermission}} {
		if err := nc.Publish(row.subj, nil); err != nil {
			t.Fatal(err)
		}
		if err := refused(nc); !errors.Is(err, row.want) {
			t.Errorf("%s: %v", row.subj, err)
		}
	}

	rewrite(t, file, file, line, strings.Replace(line, "acme-publisher,", "nobody,", 1))
	n.reload(t, dir, first.Port, first.StoreDir)
	await(t, "the old user's end", func() error {
		if old.IsConnected() {
			return errors.New("it is connected")
		}
		return nil
	})
	if nc, err := nats.Connect(n.ClientURL(), nats.UserInfo(publisher, password(publisher))); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("the old password: %v", err)
		nc.Close()
	}
	if !nc.IsConnected() {
		t.Error("the next user was cut off")
	}
}

// reload does the same as nats-server --signal reload.
func (n *node) reload(t *testing.T, dir string, port int, store string) {
	t.Helper()
	o := options(t, dir)
	o.Port, o.StoreDir = port, store
	if err := n.ReloadOptions(o); err != nil {
		t.Fatal(err)
	}
}
