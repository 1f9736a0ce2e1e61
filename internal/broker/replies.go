package broker

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// replies routes the answers to published messages to their callbacks. It uses one subscription for
// all of them. It is safe for concurrent use.
type replies struct {
	nc     *nats.Conn
	prefix string

	mu        sync.Mutex
	last      uint64
	callbacks map[uint64]func(*nats.Msg, error)
}

// newReplies returns a replies value. Call subscribe before the first publish.
func newReplies() *replies { return &replies{callbacks: map[uint64]func(*nats.Msg, error){}} }

// subscribe subscribes nc to the answers. The subscription ends with the connection.
func (r *replies) subscribe(nc *nats.Conn) error {
	r.nc, r.prefix = nc, nc.NewInbox()+"."
	sub, err := nc.Subscribe(r.prefix+"*", r.answer)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1) // a dropped answer would leave a write undecided
	}
	if err != nil {
		return fmt.Errorf("subscribe to the answers of streams: %w", err)
	}
	return nil
}

// publish sends a copy of m. It calls answered exactly once, with the answer or with an error if
// the connection is lost. If publish returns an error, it has sent nothing and does not call
// answered.
func (r *replies) publish(m *nats.Msg, answered func(*nats.Msg, error)) (id uint64, err error) {
	r.mu.Lock()
	r.last++
	id = r.last
	r.callbacks[id] = answered
	r.mu.Unlock()
	asked := *m
	asked.Reply = r.prefix + strconv.FormatUint(id, 36)
	if err := r.nc.PublishMsg(&asked); err != nil {
		if r.remove(id) {
			return 0, err
		}
	}
	return id, nil
}

// connection returns a number that identifies the current connection. It changes on a reconnect
// before anything is sent over the new connection.
func (r *replies) connection() uint64 { return r.nc.Stats().Reconnects }

// remove removes a callback and reports whether its answer was still outstanding.
func (r *replies) remove(id uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, waits := r.callbacks[id]
	delete(r.callbacks, id)
	return waits
}

func (r *replies) answer(m *nats.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, r.prefix), 36, 64)
	if err != nil {
		return
	}
	r.mu.Lock()
	answered := r.callbacks[id]
	delete(r.callbacks, id)
	r.mu.Unlock()
	if answered != nil {
		answered(m, nil)
	}
}

// lost fails all outstanding callbacks, because their answers cannot arrive over a new connection.
func (r *replies) lost() {
	r.mu.Lock()
	lost := r.callbacks
	r.callbacks = map[uint64]func(*nats.Msg, error){}
	r.mu.Unlock()
	for _, answered := range lost {
		answered(nil, nats.ErrDisconnected)
	}
}
