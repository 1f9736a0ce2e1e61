package contract

import "github.com/genbus/genbus/internal/subject"

// header is a documented NATS header.
type header struct {
	name, description string
	enum              []any
}

// headers lists all headers in internal/subject, as a test checks.
var headers = []header{
	{name: subject.HeaderContentType, description: "Encoding of the payload.", enum: []any{subject.ContentTypeProtobuf, subject.ContentTypeJSON}},
	{name: subject.HeaderRequestID, description: "Idempotency key of a JSON request, 1 to 255 printable ASCII characters."},
	{name: subject.HeaderLabels, description: "Labels of a JSON request: k=v,k=v."},
	{name: subject.HeaderTraceParent, description: "W3C trace context."},
	{name: subject.HeaderTraceState, description: "Vendor part of the trace context."},
	{name: subject.HeaderJobID, description: "ID of the job."},
	{name: subject.HeaderNotice, description: "Notice that the job waits because an operator paused its route: route_paused, with the parameters reason and until (RFC 3339) if known, in the syntax of Content-Disposition."},
	{name: subject.HeaderVersion, description: "Version of the event, in decimal: 1, 2, 3... without gaps for one job."},
	{name: subject.HeaderStatus, description: "Status of the job.", enum: statuses},
	{name: subject.HeaderCreatedAt, description: "Time of the job's acceptance, RFC 3339."},
	{name: subject.HeaderStartBy, description: "Time at which a waiting job fails unless it starts, RFC 3339."},
	{name: subject.HeaderEndBy, description: "Time at which a started job fails unless it ends, RFC 3339."},
	{name: subject.HeaderIndex, description: "Internal data for the job index; do not read."},
	{name: subject.HeaderWriter, description: "Replica that wrote the event. Internal; do not read."},
	{name: subject.HeaderNonce, description: "Nonce of the write. Internal; do not read."},
	{name: subject.HeaderRecorded, description: "Sequence of the task log, in decimal. Internal; do not read."},
	{name: subject.HeaderErrorCode, description: "Code of the error. Codes are never renamed."},
	{name: subject.HeaderRetryAfter, description: "Seconds to wait before sending the same request again."},
	{name: subject.HeaderContentRange, description: "Position of the bytes within the file, such as \"bytes 0-99/1000\"; the size is * if unknown."},
	{name: subject.HeaderETag, description: "ETag of the file; in the first reply, if known."},
	{name: subject.HeaderEnd, description: "Marks the last reply. If it is more, ask for the rest.", enum: []any{subject.EndComplete, subject.EndMore}},
	{name: subject.HeaderCESpecVersion, description: "CloudEvents version.", enum: []any{"1.0"}},
	{name: subject.HeaderCEID, description: "Unique ID of the event, the same in the job's log and the feed. For a chunk: <id>.<attempt>.<index>."},
	{name: subject.HeaderCESource, description: "/genbus/<tenant>/<kind>/<id>."},
	{name: subject.HeaderCEType, description: "Type of the event, such as genbus.video.task.completed.v1."},
	{name: subject.HeaderCETime, description: "Time of the event, RFC 3339."},
	{name: subject.HeaderCESubject, description: "Job id."},
	{name: subject.HeaderCEDataSchema, description: "Type URL of the Protobuf message, such as https://type.googleapis.com/genbus.v1.VideoTaskEvent. It identifies the message and its version; it is not a web address."},
	{name: subject.HeaderCEDataContentType, description: "Encoding of the payload.", enum: []any{subject.ContentTypeProtobuf, subject.ContentTypeJSON}},
	{name: subject.HeaderCETraceParent, description: "As traceparent."},
	{name: subject.HeaderCETraceState, description: "As tracestate."},
	// From the micro framework of NATS.
	{name: "Nats-Service-Error", description: "The error's message in one line, up to 512 bytes."},
	{name: "Nats-Service-Error-Code", description: "The error's HTTP status."},
}

// headerSet lists the headers that a message always has and those that it may have.
type headerSet struct {
	always, some []string
}

var (
	traced = []string{subject.HeaderTraceParent, subject.HeaderTraceState, subject.HeaderCETraceParent, subject.HeaderCETraceState}

	cloudEvent = []string{
		subject.HeaderCESpecVersion, subject.HeaderCEID, subject.HeaderCESource, subject.HeaderCEType, subject.HeaderCETime, subject.HeaderCESubject,
		subject.HeaderCEDataSchema, subject.HeaderCEDataContentType,
	}
)

// headerSets contains the header schemas of the document by name.
var headerSets = map[string]headerSet{
	"RequestHeaders": {some: []string{subject.HeaderContentType, subject.HeaderTraceParent, subject.HeaderTraceState}},
	"JSONRequestHeaders": {
		always: []string{subject.HeaderContentType},
		some:   []string{subject.HeaderRequestID, subject.HeaderLabels, subject.HeaderTraceParent, subject.HeaderTraceState},
	},
	"ReplyHeaders":    {always: []string{subject.HeaderContentType, subject.HeaderJobID}, some: []string{subject.HeaderNotice}},
	"AnswerHeaders":   {always: []string{subject.HeaderContentType}},
	"QuestionHeaders": {always: []string{subject.HeaderContentType}, some: []string{subject.HeaderTraceParent, subject.HeaderTraceState}},
	"PieceHeaders":    {always: []string{subject.HeaderContentRange}, some: []string{subject.HeaderJobID, subject.HeaderETag}},
	"EndHeaders":      {always: []string{subject.HeaderEnd}, some: []string{subject.HeaderJobID, subject.HeaderETag}},
	"ErrorHeaders": {
		always: []string{subject.HeaderContentType, subject.HeaderErrorCode, "Nats-Service-Error", "Nats-Service-Error-Code"},
		some:   []string{subject.HeaderJobID, subject.HeaderRetryAfter},
	},
	"EventHeaders": {
		always: append([]string{subject.HeaderVersion, subject.HeaderStatus, subject.HeaderCreatedAt, subject.HeaderNonce}, cloudEvent...),
		some:   append([]string{subject.HeaderStartBy, subject.HeaderEndBy, subject.HeaderIndex, subject.HeaderWriter}, traced...),
	},
	"CloudEventHeaders": {always: cloudEvent, some: traced},
	"AuditHeaders":      {always: []string{subject.HeaderCEDataContentType}},
	"DeadLetterHeaders": {always: []string{subject.HeaderErrorCode, subject.HeaderCEDataContentType}, some: traced},
	"WorkHeaders":       {some: append([]string{subject.HeaderRecorded}, traced...)},
}

// schema returns the schema of the set's headers. Headers that begin with Nats- belong to JetStream
// and are also allowed.
func (s headerSet) schema() object {
	properties := object{}
	for _, h := range headers {
		property := object{"type": "string", "description": h.description}
		if h.enum != nil {
			property["enum"] = h.enum
		}
		properties[h.name] = property
	}
	out := object{"type": "object", "properties": object{}}
	var required []any
	for _, name := range s.always {
		at(out, "properties")[name] = properties[name]
		required = append(required, name)
	}
	for _, name := range s.some {
		at(out, "properties")[name] = properties[name]
	}
	if required != nil {
		out["required"] = required
	}
	return out
}
