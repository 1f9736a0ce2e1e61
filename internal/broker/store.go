package broker

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// StoreLeft is what the embedded server may still write to disk. Beyond it, it refuses every
// write to every stream, however much room that stream has. For another server it is not
// known.
func (b *Broker) StoreLeft() (bytes int64, known bool) {
	if b.embedded == nil {
		return 0, false
	}
	return b.embedded.storeLeft()
}

// storeLeft reads what the server counts, by Varz: Jsz looks at each stream too, and waits for
// the sync of one. A server that was shut down has no JetStream.
func (e *embedded) storeLeft() (bytes int64, known bool) {
	v, err := e.server().Varz(nil)
	if err != nil || v.JetStream.Config == nil || v.JetStream.Config.MaxStore <= 0 {
		return 0, false
	}
	return v.JetStream.Config.MaxStore - int64(v.JetStream.Stats.Store), true
}

// Batches are sent while this much is left of the store, which is looked at as often: where it
// ends within a batch, the server stores some of it, answers nothing and syncs nothing.
const (
	roomForBatches = 256 << 20
	roomEvery      = time.Second
)

// hasRoom reports whether the store has room for many batches.
func (e *embedded) hasRoom() bool {
	now := time.Now().UnixNano()
	if looked := e.looked.Load(); now-looked >= int64(roomEvery) && e.looked.CompareAndSwap(looked, now) {
		left, known := e.storeLeft()
		e.full.Store(known && left < roomForBatches)
	}
	return !e.full.Load()
}

// sound reports whether the server has met no error when it wrote to a stream or synced it. It
// waits for a sync that is under way.
func (e *embedded) sound(stream string) bool {
	return !e.settling() && e.server().Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Stream: stream}).Status == "ok"
}

// StoreSpare is what the embedded server's disk still has for others than the task log: what
// the log has not used yet of its bytes is kept for it. Below zero, it is what the disk does
// not have of them. For another server it is not known.
func (b *Broker) StoreSpare(log *jetstream.StreamInfo) (bytes int64, known bool) {
	left, known := b.StoreLeft()
	return left - max(log.Config.MaxBytes-int64(log.State.Bytes), 0), known
}
