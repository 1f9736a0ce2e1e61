package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// denying starts a NATS server that denies its user app publishing to some subjects.
func denying(t *testing.T, jetStream bool, subjects ...string) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true, JetStream: jetStream, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "app", Password: "app", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: subjects}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { stopNATS(s) })
	return s
}

// deniedPublishing returns a client whose user may not publish to some subjects, its connection,
// and a channel of the denials. wait is the client's Options.Wait.
func deniedPublishing(t *testing.T, wait time.Duration, jetStream bool, subjects ...string) (*client.Client, *nats.Conn, <-chan error) {
	t.Helper()
	s := denying(t, jetStream, subjects...)
	refused := make(chan error, 100)
	nc, err := nats.Connect(s.ClientURL(), nats.UserInfo("app", "app"), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := client.New(nc, client.Options{Wait: wait})
	if err != nil {
		t.Fatal(err)
	}
	return c, nc, refused
}

// large returns a request larger than a message.
func large(nc *nats.Conn) *genbusv1.VideoRequest {
	r := video("sandbox-video", "")
	r.GetVideo().Prompt = strings.Repeat("a", int(nc.MaxPayload()))
	return r
}

// TestOldRefusalIsNoReason checks that an unanswered upload is retried even if NATS denied the user
// something else earlier.
func TestOldRefusalIsNoReason(t *testing.T) {
	t.Parallel()
	c, nc, refused := deniedPublishing(t, 500*time.Millisecond, false, "theirs")
	if err := nc.Publish("theirs", nil); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatal(err)
	}
	if _, err := nc.SubscribeSync("$JS.API.>"); err != nil { // receives requests and never answers
		t.Fatal(err)
	}
	if _, err := c.SubmitVideo(within(t, time.Minute), large(nc)); !errors.Is(err, client.ErrBrokerUnavailable) {
		t.Errorf("got %v", err)
	}
}

// TestDeniedUploadIsReportedAtOnce checks that a denied upload fails without a retry.
func TestDeniedUploadIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, nc, _ := deniedPublishing(t, 3*time.Second, true, "$JS.API.STREAM.INFO.OBJ_GENBUS_BODIES_default")
	c, err := client.New(nc, client.Options{Wait: 3 * time.Second, Header: func(_ context.Context, h nats.Header) {
		h.Set("baggage", strings.Repeat("v", 6000))
	}})
	if err != nil {
		t.Fatal(err)
	}
	r := large(nc)
	r.GetVideo().Prompt = r.GetVideo().GetPrompt()[:nc.MaxPayload()-1000]
	if _, err := c.SubmitVideo(within(t, time.Minute), r); !errors.Is(err, client.ErrBodyTooLarge) {
		t.Errorf("got %v", err)
	}
}

// TestUploadOutlastsALeaderlessStream checks that chunks without an answer are sent again with
// their own bytes. nats.go would resend its buffer, which holds another chunk then.
func TestUploadOutlastsALeaderlessStream(t *testing.T) {
	t.Parallel()
	_, nc, _ := deniedPublishing(t, 0, false)
	c, err := client.New(nc, client.Options{Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	broker, err := nats.Connect(nc.ConnectedUrl(), nats.UserInfo("app", "app"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	const bucket = "GENBUS_BODIES_default"
	sent := make(chan uint64, 10) // messages the client had sent when it asked for the object store
	if _, err := broker.Subscribe("$JS.API.STREAM.INFO.OBJ_"+bucket, func(m *nats.Msg) {
		sent <- nc.Stats().OutMsgs
		_ = m.Respond([]byte(`{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"OBJ_` + bucket + `"},"state":{}}`)) // if this fails, the client gets no answer and the test fails
	}); err != nil {
		t.Fatal(err)
	}
	if err := broker.Flush(); err != nil {
		t.Fatal(err)
	}
	request := large(nc)
	want, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	defer cancel()
	go c.SubmitVideo(ctx, request) //nolint:errcheck // nothing answers it
	for before := <-sent; nc.Stats().OutMsgs == before; {
		select {
		case before = <-sent:
		case <-ctx.Done():
			t.Fatal("the client sends nothing")
		default:
			runtime.Gosched()
		}
	}
	var chunks bytes.Buffer
	described := make(chan string, 1)
	if _, err := broker.Subscribe("$O."+bucket+".>", func(m *nats.Msg) {
		if strings.HasPrefix(m.Subject, "$O."+bucket+".C.") {
			chunks.Write(m.Data)
		} else {
			described <- string(m.Data)
		}
		_ = m.Respond([]byte(`{"stream":"OBJ_` + bucket + `","seq":1}`))
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case info := <-described:
		if !bytes.Equal(chunks.Bytes(), want) || !strings.Contains(info, fmt.Sprintf(`"size":%d`, len(want))) {
			t.Errorf("%d bytes were stored, described as %s; they are those of the request: %t", chunks.Len(), info, bytes.Equal(chunks.Bytes(), want))
		}
	case <-ctx.Done():
		t.Fatal("nothing was described")
	}
}

// TestUploadIsRepeatedAfterAReconnect checks that a lost connection ends the wait for a chunk's
// answer, and that the next upload starts once reconnected.
func TestUploadIsRepeatedAfterAReconnect(t *testing.T) {
	t.Parallel()
	for name, reconnect := range map[string]func(*server.Server, *nats.Conn) error{
		"that the server caused": func(s *server.Server, nc *nats.Conn) error {
			id, err := nc.GetClientID()
			if err != nil {
				return err
			}
			return s.DisconnectClientByID(id)
		},
		"that the program asked for": func(_ *server.Server, nc *nats.Conn) error { return nc.ForceReconnect() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := denying(t, false)
			user := nats.UserInfo("app", "app")
			nc, err := nats.Connect(s.ClientURL(), user, nats.ReconnectWait(50*time.Millisecond))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			broker, err := nats.Connect(s.ClientURL(), user)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(broker.Close)
			chunks := make(chan string, 10)
			for subject, hear := range map[string]nats.MsgHandler{
				"$JS.API.STREAM.INFO.OBJ_GENBUS_BODIES_default": func(m *nats.Msg) {
					_ = m.Respond([]byte(`{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"OBJ_GENBUS_BODIES_default"},"state":{}}`)) // if this fails, the client gets no answer and the test fails
				},
				"$O.GENBUS_BODIES_default.C.>": func(m *nats.Msg) { chunks <- m.Subject },
			} {
				if _, err := broker.Subscribe(subject, hear); err != nil {
					t.Fatal(err)
				}
			}
			if err := broker.Flush(); err != nil {
				t.Fatal(err)
			}
			c, err := client.New(nc, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // less than any wait for an answer
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := c.SubmitVideo(ctx, large(nc))
				ended <- err
			}()
			first := <-chunks
			if err := reconnect(s, nc); err != nil {
				t.Fatal(err)
			}
			select {
			case second := <-chunks:
				if second == first {
					t.Errorf("both uploads are on %s", first)
				}
			case err := <-ended:
				t.Errorf("no second upload: %v", err)
			}
		})
	}
}

// bucketOf creates the object store of the client's tenant and returns its stream.
func bucketOf(t *testing.T, nc *nats.Conn) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{Bucket: "GENBUS_BODIES_default"}); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "OBJ_GENBUS_BODIES_default")
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

// TestFailedUploadLeavesNothing checks that neither an incomplete upload nor one that genbus never
// read stays. The user has the usual permissions for storing objects, whose chunk subjects have one
// token after $O.BUCKET.C.
func TestFailedUploadLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		denied string
		want   client.Code
	}{
		"part":  {"$O.*.M.*", client.ErrBodyTooLarge},
		"whole": {"$O.*.C.*.>", client.ErrBrokerUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, nc, _ := deniedPublishing(t, 0, true, row.denied)
			stream := bucketOf(t, nc)
			c, err := client.New(nc, client.Options{Wait: 5 * time.Second}) // time for a busy machine to store its chunks
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.SubmitVideo(within(t, time.Minute), large(nc)); !errors.Is(err, row.want) {
				t.Errorf("got %v, want %s", err, row.want)
			}
			info, err := stream.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if info.State.LastSeq == 0 || info.State.Msgs != 0 {
				t.Errorf("%d messages were stored, %d are left", info.State.LastSeq, info.State.Msgs)
			}
		})
	}
}
