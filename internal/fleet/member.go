// Package fleet lets replicas tell each other how they are doing (Member), and agree on which of
// them does something that needs to be done once (Lease, Claims). Nothing is stored, so a lease is
// not certain: for a while two replicas can hold it, or none. Use it for what may be done twice.
package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// patience is how long the replicas have to answer, and lostPatience how long those have that
	// did not answer the last maxMissed questions: each answer would take a second while a
	// replica that was killed is not forgotten.
	patience     = time.Second
	lostPatience = 200 * time.Millisecond
	maxMissed    = 2
	// announceEvery is how often a replica says that it is there, so that one that does not
	// answer is missed, and forgetAfter how long it is missed.
	announceEvery = time.Minute
	forgetAfter   = 3 * announceEvery
	// maxReplicas bounds those that are remembered.
	maxReplicas = 1000
	// answerEvery is how often a replica says that it is there because it has heard of a new one,
	// and leastAsk how long answers are waited for although none is missing: of replicas that
	// were not heard of yet.
	answerEvery = 100 * time.Millisecond
	leastAsk    = 100 * time.Millisecond
)

// Headers of what replicas tell each other.
const (
	headerReplica = "genbus-replica"
	headerHost    = "genbus-host"
	// headerLeaving is set in the last message of a replica that stops.
	headerLeaving = "genbus-leaving"
	// headerJob is set in a question that is for the holder of a job, and has the job's id.
	headerJob = "genbus-job"
)

// Options make a Member. All are required, but for Alone.
type Options struct {
	Conn   *nats.Conn
	Names  subject.Space
	Logger *slog.Logger
	// Self and Host are this replica's id and host.
	Self, Host string
	// State is what this replica says of itself. It is called by several goroutines, and must
	// not block.
	State func() *genbusv1.ReplicaState
	// Held is what this replica says of a job that it holds, by the job's id; nil for one that it
	// does not hold. It is called and must behave as State.
	Held func(id string) *genbusv1.HeldJob
	// Alone says that there is no other replica.
	Alone bool
}

// Member is this replica among the others. It is safe for concurrent use.
type Member struct {
	o Options

	mu       sync.Mutex
	known    map[string]*replica // the others, as they were heard of, by id
	answered time.Time           // when this replica said last that it is there because of a new one
}

// replica is another one, as it was heard of last.
type replica struct {
	*genbusv1.SilentReplica
	missed int // the latest questions, without an answer
}

// New returns a Member that is not heard of before Start.
func New(o Options) *Member { return &Member{o: o, known: map[string]*replica{}} }

// Start answers the others, and says each minute that this replica is there, until leave is
// called, which says that it leaves. The end of ctx ends the second alone.
func (m *Member) Start(ctx context.Context) (leave func(), err error) {
	if m.o.Alone {
		return func() {}, nil
	}
	sub, err := m.o.Conn.Subscribe(m.o.Names.Replicas(), m.heard)
	if err != nil {
		return nil, fmt.Errorf("subscribe to the questions of other replicas: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.announce(ctx)
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-done
		last := m.message()
		last.Header.Set(headerLeaving, "true")
		_ = m.o.Conn.PublishMsg(last) // without a connection no one hears
		_ = sub.Unsubscribe()
	}), nil
}

// announce says that this replica is there, at once and from then on.
func (m *Member) announce(ctx context.Context) {
	ticker := time.NewTicker(announceEvery)
	defer ticker.Stop()
	for {
		_ = m.o.Conn.PublishMsg(m.message()) // again in a minute
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (m *Member) message() *nats.Msg {
	return &nats.Msg{
		Subject: m.o.Names.Replicas(),
		Header:  nats.Header{headerReplica: []string{m.o.Self}, headerHost: []string{m.o.Host}},
	}
}

// heard takes what another replica says, or asks.
func (m *Member) heard(msg *nats.Msg) {
	id := msg.Header.Get(headerReplica)
	if id == m.o.Self || subject.CheckToken(id) != nil {
		return
	}
	if m.note(id, msg.Header) {
		_ = m.o.Conn.PublishMsg(m.message()) // the new one has not heard of this one either
	}
	if !broker.IsInbox(msg.Reply) {
		return
	}
	state := m.stateOf(msg.Header.Get(headerJob))
	data, err := proto.Marshal(state)
	if err == nil {
		err = msg.Respond(data)
	}
	if err != nil {
		m.o.Logger.Debug("could not answer query from replica", "replica", id, telemetry.KeyError, err)
	}
}

// stateOf is the answer to a question: this replica's state, or where it is for the holder of a
// job, what of it that one asks for.
func (m *Member) stateOf(job string) *genbusv1.ReplicaState {
	if job == "" {
		return m.o.State()
	}
	return &genbusv1.ReplicaState{Id: m.o.Self, Host: m.o.Host, HeldJob: m.o.Held(job)}
}

// note remembers a replica, or forgets one that stops, and reports whether it is to be told
// that this one is there.
func (m *Member) note(id string, header nats.Header) (tell bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(m.known, func(_ string, r *replica) bool { return now.Sub(r.GetHeardAt().AsTime()) > forgetAfter })
	_, known := m.known[id]
	switch {
	case header.Get(headerLeaving) != "":
		delete(m.known, id)
		return false
	case !known && len(m.known) >= maxReplicas:
		return false
	}
	m.known[id] = &replica{SilentReplica: &genbusv1.SilentReplica{Id: id, Host: clip(header.Get(headerHost)), HeardAt: timestamppb.New(now)}}
	if known || now.Sub(m.answered) < answerEvery {
		return false
	}
	m.answered = now
	return true
}

// clip bounds the name of a host.
func clip(host string) string { return strings.ToValidUTF8(host[:min(len(host), 255)], "") }

// Ask asks all replicas for their states, this one included, and returns those that answered
// within a second, by id, and those that were heard of lately and did not. Those that did not
// answer the last times either are waited for a fifth of a second, until they are heard again.
func (m *Member) Ask(ctx context.Context) (states []*genbusv1.ReplicaState, silent []*genbusv1.SilentReplica, err error) {
	return m.ask(ctx, "")
}

// AskForHolder is Ask for what each replica says of a job, in the field held_job: the rest of a
// state is its id and host. It waits for no other answer once the holder has answered.
func (m *Member) AskForHolder(ctx context.Context, job string) (states []*genbusv1.ReplicaState, silent []*genbusv1.SilentReplica, err error) {
	return m.ask(ctx, job)
}

func (m *Member) ask(ctx context.Context, job string) (states []*genbusv1.ReplicaState, silent []*genbusv1.SilentReplica, err error) {
	states = []*genbusv1.ReplicaState{m.stateOf(job)}
	if m.o.Alone || states[0].GetHeldJob() != nil {
		return states, nil, nil
	}
	awaited := m.others()
	inbox := m.o.Conn.NewInbox()
	sub, err := m.o.Conn.SubscribeSync(inbox)
	if err != nil {
		return nil, nil, fmt.Errorf("ask the other replicas: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	question := m.message()
	question.Reply = inbox
	if job != "" {
		question.Header[headerJob] = []string{job}
	}
	if err := m.o.Conn.PublishMsg(question); err != nil {
		return nil, nil, fmt.Errorf("ask the other replicas: %w", err)
	}
	others, silent := m.gather(ctx, awaited, sub.NextMsgWithContext)
	states = append(states, others...)
	slices.SortFunc(states, func(a, b *genbusv1.ReplicaState) int { return strings.Compare(a.GetId(), b.GetId()) })
	slices.SortFunc(silent, func(a, b *genbusv1.SilentReplica) int { return strings.Compare(a.GetId(), b.GetId()) })
	return states, silent, nil
}

// gather takes answers from next until all that are awaited have answered, or have had their
// time, or the holder of the job that is asked for has answered.
func (m *Member) gather(ctx context.Context, awaited map[string]replica, next func(context.Context) (*nats.Msg, error)) (states []*genbusv1.ReplicaState, silent []*genbusv1.SilentReplica) {
	full, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	short, cancel := context.WithTimeout(ctx, lostPatience)
	defer cancel()
	least, cancel := context.WithTimeout(ctx, leastAsk)
	defer cancel()
	for {
		wait := least
		for _, r := range awaited {
			if wait = short; r.missed < maxMissed {
				wait = full
				break
			}
		}
		msg, err := next(wait)
		if err != nil {
			break // those that are left are silent
		}
		state := &genbusv1.ReplicaState{}
		if proto.Unmarshal(msg.Data, state) != nil || state.GetId() == m.o.Self {
			continue
		}
		delete(awaited, state.GetId())
		states = append(states, state)
		if state.GetHeldJob() != nil {
			return states, nil // the others did not have their time
		}
	}
	for _, r := range awaited {
		silent = append(silent, r.SilentReplica)
	}
	if ctx.Err() == nil { // else they did not have their time
		m.countMissed(states, silent)
	}
	return states, silent
}

// countMissed notes which replicas answered a question, and which did not.
func (m *Member) countMissed(states []*genbusv1.ReplicaState, silent []*genbusv1.SilentReplica) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range states {
		if r := m.known[s.GetId()]; r != nil {
			r.missed = 0
		}
	}
	for _, s := range silent {
		if r := m.known[s.GetId()]; r != nil {
			r.missed++
		}
	}
}

// others are the replicas that were heard of lately.
func (m *Member) others() map[string]replica {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]replica{}
	for id, r := range m.known {
		if time.Since(r.GetHeardAt().AsTime()) <= forgetAfter {
			out[id] = *r
		}
	}
	return out
}
