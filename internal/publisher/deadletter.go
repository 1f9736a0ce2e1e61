package publisher

import (
	"context"
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
// "seq-<n>" for a message that has none. A letter that is written again within
// two minutes with the same subject and occasion (by the taker of a job whose
// owner died right here) is stored once.
func (d DeadLetters) Put(ctx context.Context, letter *genbusv1.DeadLetter, token, occasion string) error {
	if letter.GetTime() == nil {
		letter.Time = timestamppb.New(time.Now())
	}
	if err := d.claimCheck(ctx, letter, token); err != nil {
		return err
	}
	data, err := proto.Marshal(letter)
	if err != nil {
		return fmt.Errorf("dead letter for %s: %w", token, err)
	}
	kind := subject.Kind(letter.GetKind())
	m := nats.NewMsg(d.Broker.Names().DeadLetter(kind, letter.GetTenant(), token))
	m.Data = data
	code := letter.GetError().GetCode()
	set(m.Header, jetstream.MsgIDHeader, m.Subject+"."+code+"."+occasion)
	set(m.Header, subject.HeaderErrorCode, code)
	set(m.Header, subject.HeaderCEDataContentType, subject.ContentTypeProtobuf)
	if _, err := d.Broker.Publish(ctx, m); err != nil {
		return fmt.Errorf("dead letter for %s: %w", token, err)
	}
	d.Metrics.DeadLetter(kind, code)
	return nil
}

func (d DeadLetters) claimCheck(ctx context.Context, letter *genbusv1.DeadLetter, token string) error {
	if len(letter.GetData()) <= ClaimCheck {
		return nil
	}
	tenant := letter.GetTenant()
	if subject.CheckToken(tenant) != nil {
		tenant = subject.InvalidTenant
	}
	ref, err := d.Bodies.Put(ctx, tenant, "dead-"+token, letter.GetData())
	if err != nil {
		return fmt.Errorf("dead letter for %s: %w", token, err)
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
