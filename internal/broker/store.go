package broker

import "github.com/nats-io/nats.go/jetstream"

// StoreLeft is what the embedded server may still write to disk. Beyond it, it refuses every
// write to every stream, however much room that stream has. For another server it is not
// known.
func (b *Broker) StoreLeft() (bytes int64, known bool) {
	if b.embedded == nil {
		return 0, false
	}
	info, err := b.embedded.server.Jsz(nil)
	if err != nil || info.Config.MaxStore <= 0 {
		return 0, false
	}
	return info.Config.MaxStore - int64(info.Store), true
}

// StoreSpare is what the embedded server's disk still has for others than the task log: what
// the log has not used yet of its bytes is kept for it. Below zero, it is what the disk does
// not have of them. For another server it is not known.
func (b *Broker) StoreSpare(log *jetstream.StreamInfo) (bytes int64, known bool) {
	left, known := b.StoreLeft()
	return left - max(log.Config.MaxBytes-int64(log.State.Bytes), 0), known
}
