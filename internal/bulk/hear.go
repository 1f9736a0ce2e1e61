package bulk

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

// Headers of what replicas tell each other of operations. The messages are not stored: they say
// more often that a replica goes on than GENBUS_OPS has room for.
const (
	headerOperation = "genbus-operation"
	headerReplica   = "genbus-replica"
	// headerStop is set where the operation is to be stopped.
	headerStop = "genbus-stop"
)

// stopPatience is how long a replica has to answer that it stops an operation.
const stopPatience = 2 * time.Second

// announce tells the other replicas that this one goes on with an operation, or that one is to
// be stopped.
func (r *Runner) announce(id string, more ...string) {
	_ = r.o.Broker.Conn().PublishMsg(r.message(id, more...)) // without a connection no one hears; what is stored counts
}

func (r *Runner) message(id string, more ...string) *nats.Msg {
	m := nats.NewMsg(r.names().Operations())
	m.Header[headerOperation], m.Header[headerReplica] = []string{id}, []string{r.o.Self}
	for _, name := range more {
		m.Header[name] = []string{"true"}
	}
	return m
}

// hear takes what a replica says of an operation.
func (r *Runner) hear(m *nats.Msg) {
	id := m.Header.Get(headerOperation)
	x := r.execution(id)
	switch {
	case m.Header.Get(headerStop) != "":
		if x != nil {
			x.halt()
			r.answer(m)
		}
	case m.Header.Get(headerReplica) == r.o.Self:
	case x != nil:
		x.rouse() // another one does it too: what is stored says which is to go on
	default:
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.heard) < maxHeard {
			r.heard[id] = time.Now()
		}
	}
}

// maxHeard bounds the operations that are remembered until watch looks.
const maxHeard = 10_000

func (r *Runner) answer(m *nats.Msg) {
	if !broker.IsInbox(m.Reply) {
		return
	}
	if err := m.Respond(nil); err != nil {
		r.o.Logger.Debug("a stop of an operation was not answered", telemetry.KeyError, err)
	}
}

// heardOf gives what was heard since it was asked last.
func (r *Runner) heardOf() map[string]time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := r.heard
	r.heard = map[string]time.Time{}
	return heard
}

// stopUnstored has the replica that does an operation stop it where that cannot be stored.
func (r *Runner) stopUnstored(ctx context.Context, id string, full error) error {
	if x := r.execution(id); x != nil {
		x.halt()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	if _, err := r.o.Broker.Conn().RequestMsgWithContext(ctx, r.message(id, headerStop)); err != nil {
		return errcode.New(errcode.StorageFull,
			"operation %s is not stopped: no replica says that it does it, and the stream of what operators did has no room; raise nats.streams.ops.max_bytes, and stop it then", id).Because(full)
	}
	return nil
}
