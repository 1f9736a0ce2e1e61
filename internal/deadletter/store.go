package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Store writes dead letters. All fields are required.
type Store struct {
	Broker  *broker.Broker
	Bodies  *broker.Bodies
	Metrics *telemetry.Metrics
	Logger  *slog.Logger
}

// Put stores the dead letter of an accepted job. It stores a dead letter only once for the same ID,
// error code, occasion and acceptance time, for example if a holder dies here and the next one
// repeats the write.
func (d Store) Put(ctx context.Context, letter *genbusv1.DeadLetter, id, occasion string) error {
	subj := d.Broker.Names().DeadLetter(subject.Kind(letter.GetKind()), letter.GetTenant(), id)
	name := letter.GetError().GetCode() + "." + occasion
	if at := letter.GetWork().GetAcceptedAt(); at != nil { // after an erasure, a later job may reuse this ID
		name += "." + strconv.FormatInt(at.AsTime().UnixNano(), 10)
	}
	there, err := d.has(ctx, subj, name)
	if err == nil && !there {
		err = d.put(ctx, letter, subj, id, name)
	}
	if err != nil {
		return fmt.Errorf("dead letter for %s: %w", id, err)
	}
	return nil
}

// has reports whether the last dead letter on a subject has this name. It is needed because the
// stream itself deduplicates for only two minutes, and the job of a dead holder may be redelivered
// later.
func (d Store) has(ctx context.Context, subj, name string) (bool, error) {
	last, err := d.Broker.Last(ctx, d.Broker.Names().Dead(), subj)
	if errors.Is(err, broker.ErrNoMessage) {
		return false, nil
	}
	return err == nil && last.Header.Get(jetstream.MsgIDHeader) == subj+"."+name, err
}

// put stores a dead letter with its own copy of the body. If the dead letter was certainly not
// stored, put deletes the copy, because a retry stores another one.
func (d Store) put(ctx context.Context, letter *genbusv1.DeadLetter, subj, id, name string) error {
	data, ref := letter.GetData(), letter.GetDataRef()
	if err := d.ownBody(ctx, letter, bodyName(id, name)); err != nil {
		return err
	}
	err := d.publish(ctx, letter, subj, subj+"."+name)
	if own := letter.GetDataRef(); own != ref && notStored(err) {
		letter.Data, letter.DataRef = data, ref
		return errors.Join(err, d.Bodies.Delete(context.WithoutCancel(ctx), publisher.BodyOf(own)))
	}
	return err
}

// notStored reports whether err means that a publish certainly stored nothing.
func notStored(err error) bool {
	return errors.Is(err, broker.ErrFull) || errors.Is(err, broker.ErrRefused) || errors.Is(err, broker.ErrTooLarge) || errors.Is(err, broker.ErrUnavailable)
}

func (d Store) publish(ctx context.Context, letter *genbusv1.DeadLetter, subj, msgID string) error {
	if letter.GetTime() == nil {
		letter.Time = timestamppb.New(time.Now())
	}
	data, err := proto.Marshal(letter)
	if err != nil {
		return err
	}
	m := nats.NewMsg(subj)
	m.Data = data
	code := letter.GetError().GetCode()
	m.Header[jetstream.MsgIDHeader] = []string{msgID}
	m.Header[subject.HeaderErrorCode] = []string{code}
	m.Header[subject.HeaderCEDataContentType] = []string{subject.ContentTypeProtobuf}
	accepted := letter.GetWork().GetTrace()
	publisher.Trace(telemetry.Within(ctx, accepted[subject.HeaderTraceParent], accepted[subject.HeaderTraceState]), m.Header)
	begin := time.Now()
	if _, err := d.Broker.Publish(ctx, m); err != nil {
		return err
	}
	d.Metrics.EventPublished(telemetry.PublishedDeadLetter, time.Since(begin))
	d.Metrics.DeadLetter(subject.Kind(letter.GetKind()), code)
	return nil
}

// ownBody moves a large body to the object store under a name that belongs to the dead letter. A
// body that is already in the object store belongs to the job and is removed with it, so ownBody
// copies it. If the copy fails, the dead letter references the job's body instead, because the rest
// of the dead letter, such as the ID of a paid task, must not wait.
func (d Store) ownBody(ctx context.Context, letter *genbusv1.DeadLetter, prefix string) error {
	tenant := letter.GetTenant()
	if subject.CheckToken(tenant) != nil {
		tenant = subject.InvalidTenant
	}
	var ref broker.Body
	var err error
	switch {
	case strings.HasPrefix(letter.GetDataRef().GetName(), prefix+"-"): // stored by an earlier try
		return nil
	case letter.GetDataRef() != nil:
		if ref, err = d.Bodies.Copy(ctx, publisher.BodyOf(letter.GetDataRef()), tenant, prefix); err != nil {
			return nil //nolint:nilerr // explained above
		}
	case len(letter.GetData()) > publisher.ClaimCheckOf(d.Broker):
		ref, err = d.Bodies.Put(ctx, tenant, prefix, letter.GetData())
		if broker.Permanent(err) && int64(len(letter.GetData())) <= d.Broker.MaxPayload()/2 {
			return nil // keep it inline
		}
	default:
		return nil
	}
	if err != nil {
		return err
	}
	letter.Data, letter.DataRef = nil, publisher.BlobRef(ref)
	return nil
}

// bodyName returns the prefix for the names of a dead letter's bodies.
func bodyName(id, name string) string { return publisher.DeadLetterBodies + id + "-" + name }
