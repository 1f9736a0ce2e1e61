package broker

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// historyFrom is the share of its bytes from which a stream shows how long it keeps what it
// takes.
const historyFrom = 0.8

// DropsOld reports whether a stream drops old messages for newer ones: it discards them, or
// its subjects do, and then a publish to a full stream makes room.
func DropsOld(c jetstream.StreamConfig) bool {
	return c.Discard == jetstream.DiscardOld || c.MaxMsgsPerSubject > 0 && !c.DiscardNewPerSubject
}

// History is how long a stream keeps what it takes, as a share of its MaxAge: 1 where messages
// go by their age, and less where they are going to go before it because others need their
// bytes. A stream that drops nothing has 1 always.
func History(info *jetstream.StreamInfo) float64 {
	c, s := info.Config, info.State
	if !DropsOld(c) || c.MaxAge <= 0 || c.MaxBytes <= 0 || s.Msgs == 0 || float64(s.Bytes) < historyFrom*float64(c.MaxBytes) {
		return 1
	}
	whole := float64(info.TimeStamp.Sub(s.FirstTime)) * float64(c.MaxBytes) / float64(s.Bytes)
	return min(max(whole, float64(time.Second))/float64(c.MaxAge), 1)
}
