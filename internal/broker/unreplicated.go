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

// unreplicated tracks the streams of a server that is not part of a cluster. Such a stream has
// exactly one replica, so a direct get is as current as a read from the leader and avoids its JSON
// and base64 encoding. A single-replica stream in a cluster does not qualify, because it may gain
// replicas or move before this process notices.
//
// An entry is valid only for the connection on which it was learned, because the server may have
// joined a cluster by the time the client reconnects.
type unreplicated struct {
	mu      sync.RWMutex
	streams map[string]context.Context // done when the connection is lost
}

// learn records whether the stream described by info is unreplicated. down is the context of the
// connection over which info was read.
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

func (u *unreplicated) remove(stream string) {
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

// getUnreplicated reads a message with a direct get. If decided is false, the caller must ask the
// leader. A mirror can also answer a direct get and may lag, and only an answer with a message
// names the stream that it came from.
func (r *reader) getUnreplicated(ctx context.Context, stream string, req streamread.Request) (m Stored, decided bool, err error) {
	reply, err := r.read(ctx, stream, directSubject(stream), req)
	if errors.Is(err, nats.ErrNoResponders) {
		r.unreplicated.remove(stream)
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

// storedMessage converts the reply to a direct get into the message that the leader would return.
// It removes the headers that the server added.
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
