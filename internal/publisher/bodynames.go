package publisher

import (
	"strconv"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
)

// ClaimCheck is the size in bytes above which a body goes to the object store.
const ClaimCheck = 256 << 10

// ClaimCheckOf returns ClaimCheck, or a quarter of max_payload if that is smaller. The envelope and
// the JSON encoding make the message longer than the body.
func ClaimCheckOf(b *broker.Broker) int { return int(min(ClaimCheck, b.MaxPayload()/4)) }

// Names of stored bodies. broker.Bodies appends a unique part. The names for a job begin with its
// ID and a dash, so that Bodies.Of finds them no matter which replica wrote them. A stored body is
// valid only if the log, a work item, a chunk or a dead letter references it (ADR 9).

// DeadLetterBodies is the prefix of bodies that belong only to a dead letter.
const DeadLetterBodies = "dead-"

// RequestBody names a job's request.
func RequestBody(id string) string { return id + "-request" }

// ReplyBody names a chat's complete reply.
func ReplyBody(id string) string { return id + "-reply" }

// blockBody names a block of a chat's stream.
func blockBody(id string, attempt uint32, index uint64) string {
	return id + "-chunk-" + strconv.FormatUint(uint64(attempt), 10) + "-" + strconv.FormatUint(index, 10)
}

// ResultBodies returns the prefix of all stored bodies of a task's result.
func ResultBodies(id string) string { return id + "-video-" }

// CopyBody names the copy of a result's file. The first file has index 0.
func CopyBody(id string, index int) string { return ResultBodies(id) + strconv.Itoa(index) }

// MetadataBody names a result's metadata if it is too long for its event.
func MetadataBody(id string) string { return ResultBodies(id) + "metadata" }

// URLsBody names a result's URLs if they are too long for their event.
func URLsBody(id string) string { return ResultBodies(id) + "urls" }

// BlobRef returns the reference to a stored body that messages contain.
func BlobRef(b broker.Body) *genbusv1.BlobRef {
	return &genbusv1.BlobRef{Bucket: b.Bucket, Name: b.Name, Size: b.Size, Sha256: b.SHA256[:]}
}

// BodyOf is the inverse of BlobRef.
func BodyOf(r *genbusv1.BlobRef) broker.Body {
	b := broker.Body{Bucket: r.GetBucket(), Name: r.GetName(), Size: r.GetSize()}
	copy(b.SHA256[:], r.GetSha256())
	return b
}
