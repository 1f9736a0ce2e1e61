package broker

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// StoreRemaining returns how many bytes the embedded server may still write to disk. At 0, the
// server refuses writes to every stream, regardless of the stream's own limits. known is false for
// an external server.
func (b *Broker) StoreRemaining() (bytes int64, known bool) {
	if b.embedded == nil {
		return 0, false
	}
	return b.embedded.storeRemaining()
}

// storeRemaining uses Varz, because Jsz waits for streams that are being synced. JetStream.Config
// is nil after a shutdown.
func (e *embedded) storeRemaining() (bytes int64, known bool) {
	v, err := e.server().Varz(nil)
	if err != nil || v.JetStream.Config == nil || v.JetStream.Config.MaxStore <= 0 {
		return 0, false
	}
	return v.JetStream.Config.MaxStore - int64(v.JetStream.Stats.Store), true
}

// Batches need batchReserve bytes of free space, which hasBatchCapacity checks every
// batchReserveCheckEvery. If the store fills up during a batch, the server stores part of it and
// neither syncs it nor answers.
const (
	batchReserve           = 256 << 20
	batchReserveCheckEvery = time.Second
)

func (e *embedded) hasBatchCapacity() bool {
	now := time.Now().UnixNano()
	if checkedAt := e.checkedAt.Load(); now-checkedAt >= int64(batchReserveCheckEvery) && e.checkedAt.CompareAndSwap(checkedAt, now) {
		remaining, known := e.storeRemaining()
		e.full.Store(known && remaining < batchReserve)
	}
	return !e.full.Load()
}

// sound reports whether the server has written and synced a stream without errors so far. It waits
// for a sync in progress.
func (e *embedded) sound(stream string) bool {
	return !e.inRestartGrace() && e.server().Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Stream: stream}).Status == "ok"
}

// StoreSpare returns the free bytes of the embedded server's store minus those reserved for the job
// log, which is the unused part of the log's max_bytes. If the result is negative, the reserved
// bytes exceed the free ones. known is false for an external server.
func (b *Broker) StoreSpare(log *jetstream.StreamInfo) (bytes int64, known bool) {
	remaining, known := b.StoreRemaining()
	return remaining - max(log.Config.MaxBytes-int64(log.State.Bytes), 0), known
}
