package publisher

import "strconv"

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

// BlockBody is a block of a chat's stream.
func BlockBody(id string, attempt uint32, index uint64) string {
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

// letterBody is what a letter has of its request.
func letterBody(id, name string) string { return LetterBodies + id + "-" + name }
