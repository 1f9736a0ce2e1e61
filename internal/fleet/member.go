// Package fleet lets replicas report their state to each other (Member), and agree on which of them
// does work that needs to be done once (Lease, Claims). Nothing is stored, so for a while two
// replicas may hold a lease, or none. Use leases only for work that may be done twice.
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
	// patience bounds the wait for answers, and lostPatience the wait for replicas that missed the
	// last maxMissed questions. Otherwise every question would take a second while a killed replica
	// is remembered.
	patience     = time.Second
	lostPatience = 200 * time.Millisecond
	maxMissed    = 2
	// announceEvery is how often a replica announces itself, and forgetAfter how long a silent
	// replica is remembered.
	announceEvery = time.Minute
	forgetAfter   = 3 * announceEvery
	// maxReplicas bounds the remembered replicas.
	maxReplicas = 1000
	// answerEvery limits how often a replica announces itself to new ones. leastAsk is the minimum
	// wait for answers, for replicas that are not known yet.
	answerEvery = 100 * time.Millisecond
	leastAsk    = 100 * time.Millisecond
)

// Headers of messages between replicas.
const (
	headerReplica = "genbus-replica"
	headerHost    = "genbus-host"
	// headerLeaving is set in the last message of a replica that stops.
	headerLeaving = "genbus-leaving"
	// headerJob is set in a question to the holder of a job, with the job's ID.
	headerJob = "genbus-job"
)

// Options configures a Member. All fields but Alone are required.
type Options struct {
	Conn   *nats.Conn
	Names  subject.Space
	Logger *slog.Logger
	// Self and Host are this replica's ID and host.
	Self, Host string
	// State returns this replica's state. It must be safe for concurrent use and must not block.
	State func() *genbusv1.ReplicaState
	// Held returns the state of a job that this replica holds; nil if it does not hold the job. The
	// same rules apply as for State.
	Held func(id string) *genbusv1.HeldJob
	// Alone means that no other replica exists.
	Alone bool
}

// Member is this replica among the others. It is safe for concurrent use.
type Member struct {
	o Options

	mu       sync.Mutex
	known    map[string]*replica // the other replicas, by ID
	answered time.Time           // when this replica last announced itself to a new one
}

// replica is another replica, as last heard.
type replica struct {
	*genbusv1.SilentReplica
	missed int // latest questions without an answer
}

// New returns a Member that is silent before Start.
func New(o Options) *Member { return &Member{o: o, known: map[string]*replica{}} }

// Start answers the others and announces this replica every minute, until leave is called, which
// announces its departure. When ctx ends, only the announcements stop.
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
		_ = m.o.Conn.PublishMsg(last) // without a connection nothing hears it
		_ = sub.Unsubscribe()
	}), nil
}

// announce announces this replica at once and then periodically.
func (m *Member) announce(ctx context.Context) {
	ticker := time.NewTicker(announceEvery)
	defer ticker.Stop()
	for {
		_ = m.o.Conn.PublishMsg(m.message()) // repeated in a minute
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

// heard handles another replica's announcement or question.
func (m *Member) heard(msg *nats.Msg) {
	id := msg.Header.Get(headerReplica)
	if id == m.o.Self || subject.CheckToken(id) != nil {
		return
	}
	if m.note(id, msg.Header) {
		_ = m.o.Conn.PublishMsg(m.message()) // the new one does not know this one either
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

// stateOf answers a question: with this replica's state or, if job is set, with the state of that
// job if this replica holds it.
func (m *Member) stateOf(job string) *genbusv1.ReplicaState {
	if job == "" {
		return m.o.State()
	}
	return &genbusv1.ReplicaState{Id: m.o.Self, Host: m.o.Host, HeldJob: m.o.Held(job)}
}

// note remembers a replica, or removes one that stops, and reports whether to announce this one to
// it.
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

// Ask asks all replicas, including this one, for their states. It returns the states received
// within 1 s, by ID, and the recently heard replicas that did not answer. A replica that missed the
// last questions gets 200 ms, until it is heard again.
func (m *Member) Ask(ctx context.Context) (states []*genbusv1.ReplicaState, silent []*genbusv1.SilentReplica, err error) {
	return m.ask(ctx, "")
}

// AskForHolder is Ask for the state of a job, in the field held_job; the states otherwise have only
// ID and host. It returns as soon as the holder has answered.
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

// gather receives answers until every awaited replica has answered or used up its time, or the
// holder of the job has answered.
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
			break // the remaining replicas are silent
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
	if ctx.Err() == nil { // otherwise they did not have their time
		m.countMissed(states, silent)
	}
	return states, silent
}

// countMissed records which replicas answered a question and which did not.
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

// others returns the recently heard replicas.
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
