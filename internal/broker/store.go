package broker

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// StoreLeft returns how many bytes the embedded server may still write to disk. At 0, it refuses
// writes to every stream, whatever the stream's own limit. known is false for an external server.
func (b *Broker) StoreLeft() (bytes int64, known bool) {
	if b.embedded == nil {
		return 0, false
	}
	return b.embedded.storeLeft()
}

// storeLeft uses Varz, because Jsz waits for streams that are being synced. JetStream.Config is nil
// after a shutdown.
func (e *embedded) storeLeft() (bytes int64, known bool) {
	v, err := e.server().Varz(nil)
	if err != nil || v.JetStream.Config == nil || v.JetStream.Config.MaxStore <= 0 {
		return 0, false
	}
	return v.JetStream.Config.MaxStore - int64(v.JetStream.Stats.Store), true
}

// Batches need roomForBatches bytes of free store, checked every roomEvery. If the store fills up
// within a batch, the server stores part of it and neither answers nor syncs.
const (
	roomForBatches = 256 << 20
	roomEvery      = time.Second
)

func (e *embedded) hasRoom() bool {
	now := time.Now().UnixNano()
	if looked := e.looked.Load(); now-looked >= int64(roomEvery) && e.looked.CompareAndSwap(looked, now) {
		left, known := e.storeLeft()
		e.full.Store(known && left < roomForBatches)
	}
	return !e.full.Load()
}

// sound reports whether the server has met no error while writing or syncing a stream. It waits for
// a sync in progress.
func (e *embedded) sound(stream string) bool {
	return !e.settling() && e.server().Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Stream: stream}).Status == "ok"
}

// StoreSpare returns the bytes of the embedded server's disk that are free for anything but the job
// log; the log's unused share of its max_bytes stays reserved. A negative result is the shortfall
// of that reserve. known is false for an external server.
func (b *Broker) StoreSpare(log *jetstream.StreamInfo) (bytes int64, known bool) {
	left, known := b.StoreLeft()
	return left - max(log.Config.MaxBytes-int64(log.State.Bytes), 0), known
}
