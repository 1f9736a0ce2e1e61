// Package fleet lets replicas report their state to each other (Member) and agree on which of them
// does work that needs to be done once (Lease, Claims). Nothing is stored, so two replicas, or
// none, may hold a lease for a while. Use leases only for work that may be done twice.
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
	// patience bounds the wait for answers. lostPatience bounds it for replicas that missed the
	// last maxMissed questions. Otherwise every question would take a second as long as a killed
	// replica is remembered.
	patience     = time.Second
	lostPatience = 200 * time.Millisecond
	maxMissed    = 2
	// announceEvery is how often a replica announces itself. expireAfter is how long a silent
	// replica is remembered.
	announceEvery = time.Minute
	expireAfter   = 3 * announceEvery
	// maxReplicas bounds the number of remembered replicas.
	maxReplicas = 1000
	// answerEvery limits how often a replica announces itself to new ones. leastAsk is the minimum
	// wait for answers, so that replicas that are not known yet can answer.
	answerEvery = 100 * time.Millisecond
	leastAsk    = 100 * time.Millisecond
)

// Headers of messages between replicas.
const (
	headerReplica = "genbus-replica"
	headerHost    = "genbus-host"
	headerAddress = "genbus-address"
	// headerLeaving is set in the last message of a replica that is stopping.
	headerLeaving = "genbus-leaving"
	// headerJob is the job's ID in a question to the holder of a job.
	headerJob = "genbus-job"
)

// Options configures a Member. All fields but Alone are required.
type Options struct {
	Conn   *nats.Conn
	Names  subject.Space
	Logger *slog.Logger
	// Self, Host and Address are this replica's ID, host and address (see ReplicaState).
	Self, Host, Address string
	// State returns this replica's state. It must be safe for concurrent use and must not block.
	State func() *genbusv1.ReplicaState
	// Held returns the state of a job that this replica holds, or nil if it does not hold the job.
	// Like State, it must be safe for concurrent use and must not block.
	Held func(id string) *genbusv1.HeldJob
	// Alone means that no other replica exists.
	Alone bool
}

// Member represents this replica among the others. It is safe for concurrent use.
type Member struct {
	o Options

	mu       sync.Mutex
	known    map[string]*replica // the other replicas, by ID
	answered time.Time           // when this replica last announced itself to a new one
}

// replica is another replica, as of its last message.
type replica struct {
	*genbusv1.SilentReplica
	missed int // number of latest questions without an answer
}

// New returns a Member that sends nothing until Start is called.
func New(o Options) *Member { return &Member{o: o, known: map[string]*replica{}} }

// Start starts answering the others and announcing this replica every minute. leave stops both and
// announces that this replica is leaving. When ctx ends, only the announcements stop.
func (m *Member) Start(ctx context.Context) (leave func(), err error) {
	if m.o.Alone {
		return func() {}, nil
	}
	sub, err := m.o.Conn.Subscribe(m.o.Names.Replicas(), m.handle)
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
		_ = m.o.Conn.PublishMsg(last) // without a connection, no replica receives it
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
		Header:  nats.Header{headerReplica: []string{m.o.Self}, headerHost: []string{m.o.Host}, headerAddress: []string{m.o.Address}},
	}
}

// handle handles another replica's announcement or question.
func (m *Member) handle(msg *nats.Msg) {
	id := msg.Header.Get(headerReplica)
	if id == m.o.Self || subject.CheckToken(id) != nil {
		return
	}
	if m.note(id, msg.Header) {
		_ = m.o.Conn.PublishMsg(m.message()) // the new replica does not know this one either
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

// stateOf answers a question with this replica's state. If job is set, it answers with the state of
// that job if this replica holds it.
func (m *Member) stateOf(job string) *genbusv1.ReplicaState {
	if job == "" {
		return m.o.State()
	}
	return &genbusv1.ReplicaState{Id: m.o.Self, Host: m.o.Host, Address: m.o.Address, HeldJob: m.o.Held(job)}
}

// note remembers a replica, or removes one that is leaving. It reports whether to announce this
// replica to it.
func (m *Member) note(id string, header nats.Header) (tell bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(m.known, func(_ string, r *replica) bool { return now.Sub(r.GetHeardAt().AsTime()) > expireAfter })
	_, known := m.known[id]
	switch {
	case header.Get(headerLeaving) != "":
		delete(m.known, id)
		return false
	case !known && len(m.known) >= maxReplicas:
		return false
	}
	m.known[id] = &replica{SilentReplica: &genbusv1.SilentReplica{
		Id: id, Host: clip(header.Get(headerHost)), Address: clip(header.Get(headerAddress)), HeardAt: timestamppb.New(now),
	}}
	if known || now.Sub(m.answered) < answerEvery {
		return false
	}
	m.answered = now
	return true
}

// clip shortens a host name or address to 261 bytes, the length of a long host name and a port.
func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), 261)], "") }

// Address returns a replica's address, or "" if the replica is not known.
func (m *Member) Address(id string) string {
	if id == m.o.Self {
		return m.o.Address
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.known[id]; r != nil {
		return r.GetAddress()
	}
	return ""
}

// Ask asks all replicas, including this one, for their states. It returns the states received
// within 1 s, by ID, and the recently seen replicas that did not answer and were not replaced. A
// replica that missed the last two questions gets only 200 ms until its next message.
func (m *Member) Ask(ctx context.Context) (states []*genbusv1.ReplicaState, silent []*genbusv1.SilentReplica, err error) {
	states, silent, err = m.ask(ctx, "")
	return states, unreplaced(silent, states), err
}

// unreplaced returns the silent replicas that were not replaced, by ID. ListReplicasResponse.silent
// documents the rule.
func unreplaced(silent []*genbusv1.SilentReplica, states []*genbusv1.ReplicaState) []*genbusv1.SilentReplica {
	var starts []*genbusv1.ReplicaState
	for _, s := range states {
		n := len(silent)
		if s.GetDraining() {
			continue
		}
		silent = slices.DeleteFunc(silent, func(r *genbusv1.SilentReplica) bool { return r.GetAddress() != "" && r.GetAddress() == s.GetAddress() })
		if len(silent) == n {
			starts = append(starts, s)
		}
	}
	slices.SortFunc(starts, func(a, b *genbusv1.ReplicaState) int {
		return a.GetStartedAt().AsTime().Compare(b.GetStartedAt().AsTime())
	})
	slices.SortFunc(silent, func(a, b *genbusv1.SilentReplica) int {
		return a.GetHeardAt().AsTime().Compare(b.GetHeardAt().AsTime())
	})
	for _, s := range starts {
		if len(silent) > 0 && s.GetStartedAt().AsTime().After(silent[0].GetHeardAt().AsTime()) {
			silent = silent[1:]
		}
	}
	slices.SortFunc(silent, func(a, b *genbusv1.SilentReplica) int { return strings.Compare(a.GetId(), b.GetId()) })
	return silent
}

// AskForHolder is like Ask but asks for the state of a job, in the field held_job, and lists
// replaced replicas too. Otherwise the states contain only ID, host and address. It returns as soon
// as the holder has answered.
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
	return states, silent, nil
}

// gather receives answers until every awaited replica has answered or run out of time, or the
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
			return states, nil // the others had too little time to answer
		}
	}
	known := m.others()
	for id, r := range awaited {
		if _, stays := known[id]; stays { // otherwise it left instead of answering
			silent = append(silent, r.SilentReplica)
		}
	}
	if ctx.Err() == nil { // otherwise they had too little time to answer
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
			seen := proto.CloneOf(r.SilentReplica) // answers to callers share the old one
			seen.HeardAt = timestamppb.Now()
			r.SilentReplica, r.missed = seen, 0
		}
	}
	for _, s := range silent {
		if r := m.known[s.GetId()]; r != nil {
			r.missed++
		}
	}
}

// others returns the recently seen replicas.
func (m *Member) others() map[string]replica {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]replica{}
	for id, r := range m.known {
		if time.Since(r.GetHeardAt().AsTime()) <= expireAfter {
			out[id] = *r
		}
	}
	return out
}
