package broker_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	for name, c := range map[string]struct {
		discard jetstream.DiscardPolicy
		bytes   uint64 // out of 1000
		age     time.Duration
		want    float64
	}{
		"empty":                              {jetstream.DiscardOld, 0, 0, 1},
		"not full yet":                       {jetstream.DiscardOld, 799, time.Minute, 1},
		"nothing was dropped yet":            {jetstream.DiscardOld, 800, 6 * time.Hour, 0.75},
		"full":                               {jetstream.DiscardOld, 1000, 5 * time.Hour, 0.5},
		"full in a moment":                   {jetstream.DiscardOld, 1000, 0, 1. / 36_000},
		"as full as it gets, and old enough": {jetstream.DiscardOld, 990, 10 * time.Hour, 1},
		"it refuses instead":                 {jetstream.DiscardNew, 1000, time.Minute, 1},
	} {
		info := &jetstream.StreamInfo{
			Config:    jetstream.StreamConfig{Discard: c.discard, MaxBytes: 1000, MaxAge: 10 * time.Hour},
			State:     jetstream.StreamState{Msgs: min(c.bytes, 1), Bytes: c.bytes, FirstTime: now.Add(-c.age)},
			TimeStamp: now,
		}
		if got := broker.History(info); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
