package subject

// Headers of requests. nats.Header is case-sensitive. All genbus headers except Retry-After are
// lower case.
const (
	// HeaderContentType is application/protobuf (the default) or application/json, in requests and
	// replies.
	HeaderContentType = "content-type"
	// HeaderRequestID is the idempotency key of a JSON request.
	HeaderRequestID = "genbus-request-id"
	// HeaderLabels contains the labels of a JSON request as k=v,k=v.
	HeaderLabels = "genbus-labels"
	// HeaderTraceParent and HeaderTraceState carry the W3C trace context.
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
)

// Headers of replies and events.
const (
	// HeaderJobID is the job's ID in a reply.
	HeaderJobID = "genbus-job-id"
	// HeaderNotice is a notice in a reply that the job's state does not show, such as route_paused.
	HeaderNotice = "genbus-notice"
	// HeaderVersion is the version of a task event, in decimal.
	HeaderVersion = "genbus-version"
	// HeaderStatus and HeaderCreatedAt (RFC 3339) allow listing jobs without reading their bodies.
	HeaderStatus    = "genbus-status"
	HeaderCreatedAt = "genbus-created-at"
	// HeaderStartBy is when a job that has not started fails (RFC 3339). That is its expires_at or
	// the end of its route's queue timeout, whichever is earlier.
	HeaderStartBy = "genbus-start-by"
	// HeaderEndBy is when a job that has started fails if it has not ended (RFC 3339).
	HeaderEndBy = "genbus-end-by"
	// HeaderWriter is the replica that wrote a task event.
	HeaderWriter = "genbus-writer"
	// HeaderIndex contains the facts about a task event that the job index keeps in addition to
	// other headers; see publisher.Facts. Internal to genbus.
	HeaderIndex = "genbus-index"
	// HeaderNonce is the nonce of the write that stored a task event. Only the nonce proves which
	// write won.
	HeaderNonce = "genbus-nonce"
	// HeaderErrorCode is the code of a dead letter or an error reply.
	HeaderErrorCode = "genbus-error-code"
	// HeaderRetryAfter is the number of seconds before a refused request may be retried.
	HeaderRetryAfter = "Retry-After"
)

// Headers of replies with content.
const (
	// HeaderContentRange is the position of a reply's bytes within the file, such as
	// "bytes 0-99/1000", or "bytes 0-99/*" if the upstream does not report the size.
	HeaderContentRange = "content-range"
	// HeaderETag is the ETag of the file, if known.
	HeaderETag = "etag"
	// HeaderEnd marks the last reply, which has no bytes. Its value is EndComplete or EndMore.
	HeaderEnd = "genbus-end"
)

// Values of HeaderEnd.
const (
	// EndComplete means that the replies have all requested bytes.
	EndComplete = "complete"
	// EndMore means that more bytes follow, which need another request.
	EndMore = "more"
)

// CloudEvents attributes in binary mode.
const (
	HeaderCESpecVersion     = "ce-specversion"
	HeaderCEID              = "ce-id"
	HeaderCESource          = "ce-source"
	HeaderCEType            = "ce-type"
	HeaderCETime            = "ce-time"
	HeaderCESubject         = "ce-subject"
	HeaderCEDataSchema      = "ce-dataschema"
	HeaderCEDataContentType = "ce-datacontenttype"
	HeaderCETraceParent     = "ce-traceparent"
	HeaderCETraceState      = "ce-tracestate"
)

// Media types of requests and events.
const (
	ContentTypeProtobuf = "application/protobuf"
	ContentTypeJSON     = "application/json"
)

// MetadataRevision is the metadata key of streams and consumers for the revision of their
// configuration.
const MetadataRevision = "genbus-config-revision"

// MetadataPause is the metadata key of durable consumers for the pause of their route.
const MetadataPause = "genbus-pause"
