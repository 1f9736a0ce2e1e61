package deadletter

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// Limits for the dead letters of rejected requests, per kind and tenant. A dead letter of up to
// rejectedWhole bytes is stored whole, so that it can be redriven. In a larger one, the data and
// the headers are each cut to rejectedCut bytes. JetStream keeps broker.RejectedPerSubject messages
// per subject. Small dead letters share rejectedSlots subjects and large ones use a single subject,
// so each group stays below 12.5 MiB.
const (
	rejectedWhole = publisher.ClaimCheck
	rejectedCut   = 4 << 10
	rejectedSmall = 4 << 10
	rejectedSlots = rejectedWhole / rejectedSmall
	largeSlot     = "large"
)

// Reject stores the dead letter of an inbox message that was never accepted. seq and stored
// identify the message. Reject does not use the object store, and reads nothing unless the stream
// is full, because invalid requests must be cheap. A message that is rejected twice may have two
// dead letters. Both have the same Nats-Msg-Id, so redriving both creates only one job.
func (d Store) Reject(ctx context.Context, letter *genbusv1.DeadLetter, seq uint64, stored time.Time) error {
	slot := largeSlot
	switch size := proto.Size(letter); {
	case size > min(rejectedWhole, int(d.Broker.MaxPayload())-envelope):
		cut(letter)
	case size <= rejectedSmall:
		slot = strconv.FormatUint(seq%rejectedSlots, 10)
	}
	subj := d.Broker.Names().RejectedDeadLetter(subject.Kind(letter.GetKind()), letter.GetTenant(), slot)
	for {
		err := d.publish(ctx, letter, subj, fmt.Sprintf("inbox.%d.%d", stored.UnixNano(), seq))
		if errors.Is(err, broker.ErrFull) && !errors.Is(err, broker.ErrStorage) && d.evictOldest(ctx, subj, proto.Size(letter)) {
			continue
		}
		if err != nil {
			return fmt.Errorf("dead letter of request %d: %w", seq, err)
		}
		return nil
	}
}

// envelope is the maximum overhead of a stored dead letter, in bytes.
const envelope = 1 << 10

// evictOldest removes old dead letters to fit one of this size, and reports whether it removed any.
// If the subject has reached its limit, evictOldest removes dead letters from that subject.
// Otherwise it removes the oldest ones of all tenants.
func (d Store) evictOldest(ctx context.Context, subj string, size int) bool {
	name, filter := d.Broker.Names().Rejected(), d.Broker.Names().RejectedPattern()
	s, err := d.Broker.Stream(ctx, name)
	if err != nil {
		return false
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subj))
	// The server's limit also counts messages in flight, which this state does not include.
	if err != nil || info.State.Bytes < uint64(info.Config.MaxBytes/2) {
		return false
	}
	if info.State.Subjects[subj] >= broker.RejectedPerSubject {
		filter = subj
	}
	removed, lacks := false, int64(info.State.Bytes)+int64(size)+envelope-info.Config.MaxBytes
	for freed := int64(0); !removed || freed < lacks; {
		oldest, err := d.Broker.Next(ctx, name, filter, subject.FirstRejected)
		if err != nil {
			return removed
		}
		if _, err := d.Broker.Delete(ctx, name, oldest.Seq); err != nil {
			return removed
		}
		freed, removed = freed+int64(len(oldest.Data)), true
	}
	return removed
}

// cut truncates the data and headers of a dead letter, and records the size and digest of the data.
func cut(letter *genbusv1.DeadLetter) {
	data := letter.GetData()
	sum := sha256.Sum256(data)
	letter.Cut = &genbusv1.Cut{Size: uint64(len(data)), Sha256: sum[:]}
	letter.Data = data[:min(len(data), rejectedCut)]
	slices.SortFunc(letter.Headers, func(a, b *genbusv1.Header) int { return strings.Compare(a.GetKey(), b.GetKey()) })
	left := rejectedCut
	letter.Headers = slices.DeleteFunc(letter.Headers, func(h *genbusv1.Header) bool {
		left -= proto.Size(h)
		return left < 0
	})
}
