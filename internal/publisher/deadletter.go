package publisher

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// ClaimCheck is the size, in bytes, above which a body goes to the object store.
const ClaimCheck = 256 << 10

// DeadLetters stores what could not be processed, whole, with the reason.
type DeadLetters struct {
	Broker  *broker.Broker
	Bodies  *broker.Bodies
	Metrics *telemetry.Metrics
}

// Put stores a letter. token stands last in its subject: the job's id, or
// "seq-<n>" for a message that has none. A letter that is written again with the
// same subject and occasion for the same accepted request (by the taker of a job
// whose owner died right here) is stored once.
func (d DeadLetters) Put(ctx context.Context, letter *genbusv1.DeadLetter, token, occasion string) error {
	subj := d.Broker.Names().DeadLetter(subject.Kind(letter.GetKind()), letter.GetTenant(), token)
	name := letter.GetError().GetCode() + "." + occasion
	if at := letter.GetWork().GetAcceptedAt(); at != nil { // an id can have a later job, after an erasure
		name += "." + strconv.FormatInt(at.AsTime().UnixNano(), 10)
	}
	there, err := d.has(ctx, subj, name)
	if err == nil && !there {
		err = d.put(ctx, letter, subj, token, name)
	}
	if err != nil {
		return fmt.Errorf("dead letter for %s: %w", token, err)
	}
	return nil
}

// has reports whether the letter of that name is the last one on its subject. The
// stream itself remembers names for two minutes only, and a dead owner's job may
// be taken later than that.
func (d DeadLetters) has(ctx context.Context, subj, name string) (bool, error) {
	last, err := d.Broker.Last(ctx, d.Broker.Names().Dead(), subj)
	if errors.Is(err, broker.ErrNoMessage) {
		return false, nil
	}
	return err == nil && last.Header.Get(jetstream.MsgIDHeader) == subj+"."+name, err
}

func (d DeadLetters) put(ctx context.Context, letter *genbusv1.DeadLetter, subj, token, name string) error {
	if letter.GetTime() == nil {
		letter.Time = timestamppb.New(time.Now())
	}
	if err := d.ownBody(ctx, letter, LetterBody+token+"-"+name); err != nil {
		return err
	}
	data, err := proto.Marshal(letter)
	if err != nil {
		return err
	}
	m := nats.NewMsg(subj)
	m.Data = data
	code := letter.GetError().GetCode()
	set(m.Header, jetstream.MsgIDHeader, subj+"."+name)
	set(m.Header, subject.HeaderErrorCode, code)
	set(m.Header, subject.HeaderCEDataContentType, subject.ContentTypeProtobuf)
	accepted := letter.GetWork().GetTrace()
	trace(telemetry.Within(ctx, accepted[subject.HeaderTraceParent], accepted[subject.HeaderTraceState]), m.Header)
	begin := time.Now()
	if _, err := d.Broker.Publish(ctx, m); err != nil {
		return err
	}
	d.Metrics.EventPublished(telemetry.PublishedDeadLetter, time.Since(begin))
	d.Metrics.DeadLetter(subject.Kind(letter.GetKind()), code)
	return nil
}

// LetterBody begins the names of the bodies that belong to a letter alone.
const LetterBody = "dead-"

// ownBody brings a large body to the object store, under a name of the letter's
// own. A body that stands there already is the job's, and goes when the job is
// erased: the letter gets a copy. Where there can be none it names the job's: what
// else it says, such as the id of a task that is paid for, must not wait for that.
func (d DeadLetters) ownBody(ctx context.Context, letter *genbusv1.DeadLetter, name string) error {
	tenant := letter.GetTenant()
	if subject.CheckToken(tenant) != nil {
		tenant = subject.InvalidTenant
	}
	var ref broker.Body
	var err error
	switch {
	case letter.GetDataRef().GetName() == name: // of an earlier try
		return nil
	case letter.GetDataRef() != nil:
		if ref, err = d.Bodies.Copy(ctx, BodyOf(letter.GetDataRef()), tenant, name); err != nil {
			return nil //nolint:nilerr // the comment above says why
		}
	case len(letter.GetData()) > ClaimCheck:
		ref, err = d.Bodies.Put(ctx, tenant, name, letter.GetData())
	default:
		return nil
	}
	if err != nil {
		return err
	}
	letter.Data, letter.DataRef = nil, BlobRef(ref)
	return nil
}

// MaxCopies is how many of a task's copies are looked for where only their names
// are known, not their number.
const MaxCopies = 16

// CopyName is the name of the copy of a task's result in the object store; the
// first result is 0.
func CopyName(id string, index int) string { return id + "-video-" + strconv.Itoa(index) }

// BlobRef is a stored body's name as messages carry it.
func BlobRef(b broker.Body) *genbusv1.BlobRef {
	return &genbusv1.BlobRef{Bucket: b.Bucket, Name: b.Name, Size: b.Size, Sha256: b.SHA256[:]}
}

// BodyOf is the inverse of BlobRef.
func BodyOf(r *genbusv1.BlobRef) broker.Body {
	b := broker.Body{Bucket: r.GetBucket(), Name: r.GetName(), Size: r.GetSize()}
	copy(b.SHA256[:], r.GetSha256())
	return b
}
