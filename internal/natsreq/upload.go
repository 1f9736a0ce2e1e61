package natsreq

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

const (
	// MaxUpload is the size in bytes of the largest request read from an object store. It leaves
	// space for a body of 32 MiB, labels and request ID.
	MaxUpload = 33 << 20
	// maxUploadName is the length of the longest upload name.
	maxUploadName = 255
)

// Upload names a request that its publisher uploaded to its tenant's object store because it is
// larger than a message.
type Upload struct {
	// Object is the object named by the message, in the tenant's bucket.
	Object broker.Body
	// read is true once the complete object has been read and matches the reference.
	read bool
}

// uploadOf validates a message's reference. It uses the tenant's own bucket regardless of the
// reference, because NATS permissions apply to the subject.
func uploadOf(bucket string, m message) (*Upload, error) {
	ref := m.GetStored()
	if v := append(setWithStored(m), wrongRef(bucket, ref)...); len(v) > 0 {
		return nil, errcode.Invalid(v)
	}
	if ref.GetSize() > MaxUpload {
		return nil, errcode.New(errcode.BodyTooLarge, "the upload has %d bytes; the limit is %d", ref.GetSize(), MaxUpload)
	}
	b := publisher.BodyOf(ref)
	b.Bucket = bucket
	return &Upload{Object: b}, nil
}

// setWithStored finds fields that are set in addition to the reference. They would be lost, because
// the stored request replaces the message.
func setWithStored(m message) (out []errcode.Violation) {
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.Name() != "stored" {
			out = append(out, errcode.Violation{Field: string(f.Name()), Description: "must be empty if stored is set; put it into the stored request"})
		}
		return true
	})
	return out
}

func wrongRef(bucket string, ref *genbusv1.BlobRef) (out []errcode.Violation) {
	add := func(field, format string, args ...any) {
		out = append(out, errcode.Violation{Field: "stored." + field, Description: fmt.Sprintf(format, args...)})
	}
	if b := ref.GetBucket(); b != "" && b != bucket {
		add("bucket", "is not the tenant's own object store; leave it empty")
	}
	if name := ref.GetName(); !strings.HasPrefix(name, subject.UploadPrefix) || len(name) > maxUploadName || !printable(name) {
		add("name", "must begin with %q and have at most %d printable ASCII characters", subject.UploadPrefix, maxUploadName)
	}
	if ref.GetSize() == 0 {
		add("size", "is required")
	}
	if n := len(ref.GetSha256()); n != sha256.Size {
		add("sha256", "has %d bytes; the digest of the object has %d, and is required", n, sha256.Size)
	}
	return out
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] > 0x7e {
			return false
		}
	}
	return true
}
