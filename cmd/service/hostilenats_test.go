package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/test/hostile"
)

func (s *siege) attackNATS() {
	s.send("calls", 700, 8, func(in *hostile.Source, _ int) (string, error) {
		return s.overCall(hostile.Notes(in, s.target, "genbus.call"))
	})
	s.send("requests about jobs", 500, 4, func(in *hostile.Source, _ int) (string, error) {
		return s.overCall(hostile.Notes(in, s.target, hostile.One(in, []string{"genbus.get", "genbus.list", "genbus.cancel"})))
	})
	s.send("inbox", 500, 4, func(in *hostile.Source, _ int) (string, error) {
		return s.overInbox(hostile.Notes(in, s.target, "genbus.request"))
	})
	s.send("lines", 250, 4, func(in *hostile.Source, _ int) (string, error) {
		return s.overNATS(hostile.NATSLines(in, s.target, hostile.One(in, []string{"genbus.call", "genbus.request"})))
	})
}

func message(n hostile.Note) *nats.Msg {
	m := nats.NewMsg(n.Subject)
	m.Data = n.Data
	for name, values := range n.Header {
		m.Header[name] = values
	}
	return m
}

// overCall sends a request and checks that the answer is not a failure of the service.
func (s *siege) overCall(n hostile.Note) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), answerWithin)
	defer cancel()
	reply, err := s.nc.RequestMsgWithContext(ctx, message(n))
	switch {
	case refusedHere(err):
		return n.Name, nil
	case err != nil:
		return n.Name, fmt.Errorf("%w\nsent to %q: %.300q %v", err, n.Subject, n.Data, n.Header)
	}
	code, _ := strconv.Atoi(reply.Header.Get(micro.ErrorCodeHeader))
	if code >= 500 || strings.Contains(string(reply.Data), hostileKey) {
		return n.Name, fmt.Errorf("%v %.300q\nsent to %q: %.300q %v", reply.Header, reply.Data, n.Subject, n.Data, n.Header)
	}
	return n.Name, nil
}

// refusedHere reports whether the client refused to send the message.
func refusedHere(err error) bool {
	return errors.Is(err, nats.ErrBadSubject) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrNoResponders)
}

// overInbox publishes a request. JetStream may refuse it. settle checks that stored requests leave
// the inbox.
func (s *siege) overInbox(n hostile.Note) (string, error) {
	m := message(n)
	m.Reply = nats.NewInbox()
	if err := s.nc.PublishMsg(m); err != nil && !refusedHere(err) {
		return n.Name, err
	}
	return n.Name, nil
}

// overNATS sends the bytes over a client connection and waits until it ends.
func (s *siege) overNATS(in hostile.Input) (string, error) {
	c, err := net.Dial("tcp", strings.TrimPrefix(s.nc.ConnectedUrl(), "nats://"))
	if err != nil {
		return in.Name, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return in.Name, err
	}
	conn, _ := c.(*net.TCPConn)
	_, _ = conn.Write(in.Bytes) // the server may stop reading
	_ = conn.CloseWrite()
	_, err = io.Copy(io.Discard, conn)
	return in.Name, ended(err)
}

// TestRepliesForgeNothing proves that a caller cannot use its reply subject to make the service
// publish on subjects reserved for the service.
func TestRepliesForgeNothing(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: time.Minute})
	id := w.call(t, subject.Video, `{"model":"sandbox-video","prompt":"a cat"}`)
	inbox := w.nc.NewInbox()
	replies := []string{
		"genbus.task.video.default." + id, "genbus.done.video.default.completed." + id, "genbus.chunk.default.chat_x", "genbus.live.task.video.default." + id,
		"genbus.work.video.sandbox-video.default.video_aaaaaaaaaaaaaaaaaaaaaaaaaa", "genbus.request.video.default", "genbus.dead.video.default.x", "genbus.call.video.default",
		"$JS.API.STREAM.PURGE.GENBUS_TASKS", "$JS.ACK.GENBUS_WORK.video-sandbox-video.1.1.1.1.1", "$O.GENBUS_BODIES_default.M.x", "$KV.x", "$SYS.REQ.SERVER.PING",
		inbox,
	}
	for reply, answers := range w.answers(t, replies, inbox, `{"model":"sandbox-video","prompt":"a dog"}`, `{`) {
		if reply == inbox && len(answers) != 2 || reply != inbox && len(answers) != 0 {
			t.Errorf("the service has published on %s: %.400q", reply, answers)
		}
	}
	if code, body := getJSON(t, w.base+"/v1/video/generations/"+id, ""); code != http.StatusOK {
		t.Errorf("the task whose log was written to: %d %s", code, body)
	}
}

// answers sends calls with each of the reply subjects, and returns the service's messages on them
// after all calls were answered.
func (w *world) answers(t *testing.T, replies []string, inbox string, calls ...string) map[string][]string {
	t.Helper()
	heard := map[string]*nats.Subscription{}
	for _, reply := range replies {
		sub, err := w.nc.SubscribeSync(reply)
		if err != nil {
			t.Fatal(err)
		}
		heard[reply] = sub
	}
	want := w.callsHandled(t)
	for _, reply := range replies {
		if !strings.HasPrefix(reply, "$JS.ACK.") { // NATS rejects messages with such a reply
			want += float64(len(calls))
		}
		for _, data := range calls {
			m := &nats.Msg{Subject: "genbus.call.video.default", Reply: reply, Data: []byte(data), Header: nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}}}
			if err := w.nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	await(t, "the calls", func() bool { return w.callsHandled(t) == want })
	// A call is counted just before it is answered. After the permitted answers and one more call,
	// any forbidden answer would have arrived.
	await(t, "the answers", func() bool { n, _, err := heard[inbox].Pending(); return err != nil || n >= len(calls) })
	w.call(t, subject.Video, calls[0])
	if err := w.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n := w.callsHandled(t); n != want+1 {
		t.Errorf("%.0f calls were handled, want %.0f", n, want+1)
	}
	out := map[string][]string{}
	for reply, sub := range heard {
		out[reply] = answersAmong(t, sub)
	}
	return out
}

// callsHandled counts accepted and refused calls.
func (w *world) callsHandled(t *testing.T) (n float64) {
	t.Helper()
	_, text := w.fetch(t, http.MethodGet, "/metrics", "")
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, "{")
		if name != "genbus_jobs_accepted_total" && name != "genbus_jobs_refused_total" || !strings.Contains(rest, `ingress="`+string(telemetry.IngressCall)+`"`) {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		if err != nil {
			t.Fatal(err)
		}
		n += value
	}
	return n
}

// answersAmong returns the answers to calls among the messages of a subscription.
func answersAmong(t *testing.T, sub *nats.Subscription) (answers []string) {
	t.Helper()
	pending, _, err := sub.Pending()
	if err != nil {
		t.Fatal(err)
	}
	for range pending {
		m, err := sub.NextMsg(time.Second) // already received
		if err != nil {
			t.Fatal(err)
		}
		if text := string(m.Data); strings.Contains(text, `"task_id"`) || strings.Contains(text, `"error"`) {
			answers = append(answers, text)
		}
	}
	return answers
}

// TestAnyTenantLeavesTheInbox proves that requests with any tenant token leave the inbox, as dead
// letters if necessary. Messages that stay would eventually block the inbox for all tenants.
func TestAnyTenantLeavesTheInbox(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{})
	subjects := []string{"genbus.request.video.\xff\xfe", "genbus.request.chat.\xed\xa0\x80", "genbus.request.video.a\x01b", "genbus.request.chat." + strings.Repeat("\xff", 3000)}
	for _, s := range subjects {
		if _, err := w.js.Publish(t.Context(), s, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	count := func(stream string) uint64 {
		s, err := w.js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		return info.State.Msgs
	}
	await(t, "an empty inbox", func() bool { return count("GENBUS_REQUESTS") == 0 })
	if n := count("GENBUS_REJECTED"); n != uint64(len(subjects)) {
		t.Errorf("%d dead letters of %d messages", n, len(subjects))
	}
}
