package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
)

// queriesOf returns the accepted query parameters of the paths under /genbus/v1, by pattern. A path
// of the generated gateway accepts the fields of its request, or none if the request is sent in a
// body. Unknown parameters are rejected, because a mistyped filter would list everything, and a
// mistyped dry_run would erase data. Parameters of paths that imitate other APIs are not checked.
func queriesOf(rules []rule) map[string]parameters {
	queries := map[string]parameters{
		"GET /genbus/v1/videos/{id}/events":  {names: []string{"after_version"}},
		"GET /genbus/v1/videos/{id}/content": {names: []string{"variant", "index"}},
		"GET /genbus/v1/chats/{id}/events":   {names: []string{"resume_token"}},
	}
	for _, r := range rules {
		if r.body == nil {
			queries[r.pattern()] = parameters{names: fieldNames(r.request.Descriptor(), r.path), request: r.request}
		}
	}
	return queries
}

// parameters are the query parameters of a path.
type parameters struct {
	names []string
	// request is the message that has these fields, or nil if a handler of this package reads them.
	request protoreflect.MessageType
}

// wrong describes what is wrong with a parameter. It returns an empty string if the path accepts
// the parameter.
func (p parameters) wrong(name string, values []string) string {
	first, rest, nested := strings.Cut(name, ".")
	switch {
	case !utf8.ValidString(name + " " + strings.Join(values, " ")):
		return "must be UTF-8" // Protobuf strings must be UTF-8
	case p.request == nil && slices.Contains(p.names, name):
		return "" // its handler checks the value
	case p.request == nil:
		return p.unknown()
	}
	field := body.FieldNamed(p.request.Descriptor(), first)
	if field == nil || !slices.Contains(p.names, string(field.Name())) {
		return p.unknown()
	}
	if nested {
		if field.Message() == nil || field.IsList() {
			return p.unknown()
		}
		if field = body.FieldNamed(field.Message(), rest); field == nil {
			return p.unknown()
		}
	}
	// Let the gateway's parser decide, so that this check rejects nothing that the gateway accepts.
	if runtime.PopulateQueryParameters(p.request.New().Interface(), url.Values{name: values}, utilities.NewDoubleArray(nil)) == nil {
		return ""
	}
	if len(values) > 1 && !field.IsList() {
		return fmt.Sprintf("must be given once, not %d times", len(values))
	}
	return mustBe(body.FieldRule(field), values[0])
}

func (p parameters) unknown() string { return body.UnknownName(p.names, "query parameters") }

// mustBe describes a value that breaks a rule.
func mustBe(rule, value string) string {
	return fmt.Sprintf("%s, not %q", rule, errcode.Clip(value, 64))
}

// checkQuery rejects query parameters that are unknown to the path, are not UTF-8, or have invalid
// values. The gateway would answer with a raw parser error.
func (x *exchange) checkQuery() error {
	_, path, _ := strings.Cut(x.r.Pattern, " ")
	if !strings.HasPrefix(path, "/genbus/v1/") || x.r.URL.RawQuery == "" {
		return nil
	}
	known := x.h.queries[x.r.Pattern]
	var wrong []errcode.Violation
	for name, values := range x.r.URL.Query() {
		if description := known.wrong(name, values); description != "" {
			wrong = append(wrong, errcode.Violation{Field: errcode.Clip(name, 64), Description: description})
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.SortFunc(wrong, func(a, b errcode.Violation) int { return strings.Compare(a.Field, b.Field) })
	return errcode.Invalid(wrong[:min(len(wrong), maxUnknown)])
}

// maxUnknown limits the number of parameters that an error lists.
const maxUnknown = 10
