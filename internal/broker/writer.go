package broker

import (
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

// A publish without responders stored nothing, so it is safe to retry. An election takes a few
// hundred milliseconds after a step-down and four to nine seconds after a crash. A new stream may
// also be unknown to the connected server for a moment.
const (
	leaderlessWait = 50 * time.Millisecond
	// answerTime is the least time left for a retry. If the deadline cut a retry off, the caller
	// would not know whether its message is stored.
	answerTime = time.Second
)

type writer struct {
	link    *link
	names   subject.Space
	replies *replies
	shared  map[string]bool // streams that the server syncs message by message; never changes
	server  *embedded       // nil if external
	faults  storeFaults

	mu sync.Mutex
	by map[string]*streamWriter // by stream; "" for all others
}

// newWriter returns the writer of a connection. server is nil for an external server.
func newWriter(l *link, n subject.Space, server *embedded) *writer {
	w := &writer{link: l, names: n, replies: newReplies(), server: server, by: map[string]*streamWriter{}, shared: map[string]bool{}}
	l.onLost = w.replies.lost
	if server != nil && !server.options.NoSync {
		for _, stream := range batched(n) {
			w.shared[stream] = true
		}
	}
	return w
}

// batched returns the streams that accept atomic batches: those on the path of every job.
func batched(n subject.Space) []string {
	return []string{n.Tasks(), n.Work(), n.Wait(), n.UsageStream()}
}

// shareFrom is the number of waiting writes from which they share a sync. With fewer writes,
// staging a batch takes the server longer than syncing each message (docs/adr/0024).
const shareFrom = 32

func (w *writer) of(stream string) *streamWriter {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.by[stream]
	if one == nil {
		o := streamOptions{Timeout: PublishTimeout}
		if w.shared[stream] {
			o.ShareFrom, o.Room = shareFrom, w.server.hasRoom
			o.Sound = func() bool { return w.server.sound(stream) }
		}
		one = newStreamWriter(w.replies, o)
		w.by[stream] = one
	}
	return one
}

// Publish stores m in the stream that listens to its subject and returns the ack. It retries while
// no stream responds, until one second before PublishTimeout. It does not retry after a lost
// answer: the caller decides, because the message may be stored. Errors have the meanings of
// Classify.
func (w *writer) Publish(ctx context.Context, m *nats.Msg) (Ack, error) {
	return w.publish(ctx, m, Jobs)
}

// PublishExpecting is Publish in a lane with a compare-and-set: it stores m only if last is the
// last sequence on its literal subject. 0 means that the subject has no messages.
func (w *writer) PublishExpecting(ctx context.Context, lane Lane, m *nats.Msg, last uint64) (Ack, error) {
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last, 10)}
	return w.publish(ctx, m, lane)
}

func (w *writer) publish(ctx context.Context, m *nats.Msg, lane Lane) (ack Ack, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, PublishTimeout, errPublishTimeout)
	defer cancel()
	if err := w.cannotStore(); err != nil {
		return Ack{}, fmt.Errorf("publish to %s: %w", m.Subject, err)
	}
	stream := w.names.StreamOf(m.Subject)
	one := w.of(stream)
	deadline, _ := ctx.Deadline()
	for {
		ack, err = one.write(ctx, m, lane)
		if !errors.Is(err, nats.ErrNoResponders) || time.Until(deadline) < answerTime || Wait(ctx, leaderlessWait) != nil {
			break
		}
	}
	if err != nil {
		err = fmt.Errorf("publish to %s: %w", m.Subject, Classify(err))
		w.noteWrite(ctx, stream, err)
		return Ack{}, err
	}
	w.noteWrite(ctx, stream, nil)
	return ack, nil
}

// Settled reports whether a message delivered by a consumer or republished is durably stored; the
// embedded server may show messages of a batch that it could not sync. It waits up to
// PublishTimeout for a batch in flight. Messages of streams without batches are settled, and so are
// the results of reads.
func (w *writer) Settled(stream string, h nats.Header) bool {
	return !w.shared[stream] || w.of(stream).settled(h)
}
