package broker

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// StoreLeft returns how many bytes the embedded server may still write to disk. At 0, the server
// refuses writes to every stream, regardless of the stream's own limits. known is false for an
// external server.
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

// Batches need roomForBatches bytes of free space, which hasRoom checks every roomEvery. If the
// store fills up during a batch, the server stores part of it and neither syncs it nor answers.
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

// sound reports whether the server has written and synced a stream without errors so far. It waits
// for a sync in progress.
func (e *embedded) sound(stream string) bool {
	return !e.settling() && e.server().Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Stream: stream}).Status == "ok"
}

// StoreSpare returns the free bytes of the embedded server's store minus those reserved for the job
// log, which is the unused part of the log's max_bytes. If the result is negative, the reserved
// bytes exceed the free ones. known is false for an external server.
func (b *Broker) StoreSpare(log *jetstream.StreamInfo) (bytes int64, known bool) {
	left, known := b.StoreLeft()
	return left - max(log.Config.MaxBytes-int64(log.State.Bytes), 0), known
}
