package admission

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// waitingRoom is what this replica knows of the jobs that wait for their turn: one
// ordered consumer tells it of each, without its body. That others moved them on,
// it finds out when it looks for them.
type waitingRoom struct {
	mu     sync.Mutex
	routes map[string]*waitingRoute // by durable

	// again has a token when what waits is to be read from its beginning.
	again chan struct{}
}

// waitingRoute is what waits for one route.
type waitingRoute struct {
	signal chan struct{} // has a token when an usher may have something to do

	mu    sync.Mutex
	turns *turns
}

func newWaitingRoom() *waitingRoom {
	return &waitingRoom{routes: map[string]*waitingRoute{}, again: make(chan struct{}, 1)}
}

func (w *waitingRoom) route(kind subject.Kind, name string) *waitingRoute {
	durable := subject.WorkDurable(kind, name)
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.routes[durable]
	if r == nil {
		r = &waitingRoute{signal: make(chan struct{}, 1), turns: newTurns()}
		w.routes[durable] = r
	}
	return r
}

// see lets a job wait.
func (w *waitingRoom) see(names subject.Space, m jetstream.Msg) {
	n, err := names.ParseWaitItem(m.Subject())
	if err != nil {
		return
	}
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	r := w.route(n.Kind, n.Route)
	r.mu.Lock()
	r.turns.add(n.Tenant, meta.Sequence.Stream)
	r.mu.Unlock()
	r.ring()
}

// follow hears of what waits until ctx ends. The returned channel is closed then.
func (w *waitingRoom) follow(ctx context.Context, b *broker.Broker, log *slog.Logger) (<-chan struct{}, error) {
	var c jetstream.Consumer
	err := b.Patiently(ctx, "follow what waits", func(ctx context.Context) (err error) {
		c, err = b.JetStream().OrderedConsumer(ctx, b.Names().Wait(), jetstream.OrderedConsumerConfig{
			FilterSubjects: []string{b.Names().WaitPattern()}, HeadersOnly: true, InactiveThreshold: 30 * time.Second,
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("follow what waits: %w", err)
	}
	consuming, err := c.Consume(func(m jetstream.Msg) { w.see(b.Names(), m) }, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		log.Debug("what waits: consumer", "error", err)
	}))
	if err != nil {
		return nil, fmt.Errorf("follow what waits: %w", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		consuming.Stop()
		<-consuming.Closed()
	}()
	return done, nil
}

func (r *waitingRoute) ring() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// tenants is the number of tenants that wait.
func (r *waitingRoute) tenants() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.turns.tenants)
}

// next takes the job whose turn it is.
func (r *waitingRoute) next(now time.Time) (turn, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	tenant, seq, ok := r.turns.next(now)
	return turn{tenant: tenant, seq: seq}, ok
}

// turn is a job whose turn it is.
type turn struct {
	tenant string
	seq    uint64
}

// putBack lets a job wait again for at least as long as d.
func (r *waitingRoute) putBack(t turn, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns.putBack(t.tenant, t.seq, time.Now().Add(d))
}

func (r *waitingRoute) hit(t turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns.hit(t.tenant)
}

func (r *waitingRoute) miss(t turn) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns.miss(t.tenant)
}

func (r *waitingRoute) latest(tenant string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns.latest(tenant)
}

func (r *waitingRoute) forget(tenant string, before uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns.forget(tenant, before)
}
