package publisher

import (
	"strconv"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
)

// ClaimCheck is the size in bytes above which a body goes to the object store.
const ClaimCheck = 256 << 10

// ClaimCheckOf returns ClaimCheck, or a quarter of max_payload if that is smaller: the envelope and
// JSON encoding make the message longer than the body.
func ClaimCheckOf(b *broker.Broker) int { return int(min(ClaimCheck, b.MaxPayload()/4)) }

// The names of stored bodies, without what broker.Bodies adds so that no two are
// equal. Those of a job begin with its id and a dash, so that Bodies.Of finds them,
// whichever replica wrote them. What is stored under these names counts only where the
// log, a work item, a chunk or a letter names it (docs/adr/0009).

// LetterBodies begins the names of the bodies that belong to a letter alone.
const LetterBodies = "dead-"

// RequestBody is a job's request.
func RequestBody(id string) string { return id + "-request" }

// ReplyBody is a chat's whole reply.
func ReplyBody(id string) string { return id + "-reply" }

// blockBody is a block of a chat's stream.
func blockBody(id string, attempt uint32, index uint64) string {
	return id + "-chunk-" + strconv.FormatUint(uint64(attempt), 10) + "-" + strconv.FormatUint(index, 10)
}

// ResultBodies begins the names of all that is stored of a task's result.
func ResultBodies(id string) string { return id + "-video-" }

// CopyBody is the copy of one file of a result; the first is 0.
func CopyBody(id string, index int) string { return ResultBodies(id) + strconv.Itoa(index) }

// MetadataBody is a result's long metadata.
func MetadataBody(id string) string { return ResultBodies(id) + "metadata" }

// URLsBody is the URLs of a result that are too long for its event.
func URLsBody(id string) string { return ResultBodies(id) + "urls" }

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
