package natsacl_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
)

// patience bounds the wait for an expected result.
const patience = 60 * time.Second

func sprintf(format string, args []any) string { return fmt.Sprintf(format, args...) }

func await(t testing.TB, what string, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		err := ask()
		if err == nil {
			return
		}
		if broker.Wait(ctx, 20*time.Millisecond) != nil {
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
	}
}

// connect connects a user with the user's own inbox prefix, if any, as docs/nats-security.md
// describes.
func (n *node) connect(t testing.TB, user string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	return dial(t, n.ClientURL(), user, opts...)
}

func dial(t testing.TB, url, user string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	opts = append(opts, nats.Name("test"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if strings.HasPrefix(user, witness) {
		opts = append(opts, nats.UserInfo(user, password(witness)))
	} else {
		opts = append(opts, nats.UserInfo(user, password(user)))
	}
	if strings.HasSuffix(user, "-publisher") || strings.HasSuffix(user, "-subscriber") {
		opts = append(opts, nats.CustomInboxPrefix("_INBOX_"+user))
	}
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatalf("%s: %v", user, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func stream(t testing.TB, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// provision creates a tenant's copies with the requests and users of docs/nats-security.md. The
// streams of genbus must exist.
func (n *node) provision(t testing.TB, tenant string, replicas int) {
	t.Helper()
	for _, step := range []struct{ user, subject, file string }{
		{"administrator", "$JS.API.CONSUMER.CREATE.GENBUS_TASKS." + tenant, "tasks.consumer.json"},
		{tenant + "-administrator", "$JS.API.STREAM.CREATE.GENBUS_TASKS", "tasks.stream.json"},
		{tenant + "-administrator", "$JS.API.STREAM.CREATE.GENBUS_CHUNKS", "chunks.stream.json"},
	} {
		body := strings.ReplaceAll(string(n.file(t, tenant+"/"+step.file)), `"num_replicas": 1`, fmt.Sprintf(`"num_replicas": %d`, replicas))
		nc := n.connect(t, step.user)
		await(t, step.subject, func() error {
			reply, err := nc.Request(step.subject, []byte(body), 10*time.Second)
			if err != nil {
				return err
			}
			return apiError(reply.Data)
		})
		nc.Close()
	}
}

// apiError returns the error in a JetStream answer, or nil.
func apiError(data []byte) error {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return answer.Error
	}
	return nil
}

// ensure creates the streams of genbus with the permissions of the service.
func (n *node) ensure(t testing.TB, limits broker.Limits) *broker.Broker {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Options{
		Names: names, URL: n.ClientURL(), Logger: quiet(t), Limits: limits,
		Connect: []nats.Option{nats.UserInfo("service", password("service"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := b.Streams().Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

var errPermission = errors.New("refused")

// refused returns errPermission if the server ever refused anything on this connection.
func refused(nc *nats.Conn) error {
	if err := nc.FlushTimeout(patience); err != nil {
		return err
	}
	if err := nc.LastError(); errors.Is(err, nats.ErrPermissionViolation) {
		return errPermission
	} else if err != nil {
		return err
	}
	return nil
}
