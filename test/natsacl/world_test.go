package natsacl_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

var names = subject.Default()

// The victim's job, and words that stand in all that is the victim's.
const (
	job    = "video_of_the_victim"
	route  = "main"
	secret = "a secret of the victim"
)

func quiet(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// staged is the header of what the stage itself lets happen.
const staged = "staged"

// stage is a server with what a service and two tenants leave on it. No service
// runs, so that nothing changes by itself.
type stage struct {
	*node
	t      testing.TB
	broker *broker.Broker       // with the rights of the service
	origin *nats.Conn           // may do anything in the account of genbus
	theirs *nats.Conn           // may do anything in the victim's
	heard  []*nats.Subscription // everything in both
	work   jetstream.Msg        // the victim's job, in the hands of the service
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
	s.heard = []*nats.Subscription{s.listen(s.origin, ">"), s.listen(s.theirs, ">")}
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

// consumers makes those of the service.
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

// play leaves a request in the inbox, a job in work, its events
// and chunks, a dead letter and a large body.
func (s *stage) play(tenant string) {
	s.t.Helper()
	ctx, id, data := s.t.Context(), jobOf(tenant), []byte("of "+tenant)
	if tenant == victim {
		data = []byte(secret)
	}
	for _, subj := range []string{
		names.WorkItem(subject.Video, route, tenant, id), names.WaitItem(subject.Video, route, tenant, id), names.Task(subject.Video, tenant, id),
		names.Done(subject.Video, tenant, "completed", id), names.Chunk(tenant, id), names.DeadLetter(subject.Video, tenant, id),
		names.RejectedLetter(subject.Video, tenant, id),
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

// await waits until a tenant's copies have so many messages together.
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

// glance is what the streams of genbus and of the victim say of themselves: enough
// to see that nothing was stored, taken out, made or changed. The inbox grows by
// what the attacker may send, and is for snapshot to look at.
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

// snapshot is all that the account of genbus and the victim's copies hold, without
// what the attacker may put into the inbox, and without the attacker's own copy.
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

// written is a configuration as JSON.
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
			continue // deleted, or the attacker's
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
		if c.Config.DeliverSubject == "" { // the feeds of copies go on by themselves
			out[key+" consumer "+c.Name] += fmt.Sprintf(" delivered %d, acknowledged to %d, held %d", c.Delivered.Consumer, c.AckFloor.Stream, c.NumAckPending)
		}
	}
	if err := list.Err(); err != nil {
		s.t.Fatal(err)
	}
}

// trespasses are what was sent to subjects that are not the attacker's own: in the
// account of genbus, and all in the victim's. Reading empties them.
func (s *stage) trespasses() (out []string) {
	s.t.Helper()
	for _, nc := range []*nats.Conn{s.origin, s.theirs} {
		if err := nc.FlushTimeout(patience); err != nil {
			s.t.Fatal(err)
		}
	}
	for _, sub := range s.heard {
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

// foreign says whether a subject of genbus is neither one on which the attacker may
// send nor one of its own events, which its copy is fed with.
func foreign(subj string) bool {
	if !strings.HasPrefix(subj, "genbus.") || strings.HasPrefix(subj, "genbus.copy.") || subj == names.Chunk(attacker, jobOf(attacker)) {
		return false
	}
	for _, kind := range subject.Kinds {
		if subj == names.Request(kind, attacker) || subj == names.Call(kind, attacker) || subj == names.Task(kind, attacker, jobOf(attacker)) ||
			subj == names.Done(kind, attacker, "completed", jobOf(attacker)) {
			return false
		}
	}
	return true
}
