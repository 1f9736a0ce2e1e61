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

// unreplicated tracks the streams of a server outside any cluster. Such a stream has exactly one
// replica, so a direct get is as current as a read by the leader, without its JSON and base64. A
// single-replica stream in a cluster does not qualify, because it may gain replicas or move before
// this process learns of it.
//
// An entry is valid only for the connection on which it was learned: after a reconnect, the server
// may be part of a cluster.
type unreplicated struct {
	mu      sync.RWMutex
	streams map[string]context.Context // ends with the connection
}

// learn records whether the stream of info, read over the connection of down, is unreplicated.
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

// getUnreplicated reads a message with a direct get. decided is false if the leader must answer: a
// mirror, which may be behind, can answer too, and only a found message names the stream that it
// was read from.
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

// storedMessage converts a direct get reply to the message that the leader would return, without
// the headers that the server adds.
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
