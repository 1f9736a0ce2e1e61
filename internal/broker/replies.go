package broker

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// replies matches the answers to what this process has published with those that wait for
// them, over one subscription. It is safe for concurrent use.
type replies struct {
	nc     *nats.Conn
	prefix string

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]func(*nats.Msg, error)
}

// newReplies returns what subscribe has still to give a connection.
func newReplies() *replies { return &replies{waiting: map[uint64]func(*nats.Msg, error){}} }

// subscribe subscribes to the answers. The subscription ends with the connection.
func (r *replies) subscribe(nc *nats.Conn) error {
	r.nc, r.prefix = nc, nc.NewInbox()+"."
	sub, err := nc.Subscribe(r.prefix+"*", r.answer)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1) // an answer that is dropped is a write of unknown fate
	}
	if err != nil {
		return fmt.Errorf("subscribe to the answers of streams: %w", err)
	}
	return nil
}

// publish sends a message, and has answered called once with its answer, or with the loss of
// the connection. After an error nothing was sent, and answered is not called.
func (r *replies) publish(m *nats.Msg, answered func(*nats.Msg, error)) (id uint64, err error) {
	r.mu.Lock()
	r.last++
	id = r.last
	r.waiting[id] = answered
	r.mu.Unlock()
	asked := *m
	asked.Reply = r.prefix + strconv.FormatUint(id, 36)
	if err := r.nc.PublishMsg(&asked); err != nil {
		if r.forget(id) {
			return 0, err
		}
	}
	return id, nil
}

// connection numbers the connection to the server: the next one has another number before
// anything is sent by it.
func (r *replies) connection() uint64 { return r.nc.Stats().Reconnects }

// forget gives up an answer, and reports whether it had not come yet.
func (r *replies) forget(id uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, waits := r.waiting[id]
	delete(r.waiting, id)
	return waits
}

func (r *replies) answer(m *nats.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, r.prefix), 36, 64)
	if err != nil {
		return
	}
	r.mu.Lock()
	answered := r.waiting[id]
	delete(r.waiting, id)
	r.mu.Unlock()
	if answered != nil {
		answered(m, nil)
	}
}

// lost tells all who wait that their answers will not come: those of a connection that was
// lost never do.
func (r *replies) lost() {
	r.mu.Lock()
	lost := r.waiting
	r.waiting = map[uint64]func(*nats.Msg, error){}
	r.mu.Unlock()
	for _, answered := range lost {
		answered(nil, nats.ErrDisconnected)
	}
}
