package subject

// Headers of requests. nats.Header is case-sensitive; all of ours are lower
// case.
const (
	// HeaderContentType of a request or reply: application/protobuf (the
	// default) or application/json.
	HeaderContentType = "content-type"
	// HeaderRequestID is the idempotency key of a JSON request.
	HeaderRequestID = "genbus-request-id"
	// HeaderLabels are the labels of a JSON request: k=v,k=v.
	HeaderLabels = "genbus-labels"
	// HeaderTraceParent and HeaderTraceState are the W3C trace context.
	HeaderTraceParent = "traceparent"
	HeaderTraceState  = "tracestate"
)

// Headers of replies and events.
const (
	// HeaderJobID names the job in a reply.
	HeaderJobID = "genbus-job-id"
	// HeaderNotice is what a reply tells of a job in addition to its state: route_paused.
	HeaderNotice = "genbus-notice"
	// HeaderVersion is the version of a task event, in decimal.
	HeaderVersion = "genbus-version"
	// HeaderStatus and HeaderCreatedAt (RFC 3339) let a reader of headers list
	// jobs without reading their bodies.
	HeaderStatus    = "genbus-status"
	HeaderCreatedAt = "genbus-created-at"
	// HeaderStartBy is when a job that was not started yet fails (RFC 3339): its
	// expires_at, or the end of its route's queue timeout.
	HeaderStartBy = "genbus-start-by"
	// HeaderEndBy is when a job that was started fails unless it ends (RFC 3339).
	HeaderEndBy = "genbus-end-by"
	// HeaderWriter is the replica that wrote a task event.
	HeaderWriter = "genbus-writer"
	// HeaderIndex is what the index of jobs keeps of a task event, next to what other headers
	// say: publisher.Facts. It is genbus's own.
	HeaderIndex = "genbus-index"
	// HeaderNonce is the nonce of the write that stored a task event. It is the
	// only proof that a write was ours.
	HeaderNonce = "genbus-nonce"
	// HeaderErrorCode is the code of a dead letter or an error reply.
	HeaderErrorCode = "genbus-error-code"
	// HeaderRetryAfter is when to send a refused request again, in seconds.
	HeaderRetryAfter = "Retry-After"
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

// MetadataRevision is the metadata key of streams and consumers that holds the
// revision of their configuration.
const MetadataRevision = "genbus-config-revision"
