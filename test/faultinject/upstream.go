package faultinject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/genbus/genbus/internal/sandbox"
)

// Timing configures how long the faults of an Upstream last. Zero fields have their defaults.
type Timing struct {
	// Latency is the longest delay of the fault Latency. Default 2s.
	Latency time.Duration
	// Late is the time from the create to the completion of a TaskLate task. It must be longer than
	// the route's deadline. Default 5m.
	Late time.Duration
	// Drip is the time between the pieces of a Drip. Default 50ms.
	Drip time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Latency = cmp.Or(t.Latency, 2*time.Second)
	t.Late = cmp.Or(t.Late, 5*time.Minute)
	t.Drip = cmp.Or(t.Drip, 50*time.Millisecond)
	return t
}

// UpstreamOptions configure an Upstream.
type UpstreamOptions struct {
	// Addr is the address to listen on. The default "127.0.0.1:0" selects a free port.
	Addr string
	// Seed and Faults determine the fault of each request.
	Seed uint64
	// Faults is the initial mix. The default has no faults.
	Faults Mix
	// Timing configures how long faults last.
	Timing Timing
	// Sandbox configures the model behind the faults. With RepeatCreates, every accepted POST
	// creates a task, as most real upstreams do. Without it, a repeated Idempotency-Key returns its
	// first task, which is paid only once. The ledger does not record faults that a request itself
	// asks the sandbox for.
	Sandbox sandbox.Options
}

// Upstream is a sandbox behind a server that misbehaves. The server reads its TCP connections
// directly, so that the ledger records the requests on the wire before any library interprets them.
// It speaks HTTP/1.1. It is safe for concurrent use.
type Upstream struct {
	listener net.Listener
	sandbox  *sandbox.Sandbox
	control  http.Handler
	seed     uint64
	timing   Timing
	mix      atomic.Pointer[Mix]
	ledger   *ledger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  map[*wire]struct{} // nil once closed
}

// NewUpstream starts an upstream. An error names the address or the fault.
func NewUpstream(o UpstreamOptions) (*Upstream, error) {
	if err := o.Faults.Validate(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", cmp.Or(o.Addr, "127.0.0.1:0"))
	if err != nil {
		return nil, fmt.Errorf("start the fault upstream: %w", err)
	}
	u := &Upstream{
		listener: listener, sandbox: sandbox.New(o.Sandbox), seed: o.Seed, timing: o.Timing.withDefaults(),
		ledger: newLedger(), conns: map[*wire]struct{}{},
	}
	u.control = u.controls()
	u.ctx, u.cancel = context.WithCancel(context.Background()) // lives until Close, which is longer than this call
	mix := o.Faults.clone()
	u.mix.Store(&mix)
	u.wg.Go(u.accept)
	return u, nil
}

func (u *Upstream) accept() {
	for {
		conn, err := u.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // the client disconnected before the accept
		}
		u.wg.Go(func() { u.serve(newWire(u, conn)) })
	}
}

func (u *Upstream) serve(w *wire) {
	if u.track(w) {
		w.serve()
	}
	w.reset()
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.conns, w)
}

// track adds a connection. It returns false if the upstream is closed.
func (u *Upstream) track(w *wire) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.conns != nil {
		u.conns[w] = struct{}{}
	}
	return u.conns != nil
}

// URL returns the base URL, such as "http://127.0.0.1:8090".
func (u *Upstream) URL() string { return "http://" + u.listener.Addr().String() }

// SetMix changes the faults of subsequent requests. The request counts continue, so a seed replays
// a run only with the same changes.
func (u *Upstream) SetMix(m Mix) error {
	if err := m.Validate(); err != nil {
		return err
	}
	m = m.clone()
	u.mix.Store(&m)
	return nil
}

// Record returns a copy of everything seen so far.
func (u *Upstream) Record() Record { return u.ledger.record() }

// Ledger returns the creates and chats in order of arrival.
func (u *Upstream) Ledger() []Post { return u.ledger.record().Posts }

// Tasks returns the created tasks in order.
func (u *Upstream) Tasks() (tasks []PaidTask) {
	u.ledger.read(func(l *ledger) { tasks = slices.Clone(l.tasks) })
	return tasks
}

// FaultCounts returns how often each fault was chosen, by "op/fault".
func (u *Upstream) FaultCounts() (counts map[string]int) {
	u.ledger.read(func(l *ledger) { counts = maps.Clone(l.faults) })
	return counts
}

// Polls returns the number of task reads.
func (u *Upstream) Polls() (polls int64) {
	u.ledger.read(func(l *ledger) { polls = l.polls })
	return polls
}

// Close stops listening, resets every connection and waits for running requests. It may be called
// twice.
func (u *Upstream) Close() error {
	u.cancel()
	u.sandbox.Close()
	err := u.listener.Close()
	u.mu.Lock()
	conns := u.conns
	u.conns = nil
	u.mu.Unlock()
	for w := range conns {
		w.reset()
	}
	u.wg.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the fault upstream: %w", err)
	}
	return nil
}
