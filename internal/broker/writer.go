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

// PublishTimeout is how long one publish waits for its answer.
const PublishTimeout = 5 * time.Second

var errPublishTimeout = fmt.Errorf("%w within %s", ErrNoAnswer, PublishTimeout)

// A request that found no leader is sent again: the stream has stored nothing. An election takes
// some hundred milliseconds after a step-down, and four to nine seconds after a crash. A new
// stream may also be unknown to our server for a moment after it was created.
const (
	leaderlessWait = 50 * time.Millisecond
	// answerTime is what the last try of a publish has left. A publish that is cut off may be
	// stored, and its caller would not know.
	answerTime = time.Second
)

// writer stores messages in streams.
type writer struct {
	link    *link
	names   subject.Space
	replies *replies
	shared  map[string]bool // streams whose server syncs each message on its own; never changes
	server  *embedded       // nil for another server
	faults  storeFaults

	mu sync.Mutex
	by map[string]*streamWriter // by stream; "": all other streams
}

// newWriter returns that of a connection, to the embedded server if there is one.
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

// batched are the streams that take atomic batches: those of a job's way.
func batched(n subject.Space) []string {
	return []string{n.Tasks(), n.Work(), n.Wait(), n.UsageStream()}
}

// shareFrom is how many writes to a stream wait until they share a sync: below that, staging
// the batch takes the server longer than to sync each of them (docs/adr/0024).
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

// Publish stores m in the stream that listens to its subject, and waits for the
// answer. A lost answer is not retried here: the caller decides, with the same
// message. That no stream listened is retried until the last second: nothing was stored.
func (w *writer) Publish(ctx context.Context, m *nats.Msg) (Ack, error) {
	return w.publish(ctx, m, Jobs)
}

// PublishExpecting is Publish in a lane with a compare-and-set: m is stored only if the
// last sequence on its (literal) subject is last; 0 means that there is none.
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

// Settled waits until it is known whether a message of a stream, which a consumer was given or
// which was republished, is stored for good, and reports whether it is: the embedded server
// may show the messages of a batch that it could not sync. It takes PublishTimeout at most.
// Reads are settled. A stream that takes no batches has nothing to wait for.
func (w *writer) Settled(stream string, h nats.Header) bool {
	return !w.shared[stream] || w.of(stream).settled(h)
}
