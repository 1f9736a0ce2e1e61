package broker

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// historyFrom is the share of MaxBytes that must be in use before History estimates the retention.
// Below that, MaxBytes does not limit the retention yet.
const historyFrom = 0.8

// DropsOld reports whether publishing to a full stream or subject drops old messages.
func DropsOld(c jetstream.StreamConfig) bool {
	return c.Discard == jetstream.DiscardOld || c.MaxMsgsPerSubject > 0 && !c.DiscardNewPerSubject
}

// History estimates how long a stream keeps messages, as a share of its MaxAge. 1 means that
// messages expire by age. A smaller value means that newer messages displace them earlier. History
// returns 1 for a stream that never drops messages.
func History(info *jetstream.StreamInfo) float64 {
	c, s := info.Config, info.State
	if !DropsOld(c) || c.MaxAge <= 0 || c.MaxBytes <= 0 || s.Msgs == 0 || float64(s.Bytes) < historyFrom*float64(c.MaxBytes) {
		return 1
	}
	whole := float64(info.TimeStamp.Sub(s.FirstTime)) * float64(c.MaxBytes) / float64(s.Bytes)
	return min(max(whole, float64(time.Second))/float64(c.MaxAge), 1)
}
