package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// PublishTimeout bounds the wait for one publish acknowledgement.
const PublishTimeout = 5 * time.Second

var errPublishTimeout = fmt.Errorf("%w within %s", ErrNoAnswer, PublishTimeout)

// If no stream responds to a publish, nothing was stored, so it is safe to retry. An election takes
// a few hundred milliseconds after a step-down and four to nine seconds after a crash. The
// connected server may also not know a new stream yet.
const (
	leaderlessWait = 50 * time.Millisecond
	// answerTime is how much time must be left before the deadline for another attempt. If the
	// deadline interrupted an attempt, the caller would not know whether its message was stored.
	answerTime = time.Second
)

type writer struct {
	link    *link
	names   subject.Space
	replies *replies
	shared  map[string]bool // streams in which the server syncs every message; read-only
	server  *embedded       // nil for an external server
	faults  *storeFaults

	mu sync.Mutex
	by map[string]*streamWriter // by stream; "" for subjects outside the known streams
}

// newWriter returns a writer that publishes over l. server is nil for an external server.
func newWriter(l *link, n subject.Space, server *embedded) *writer {
	w := &writer{link: l, names: n, replies: newReplies(), server: server, faults: &storeFaults{}, by: map[string]*streamWriter{}, shared: map[string]bool{}}
	l.onLost = w.replies.lost
	if server != nil {
		w.faults = &server.faults
	}
	if server != nil && !server.options.NoSync {
		for _, stream := range batched(n) {
			w.shared[stream] = true
		}
	}
	return w
}

// batched returns the streams that accept atomic batches. Every job writes to these streams.
func batched(n subject.Space) []string {
	return []string{n.Tasks(), n.Work(), n.Wait(), n.UsageStream()}
}

// shareFrom is the minimum number of waiting writes to send as a batch that shares one sync. For
// fewer writes, staging a batch takes the server longer than syncing each message (ADR 24).
const shareFrom = 32

func (w *writer) of(stream string) *streamWriter {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.by[stream]
	if one == nil {
		o := streamOptions{Timeout: PublishTimeout}
		if w.shared[stream] {
			o.ShareFrom, o.HasCapacity = shareFrom, w.server.hasBatchCapacity
			o.Sound = func() bool { return w.server.sound(stream) }
		}
		one = newStreamWriter(w.replies, o)
		w.by[stream] = one
	}
	return one
}

// Publish stores m in the stream that listens on its subject and returns the ack. It retries while
// no stream responds, until one second before PublishTimeout or the deadline of ctx, whichever is
// earlier. It does not retry if the answer is lost. The message may then be stored, and the caller
// must decide what to do. Errors are classified by Classify.
func (w *writer) Publish(ctx context.Context, m *nats.Msg) (Ack, error) {
	return w.publish(ctx, m, Jobs)
}

// PublishExpecting is like Publish, but uses the given lane and stores m only if last is the
// sequence of the last message on the subject, which must be literal. If last is 0, the subject
// must have no messages.
func (w *writer) PublishExpecting(ctx context.Context, lane Lane, m *nats.Msg, last uint64) (Ack, error) {
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last, 10)}
	return w.publish(ctx, m, lane)
}

func (w *writer) publish(ctx context.Context, m *nats.Msg, lane Lane) (ack Ack, err error) {
	begin := time.Now()
	deadline, bounded := ctx.Deadline()
	if until := begin.Add(PublishTimeout); !bounded || until.Before(deadline) {
		deadline = until
	}
	timeout := time.NewTimer(PublishTimeout) // cheaper than a context
	defer timeout.Stop()
	if err := cmp.Or(w.diskFull(), w.room(eventSpace)); err != nil {
		return Ack{}, fmt.Errorf("publish to %s: %w", m.Subject, err)
	}
	stream := w.names.StreamOf(m.Subject)
	one := w.of(stream)
	for {
		ack, err = one.write(ctx, m, lane, timeout.C)
		if !errors.Is(err, nats.ErrNoResponders) || time.Until(deadline) < answerTime || Wait(ctx, leaderlessWait) != nil {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("publish to %s: %w", m.Subject, Classify(err))
		w.noteWrite(stream, err, time.Since(begin) >= PublishTimeout)
		return Ack{}, err
	}
	w.noteWrite(stream, nil, false)
	return ack, nil
}

// Synced reports whether a message from a consumer or a republished message is durably stored. It
// is needed because the embedded server may deliver messages of a batch that it could not sync.
// Synced waits up to PublishTimeout for a batch in flight. It returns true for streams without
// batches. Messages returned by reads are already synced.
func (w *writer) Synced(stream string, h nats.Header) bool {
	return !w.shared[stream] || w.of(stream).synced(h)
}
