package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject/check"
)

// workDurables are the consumers that foreignAck attacks.
var workDurables = []string{
	subject.WorkDurable(subject.Video, modelFilm), subject.WorkDurable(subject.Video, modelReel), subject.WorkDurable(subject.Chat, modelTalk),
}

// maxForeignAcks limits the messages of one consumer that are returned at once.
const maxForeignAcks = 50

// foreignAck returns or extends work in flight in place of its holders. Acks are not fenced, so the
// broker accepts them and delivers the work to a second holder.
func (s *storm) foreignAck(ctx context.Context) error {
	defer s.begin(check.Fault{Kind: check.FaultForeignAck, Target: "work"})()
	r, err := newReader(s.fleet.nats)
	if err != nil {
		return err
	}
	defer r.close()
	for _, durable := range workDurables {
		c, err := r.js.Consumer(ctx, r.names.Work(), durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("consumer %s: %w", durable, err)
		}
		if err := r.returnWork(durable, c.CachedInfo()); err != nil {
			return err
		}
	}
	return r.nc.FlushTimeout(5 * time.Second)
}

// returnWork answers the messages after the last acked one up to the last delivered one. It sends a
// NAK for two of every three messages and a +WPI for the others.
func (r *reader) returnWork(durable string, info *jetstream.ConsumerInfo) error {
	from := max(info.AckFloor.Stream+1, info.Delivered.Stream-min(info.Delivered.Stream, maxForeignAcks)+1)
	for seq := from; seq <= info.Delivered.Stream; seq++ {
		word := "-NAK"
		if seq%3 == 0 {
			word = "+WPI"
		}
		ack := fmt.Sprintf("$JS.ACK.%s.%s.1.%d.%d.%d.0", r.names.Work(), durable, seq, info.Delivered.Consumer, time.Now().UnixNano())
		if err := r.nc.Publish(ack, []byte(word)); err != nil {
			return err
		}
	}
	return nil
}
