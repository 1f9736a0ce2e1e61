package contract

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream/registry"
)

// sets groups errors under the names that operations list.
var sets = map[string][]errcode.Code{
	"keyed": {errcode.InvalidAPIKey, errcode.InvalidRequest, errcode.RateLimited, errcode.ShuttingDown, errcode.Internal},
	// Replaces "keyed" for operator operations, which have no rate limit.
	operatorErrors: {
		errcode.InvalidAPIKey, errcode.OperatorRequired, errcode.InvalidRequest, errcode.BrokerUnavailable, errcode.ShuttingDown, errcode.Internal,
	},
	"anyJob": {errcode.TaskNotFound, errcode.ChatNotFound},
	"letter": {errcode.DeadLetterNotFound, errcode.DeadLetterUnusable, errcode.DeadLetterResolved, errcode.NotTerminal, errcode.InputLost},
	"bulk":   {errcode.IndexCatchingUp, errcode.StorageFull},
	"read":   {errcode.BrokerUnavailable},
	"list":   {errcode.BrokerUnavailable, errcode.IndexCatchingUp, errcode.InvalidPageToken},
	"task":   {errcode.BrokerUnavailable, errcode.TaskNotFound},
	// A chat's ID is looked up as a job ID.
	"chatJob": {errcode.BrokerUnavailable, errcode.ChatNotFound, errcode.InputLost},
	"body":    {errcode.InvalidJSON, errcode.BodyTooLarge, errcode.UnsupportedMedia},
	"create": {
		errcode.InvalidJSON, errcode.BodyTooLarge, errcode.UnsupportedMedia, errcode.ModelNotFound, errcode.WrongProtocol, errcode.IdempotencyKeyReused,
		errcode.QueueFull, errcode.TenantFull, errcode.StorageFull, errcode.DeadLettersFull, errcode.BrokerUnavailable, errcode.ClockWrong, errcode.AcceptanceUnknown,
	},
	"content": {errcode.ContentNotReady, errcode.ContentExpired, errcode.ContentBlocked, errcode.ContentUnavailable, errcode.UpstreamRemoved},
	"retry": {
		errcode.NotTerminal, errcode.DeadLetterUnresolved, errcode.RequestNotKept, errcode.InvalidJSON, errcode.BodyTooLarge, errcode.UnsupportedMedia,
		errcode.ModelNotFound, errcode.WrongProtocol, errcode.IdempotencyKeyReused, errcode.QueueFull, errcode.TenantFull, errcode.StorageFull,
		errcode.DeadLettersFull, errcode.ClockWrong, errcode.AcceptanceUnknown,
	},
	"erasure": {errcode.StillHeld, errcode.NotTerminal, errcode.AcceptanceUnknown},
	// Errors that can end a chat whose caller waits.
	"chat": {
		errcode.RoutePaused, errcode.SlowReader, errcode.StreamEnded, errcode.Cancelled, errcode.Expired, errcode.QueueTimeout, errcode.DeadlineExceeded, errcode.Poisoned,
		errcode.LogLost, errcode.NotEnqueued, errcode.InputLost, errcode.UpstreamFailed, errcode.UpstreamRefused, errcode.UpstreamKeyRefused, errcode.UpstreamQuota, errcode.UpstreamRemoved, errcode.UpstreamUnavailable,
		errcode.UpstreamRateLimited, errcode.UpstreamTimeout, errcode.StreamTruncated, errcode.ChatAttemptsExhausted, errcode.ChatNotFound,
		errcode.ReplyNotStored,
	},
}

// operatorErrors is the set listed by all operator operations.
const operatorErrors = "operator"

// addErrors adds responses for the errors that an operation lists. It puts them into the document's
// components, because many operations share them.
func addErrors(document object, method string, operation object) error {
	listed, _ := operation["errors"].([]any)
	surface := text(operation["x-genbus-surface"])
	delete(operation, "errors")
	delete(operation, "x-genbus-surface")
	if listed == nil {
		return nil
	}
	all := append([]any{"keyed"}, listed...)
	switch {
	case slices.Contains(listed, any(operatorErrors)):
		all = listed
	case method == "post" || method == "delete":
		all = append(all, string(errcode.OriginNotAllowed))
	}
	codes, err := expand(all)
	if err != nil {
		return err
	}
	named, responses := at(document, "components", "responses"), at(operation, "responses")
	for status, group := range byStatus(codes, surface) {
		if _, there := responses[status]; there {
			continue // a documented answer that is not a refusal
		}
		name := refusalName(listed, surface) + "." + status
		named[name] = refusal(group, surface)
		responses[status] = object{"$ref": "#/components/responses/" + name}
	}
	return nil
}

// refusalName returns a name such as "task.404" or "kling.create.429".
func refusalName(listed []any, surface string) string {
	var words []string
	if surface != "" {
		words = append(words, surface)
	}
	for _, name := range listed {
		words = append(words, text(name))
	}
	return strings.Join(words, ".")
}

func expand(listed []any) ([]errcode.Code, error) {
	var codes []errcode.Code
	for _, name := range listed {
		set, ok := sets[text(name)]
		if code := errcode.Code(text(name)); !ok && errcode.MeaningOf(code).Code == code {
			set, ok = []errcode.Code{code}, true
		}
		if !ok {
			return nil, fmt.Errorf("no error %v in the table", name)
		}
		codes = append(codes, set...)
	}
	slices.Sort(codes)
	return slices.Compact(codes), nil
}

// byStatus groups codes by their HTTP status on a vendor's surface, or on genbus's own if surface
// is "".
func byStatus(codes []errcode.Code, surface string) map[string][]errcode.Code {
	groups := map[string][]errcode.Code{}
	p, vendor := registry.Find(surface)
	for _, code := range codes {
		f := &errcode.Error{Code: code}
		status := f.Status()
		if vendor {
			status, _ = p.Surface.Refuse(f, "")
		}
		key := strconv.Itoa(status)
		groups[key] = append(groups[key], code)
	}
	return groups
}

// refusal returns the response for errors with the same status.
func refusal(codes []errcode.Code, surface string) object {
	var words []string
	var enum []any
	for _, c := range codes {
		words, enum = append(words, "`"+string(c)+"`"), append(enum, string(c))
	}
	headers := object{}
	for _, name := range []string{"X-Request-Id", "Genbus-Job-Id", "Retry-After", "X-Should-Retry"} {
		headers[name] = object{"$ref": "#/components/headers/" + name}
	}
	if slices.Contains(codes, errcode.InvalidAPIKey) {
		headers["Www-Authenticate"] = object{"schema": object{"type": "string"}}
	}
	headers["Genbus-Error-Code"] = object{
		"description": "Error code; see x-genbus-errors.",
		// Jimeng reports a failed task with HTTP 400, although the request itself is valid.
		"required": surface != "jimeng",
		"schema":   object{"type": "string", "enum": enum},
	}
	return object{
		"description": strings.Join(words, ", "),
		"headers":     headers,
		"content":     object{"application/json": object{"schema": ref(envelope(codes, surface))}},
	}
}

// envelope returns the schema name of a refusal's body.
func envelope(codes []errcode.Code, surface string) string {
	switch {
	case surface == "kling":
		return "KlingRefusal"
	case surface == "jimeng" && slices.Contains(codes, errcode.InvalidAPIKey):
		return "JimengUnauthorized"
	case surface == "jimeng":
		return "JimengRefusal"
	default:
		return "Error"
	}
}

// errorTable returns the table of docs/errors.md.
func errorTable() []any {
	var rows []any
	for _, m := range errcode.Table() {
		rows = append(rows, object{
			"code": string(m.Code), "status": m.HTTP, "grpc": codes.Code(m.GRPC).String(), "type": m.Type, "retry": m.Retry, "means": m.Means(), "do": m.Do,
		})
	}
	return rows
}
