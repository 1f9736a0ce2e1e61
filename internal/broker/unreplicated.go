package broker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/streamread"
)

// unreplicated are the streams that one server has for itself: it is in no cluster, so that
// its stream cannot have another replica either. What is stored there is what a direct get
// finds, and that costs a fraction of the leader's answer, which is JSON with the message in
// base64. Of a stream with one replica in a cluster that is not so: it may have more, or move
// to another server, before this process hears of it.
//
// Each is known by the connection over which it was seen: after the next one the server may be
// in a cluster.
type unreplicated struct {
	mu      sync.RWMutex
	streams map[string]context.Context // which ends with the connection
}

// learn takes what was read of a stream over the connection of down.
func (u *unreplicated) learn(down context.Context, info *jetstream.StreamInfo) {
	c := info.Config
	alone := c.Replicas <= 1 && c.AllowDirect && c.Mirror == nil && (info.Cluster == nil || info.Cluster.Name == "" && len(info.Cluster.Replicas) == 0)
	u.mu.Lock()
	defer u.mu.Unlock()
	if !alone {
		delete(u.streams, c.Name)
		return
	}
	if u.streams == nil {
		u.streams = map[string]context.Context{}
	}
	u.streams[c.Name] = down
}

func (u *unreplicated) forget(stream string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.streams, stream)
}

func (u *unreplicated) has(stream string) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	down, known := u.streams[stream]
	return known && down.Err() == nil
}

// getUnreplicated reads a message by a direct get. Not decided: the leader is to be asked. A
// mirror of the stream may answer too, which is behind. A message says what stream it was
// read from, and that there is none does not.
func (r *reader) getUnreplicated(ctx context.Context, stream string, req streamread.Request) (m Stored, decided bool, err error) {
	reply, err := r.read(ctx, stream, directSubject(stream), req)
	if errors.Is(err, nats.ErrNoResponders) {
		r.unreplicated.forget(stream)
		return Stored{}, false, nil
	}
	if err != nil {
		return Stored{}, true, err
	}
	if reply.Header.Get(headerStatus) != "" || reply.Header.Get(jetstream.StreamHeader) != stream {
		return Stored{}, false, nil
	}
	m, err = storedMessage(reply)
	return m, true, err
}

func directSubject(stream string) string { return "$JS.API.DIRECT.GET." + stream }

// storedMessage is the message of a direct get as the leader would give it: without what the
// server says of it in headers.
func storedMessage(reply *nats.Msg) (m Stored, err error) {
	h := reply.Header
	m = Stored{Subject: h.Get(jetstream.SubjectHeader), Seq: Number(h, jetstream.SequenceHeader), Header: h, Data: reply.Data}
	if m.Time, err = time.Parse(time.RFC3339Nano, h.Get(jetstream.TimeStampHeaer)); err != nil {
		return Stored{}, fmt.Errorf("read from %s: the answer has no time: %w", h.Get(jetstream.StreamHeader), err)
	}
	for _, key := range []string{jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer} {
		delete(h, key)
	}
	if len(h) == 0 {
		m.Header = nil
	}
	if len(m.Data) == 0 {
		m.Data = nil
	}
	return m, nil
}
