package natsacl_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

var names = subject.Default()

// The victim's job, its route, and the content of its messages.
const (
	job    = "video_of_the_victim"
	route  = "main"
	secret = "a secret of the victim"
)

func quiet(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// staged is a header of messages that the stage itself publishes.
const staged = "staged"

// stage is a server with the messages of a service and two tenants. No service runs, so that
// nothing changes by itself.
type stage struct {
	*node
	t      testing.TB
	broker *broker.Broker       // with the permissions of the service
	origin *nats.Conn           // unlimited in the account of genbus
	theirs *nats.Conn           // unlimited in the victim's account
	subs   []*nats.Subscription // all messages of both accounts
	work   jetstream.Msg        // the victim's work item, held by the service
}

func newStage(t testing.TB) *stage {
	t.Helper()
	s := &stage{node: start(t, deploy(t, victim)), t: t}
	s.broker = s.ensure(t, broker.Limits{})
	s.provision(t, attacker, 1)
	s.provision(t, victim, 1)
	s.consumers()
	s.play(victim)
	s.play(attacker)
	s.origin, s.theirs = s.connect(t, witness+"GENBUS"), s.connect(t, witness+victim)
	s.await(victim, 3)
	s.await(attacker, 3)
	s.subs = []*nats.Subscription{s.listen(s.origin, ">"), s.listen(s.theirs, ">")}
	return s
}

func (s *stage) listen(nc *nats.Conn, subj string) *nats.Subscription {
	s.t.Helper()
	sub, err := nc.SubscribeSync(subj)
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return sub
}

func (s *stage) publish(nc *nats.Conn, subj string, header ...string) {
	s.t.Helper()
	if err := nc.PublishMsg(message(subj, secret, append(header, staged, "yes"))); err != nil {
		s.t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) consumers() {
	s.t.Helper()
	for _, c := range []struct{ stream, durable, filter string }{
		{names.Requests(), subject.IntakeDurable(subject.Video), names.RequestPattern(subject.Video)},
		{names.Work(), subject.WorkDurable(subject.Video, route), names.WorkRoutePattern(subject.Video, route)},
	} {
		if _, err := s.broker.Streams().EnsureConsumer(s.t.Context(), c.stream, jetstream.ConsumerConfig{
			Durable: c.durable, FilterSubject: c.filter, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour,
		}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// play stores a tenant's request, held work item, events, chunk, dead letters, usage and body.
func (s *stage) play(tenant string) {
	s.t.Helper()
	ctx, id, data := s.t.Context(), jobOf(tenant), []byte("of "+tenant)
	if tenant == victim {
		data = []byte(secret)
	}
	for _, subj := range []string{
		names.WorkItem(subject.Video, route, tenant, id), names.WaitItem(subject.Video, route, tenant, id), names.Task(subject.Video, tenant, id),
		names.Done(subject.Video, tenant, "completed", id), names.Chunk(tenant, id), names.DeadLetter(subject.Video, tenant, id),
		names.RejectedDeadLetter(subject.Video, tenant, id),
		names.Usage(subject.Video, tenant, id),
	} {
		if _, err := s.broker.PublishExpecting(ctx, broker.Jobs, &nats.Msg{Subject: subj, Data: data}, 0); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := broker.NewBodies(s.broker).Put(ctx, tenant, id, data); err != nil {
		s.t.Fatal(err)
	}
	js := stream(s.t, s.connect(s.t, tenant+"-publisher"))
	if _, err := js.Publish(ctx, names.Request(subject.Video, tenant), data); err != nil {
		s.t.Fatal(err)
	}
	cons, err := s.broker.JetStream().Consumer(ctx, names.Work(), subject.WorkDurable(subject.Video, route))
	if err != nil {
		s.t.Fatal(err)
	}
	m, err := cons.Next()
	if err != nil {
		s.t.Fatal(err)
	}
	if tenant == victim {
		s.work = m
	}
}

func jobOf(tenant string) string {
	if tenant == victim {
		return job
	}
	return "video_of_" + tenant
}

// await waits until a tenant's copies hold n messages together.
func (s *stage) await(tenant string, n uint64) {
	s.t.Helper()
	js := stream(s.t, s.connect(s.t, tenant+"-subscriber"))
	await(s.t, "the copies of "+tenant, func() error {
		var msgs uint64
		for _, name := range []string{names.Tasks(), names.Chunks()} {
			st, err := js.Stream(s.t.Context(), name)
			if err != nil {
				return err
			}
			msgs += st.CachedInfo().State.Msgs
		}
		if msgs != n {
			return fmt.Errorf("%d messages, not %d", msgs, n)
		}
		return nil
	})
}

// glance summarizes the streams of genbus and of the victim. A difference shows that something was
// stored, removed, created or changed. It excludes the inbox, which the attacker may fill. snapshot
// covers that.
func (s *stage) glance() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	s.each(func(key string, _ jetstream.JetStream, info *jetstream.StreamInfo) {
		if info.Config.Name != names.Requests() {
			state := info.State
			out[key] = fmt.Sprintf("%s %d to %d, %d messages, %d consumers", s.written(info.Config), state.FirstSeq, state.LastSeq, state.Msgs, state.Consumers)
		}
	})
	return out
}

// snapshot returns all content of the account of genbus and of the victim's copies. It excludes the
// attacker's own requests and the consumer of the attacker's copy.
func (s *stage) snapshot() map[string]string {
	s.t.Helper()
	out := map[string]string{}
	s.each(func(key string, js jetstream.JetStream, info *jetstream.StreamInfo) {
		out[key] = s.written(info.Config)
		st, err := js.Stream(s.t.Context(), info.Config.Name)
		if err != nil {
			s.t.Fatal(err)
		}
		s.messages(out, key, st, info.State)
		s.holders(out, key, st)
	})
	return out
}

func (s *stage) written(config any) string {
	s.t.Helper()
	out, err := json.Marshal(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(out)
}

func (s *stage) each(look func(key string, js jetstream.JetStream, info *jetstream.StreamInfo)) {
	s.t.Helper()
	for account, nc := range map[string]*nats.Conn{"GENBUS": s.origin, victim: s.theirs} {
		js := stream(s.t, nc)
		list := js.ListStreams(s.t.Context())
		for info := range list.Info() {
			look(account+" "+info.Config.Name, js, info)
		}
		if err := list.Err(); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *stage) messages(out map[string]string, key string, st jetstream.Stream, state jetstream.StreamState) {
	for seq := state.FirstSeq; seq <= state.LastSeq && seq > 0; seq++ {
		m, err := st.GetMsg(s.t.Context(), seq)
		if err != nil || m.Subject == names.Request(subject.Video, attacker) || m.Subject == names.Request(subject.Chat, attacker) {
			continue // deleted, or sent by the attacker
		}
		out[fmt.Sprintf("%s %d", key, seq)] = fmt.Sprintf("%s %v %x", m.Subject, m.Header, sha256.Sum256(m.Data))
	}
}

func (s *stage) holders(out map[string]string, key string, st jetstream.Stream) {
	s.t.Helper()
	list := st.ListConsumers(s.t.Context())
	for c := range list.Info() {
		if c.Name == attacker {
			continue
		}
		out[key+" consumer "+c.Name] = fmt.Sprintf("%s %s", c.Created, s.written(c.Config))
		if c.Config.DeliverSubject == "" { // the consumers that feed copies advance by themselves
			out[key+" consumer "+c.Name] += fmt.Sprintf(" delivered %d, acknowledged to %d, held %d", c.Delivered.Consumer, c.AckFloor.Stream, c.NumAckPending)
		}
	}
	if err := list.Err(); err != nil {
		s.t.Fatal(err)
	}
}

// trespasses returns the foreign subjects of messages seen since the last call in the accounts of
// genbus and of the victim.
func (s *stage) trespasses() (out []string) {
	s.t.Helper()
	for _, nc := range []*nats.Conn{s.origin, s.theirs} {
		if err := nc.FlushTimeout(patience); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, sub := range s.subs {
		for {
			m, err := sub.NextMsg(time.Millisecond)
			if err != nil {
				break
			}
			if foreign(m.Subject) && m.Header.Get(staged) == "" {
				out = append(out, m.Subject)
			}
		}
	}
	return out
}

// requests returns a tenant's subjects for requests with replies.
func requests(kind subject.Kind, tenant string) []string {
	return []string{names.Call(kind, tenant), names.Get(kind, tenant), names.List(kind, tenant), names.Cancel(kind, tenant), names.Content(tenant), names.Models(tenant)}
}

// foreign reports whether a subject of genbus is off limits for the attacker. The attacker's own
// requests, calls and events are not.
func foreign(subj string) bool {
	if !strings.HasPrefix(subj, "genbus.") || strings.HasPrefix(subj, "genbus.copy.") || subj == names.Chunk(attacker, jobOf(attacker)) {
		return false
	}
	for _, kind := range subject.Kinds {
		if subj == names.Request(kind, attacker) || slices.Contains(requests(kind, attacker), subj) || subj == names.Task(kind, attacker, jobOf(attacker)) ||
			subj == names.Done(kind, attacker, "completed", jobOf(attacker)) {
			return false
		}
	}
	return true
}
