package httpapi

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/genbus/genbus/internal/api/core"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
)

// queries are the query parameters of the paths under /genbus/v1 that read, by pattern;
// those that write have none, but for an operator's erasure: a DELETE has no body, in which it
// could name the job's kind and tenant. Another parameter is refused: a filter that is mistyped
// would list everything, and what is meant as a trial would erase. The paths that imitate
// others take what their clients send.
var queries = map[string][]string{
	listVideoTasks:                       fieldsOf(&genbusv1.ListVideoTasksRequest{}),
	"GET /genbus/v1/videos/{id}":         nil,
	"GET /genbus/v1/videos/{id}/events":  {"after_version"},
	"GET /genbus/v1/videos/{id}/content": {"variant", "index"},
	"GET /genbus/v1/chats/{id}":          nil,
	"GET /genbus/v1/chats/{id}/events":   {"resume_token"},
	"GET /genbus/v1/models":              fieldsOf(&genbusv1.ListModelsRequest{}),

	"GET /genbus/v1/operator/jobs":                    fieldsOf(&genbusv1.ListJobsRequest{}),
	"GET /genbus/v1/operator/jobs/{id}":               fieldsOf(&genbusv1.GetJobRequest{}, "id"),
	"GET /genbus/v1/operator/jobs/{id}/bodies":        fieldsOf(&genbusv1.GetJobBodiesRequest{}, "id"),
	"DELETE /genbus/v1/operator/jobs/{id}":            fieldsOf(&genbusv1.EraseJobRequest{}, "id"),
	"GET /genbus/v1/operator/dead-letters":            fieldsOf(&genbusv1.ListDeadLettersRequest{}),
	"GET /genbus/v1/operator/dead-letters/{sequence}": fieldsOf(&genbusv1.GetDeadLetterRequest{}, "sequence"),
	"GET /genbus/v1/operator/routes":                  nil,
	"GET /genbus/v1/operator/orphans":                 nil,
	"GET /genbus/v1/operator/overview":                nil,
	"GET /genbus/v1/operator/tenants":                 fieldsOf(&genbusv1.ListTenantsRequest{}),
	"GET /genbus/v1/operator/streams":                 nil,
	"GET /genbus/v1/operator/upstreams":               nil,
	"GET /genbus/v1/operator/replicas":                nil,
	"GET /genbus/v1/operator/audit":                   fieldsOf(&genbusv1.ListAuditRecordsRequest{}),
	"GET /genbus/v1/operator/operations":              fieldsOf(&genbusv1.ListOperationsRequest{}),
	"GET /genbus/v1/operator/operations/{id}":         nil,
}

// listVideoTasks is the one list whose status is a name of the enum. That of the operators'
// list is a word, which the service checks.
const listVideoTasks = "GET /genbus/v1/videos"

// fieldsOf are the names of a request's fields, without those that the path has.
func fieldsOf(m proto.Message, inPath ...string) (names []string) {
	fields := m.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if name := string(fields.Get(i).Name()); !slices.Contains(inPath, name) {
			names = append(names, name)
		}
	}
	return names
}

// isStatus reports whether the gateway takes a value for a status: a name or a number.
func isStatus(value string) bool {
	number, err := strconv.ParseInt(value, 10, 32)
	_, named := genbusv1.JobStatus_value[value]
	_, numbered := genbusv1.JobStatus_name[int32(number)]
	return named || err == nil && numbered
}

// checkQuery refuses query parameters that the path does not know or that are not UTF-8, and
// a status that is none: the gateway would not say what is.
func (x *exchange) checkQuery() error {
	_, path, _ := strings.Cut(x.r.Pattern, " ")
	if !strings.HasPrefix(path, "/genbus/v1/") || x.r.URL.RawQuery == "" {
		return nil
	}
	known := queries[x.r.Pattern]
	var wrong []errcode.Violation
	for name, values := range x.r.URL.Query() {
		description := "is not known here; this path takes no query parameters"
		switch {
		case !utf8.ValidString(name + " " + strings.Join(values, " ")):
			description = "must be UTF-8" // Protobuf carries nothing else
		case slices.Contains(known, canonical(name)):
			if canonical(name) != "status" || x.r.Pattern != listVideoTasks || isStatus(values[0]) {
				continue
			}
			description = core.StatusRule
		case len(known) > 0:
			description = "is not known here; known are " + strings.Join(known, ", ")
		}
		wrong = append(wrong, errcode.Violation{Field: errcode.Clip(name, 64), Description: description})
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.SortFunc(wrong, func(a, b errcode.Violation) int { return strings.Compare(a.Field, b.Field) })
	return errcode.Invalid(wrong[:min(len(wrong), maxUnknown)])
}

// maxUnknown bounds the parameters that one refusal names.
const maxUnknown = 10

// canonical is the name of a field as the gateway reads it: by its JSON name too
// (pageSize), or with the field of a time (created_after.seconds).
func canonical(name string) string {
	name, _, _ = strings.Cut(name, ".")
	var b strings.Builder
	for _, c := range name {
		if c >= 'A' && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}
