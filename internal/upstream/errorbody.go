package upstream

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/genproto/googleapis/rpc/code"

	"github.com/genbus/genbus/internal/upstream/lax"
)

// Limits, in bytes, on upstream text in genbus errors.
const (
	maxMessage = 2 << 10
	maxWord    = 256 // a code, type, param or request ID

	maxExcerpt = 2 * maxMessage // how much of an answer describe examines
)

// ErrorBody holds the content of an error answer, whatever its form.
type ErrorBody struct {
	// Code is the error code, with a number as written. It is empty if the code is null, 0, "0", ""
	// or missing. A word takes precedence over a number that only repeats an HTTP status.
	Code string
	Type string
	// Wrapped is the code of a gateway's own error if that error's message was another server's
	// error, from which the other fields come.
	Wrapped string
	// Param names the request parameter at fault.
	Param string
	// Message is truncated to 2 KiB at a rune boundary.
	Message string
	// RequestID is the upstream's ID for the call, if the body contains it.
	RequestID string
	// RetryAfter is the wait that the body asks for, at most 10 minutes, or 0.
	RetryAfter time.Duration
}

// ParseErrorBody reads an error answer. These are common forms; the names of members may be in any
// case, with or without underscores:
//
//	{"error":{"message":"..","type":"..","param":null,"code":"word"|502|null}}
//	{"error":"text"}
//	{"code":"word"|502,"message":"..","data":null,"request_id":".."}
//	{"error":{"code":400,"message":"..","status":"INVALID_ARGUMENT","details":[{"reason":".."},{"retryDelay":"3s"}]}}
//	{"ResponseMetadata":{"RequestId":"..","Error":{"CodeN":1,"Code":"Word","Message":".."}}}
//	{"base_resp":{"status_code":1008,"status_msg":".."}}
//	{"errors":[{"code":1,"message":".."}]}
//	{"error_code":17,"error_msg":".."}
//	{"detail":"text"|[{"loc":[..],"msg":".."}]|{..}}
//	{"message":".."}  {"msg":".."}  {"title":"..","detail":".."}
//
// Any of them may also be an item of an array, a JSON string inside the message of another error,
// or the data of a server-sent event. The bool is false if the body has none of these forms (for
// example an HTML page from a proxy, plain text or nothing) or reports no error (an error object
// with code 0 and no message). In that case Message is a short description of the body, or empty.
// The description quotes the body only if it is text. RequestID is set whenever the body contains
// one.
func ParseErrorBody(body []byte) (ErrorBody, bool) {
	e := readError(firstValue(body), maxNesting).cut()
	if !e.says() {
		return ErrorBody{Message: describe(body), RequestID: e.RequestID}, false
	}
	return e, true
}

const (
	// maxNesting limits how deep an error may be nested in others.
	maxNesting = 16
	// maxErrorBody limits the length of a body that is read as an error, in bytes.
	maxErrorBody = 1 << 20
)

// firstValue returns the first JSON value in an answer, or nil. Some servers send a newline and
// more after it. Others refuse a request for a stream with an event.
func firstValue(body []byte) jsontext.Value {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\xEF\xBB\xBF")))
	if len(body) > 0 && bytes.IndexByte([]byte(`{["`), body[0]) < 0 {
		_, data, _ := bytes.Cut(append([]byte("\n"), beginning(body, maxExcerpt)...), []byte("\ndata:"))
		body = bytes.TrimSpace(data)
	}
	if len(body) > maxErrorBody {
		return nil
	}
	v, err := jsontext.NewDecoder(bytes.NewReader(body), lax.Options).ReadValue()
	if err != nil {
		return nil
	}
	return v
}

// readError reads the error in a JSON value. depth limits the nesting.
func readError(v jsontext.Value, depth int) ErrorBody {
	if depth <= 0 {
		return ErrorBody{}
	}
	switch v.Kind() {
	case '"':
		return readErrorText(text(v), depth)
	case '[':
		for _, item := range list(v) {
			if e := readError(item, depth-1); e.says() {
				return e
			}
		}
	case '{':
		return readErrorObject(membersOf(v), depth)
	}
	return ErrorBody{}
}

// readErrorText reads a message. It may be another server's error as JSON.
func readErrorText(s string, depth int) ErrorBody {
	if strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[") {
		if e := readError(firstValue([]byte(s)), depth-1); e.says() {
			return e
		}
	}
	return ErrorBody{Message: s}
}

// readErrorObject reads an object and the errors nested in it. The innermost error takes
// precedence.
func readErrorObject(f fields, depth int) ErrorBody {
	reason, wait := readDetails(f["details"])
	own := ErrorBody{
		Code:  strongest(reason, codeWord(f["reason"]), word(f["code"]), word(f["errorcode"]), word(f["errcode"]), f.rpcStatus()),
		Type:  lax.First(text(f["type"]), text(f["errortype"])),
		Param: text(f["param"]), RequestID: text(f["requestid"]), RetryAfter: cmp.Or(wait, f.wait()),
	}
	if status := f.rpcStatus(); own.Type == "" && status != own.Code {
		own.Type = status
	}
	if f["loc"] != nil {
		own.Type = "" // FastAPI: of a violated rule
	}
	said, wrapped := f.message(depth)
	if i := strings.IndexAny(said.Message, "{["); i > 0 && gateways[own.Code] { // "bad response status code 400, body: {..}"
		if e := readErrorText(said.Message[i:], depth-1); e.Code != "" {
			said, wrapped = e, true
		}
	}
	if wrapped {
		said.Wrapped = cmp.Or(own.Code, said.Wrapped)
	}
	own = merge(said, own)
	if raw := readError(membersOf(f["metadata"])["raw"], depth-1); own.Message != "" && raw.Message != "" {
		own.Message += ": " + raw.Message // OpenRouter: what the provider answered
	}
	for _, name := range []string{"error", "errors", "fault"} {
		inner := readError(f[name], depth-1)
		if s := codeWord(f[name]); own.Message != "" && s != "" {
			inner = ErrorBody{Code: s} // {"error":"Unauthorized","message":".."}
		} else if strings.Contains(s, "_") {
			inner.Code = s // {"error":"invalid_api_key"}
		}
		if inner.says() {
			return merge(inner, own)
		}
	}
	return merge(f.envelope(depth), own)
}

// message reads the message of an error object, which may hold another error. wrapped is true if
// that error has a code and was a JSON string.
func (f fields) message(depth int) (e ErrorBody, wrapped bool) {
	names := []string{"message", "msg", "errormessage", "faultstring", "errordescription", "detail", "title"}
	for _, pair := range [][2]string{{"errorcode", "errormsg"}, {"errcode", "errmsg"}} {
		if f[pair[0]] == nil || word(f[pair[0]]) != "" { // a code of 0 comes with the message of a success
			names = append(names, pair[1])
		}
	}
	for _, name := range names {
		if e := readError(f[name], depth-1); e.says() {
			return e, f[name].Kind() == '"' && e.Code != ""
		}
	}
	return ErrorBody{}, false
}

// envelope reads the errors that vendors put into members of their own.
func (f fields) envelope(depth int) ErrorBody {
	for _, name := range []string{"responsemetadata", "response"} { // Volcengine, Tencent
		if m := membersOf(f[name]); m != nil {
			inner := membersOf(m["error"])
			e := readErrorObject(inner, depth-1)
			e.Code, e.RequestID = cmp.Or(e.Code, word(inner["coden"])), cmp.Or(e.RequestID, text(m["requestid"]))
			return e
		}
	}
	base := membersOf(f["baseresp"]) // MiniMax
	if code := word(base["statuscode"]); code != "" {
		return ErrorBody{Code: code, Message: text(base["statusmsg"])}
	}
	for _, choice := range list(f["choices"]) { // OpenRouter
		if e := readError(membersOf(choice)["error"], depth-1); e.says() {
			return e
		}
	}
	return ErrorBody{}
}

// readDetails returns the reason and the wait in the details of a google.rpc.Status.
func readDetails(v jsontext.Value) (reason string, wait time.Duration) {
	for _, item := range list(v) {
		m := membersOf(item)
		reason, wait = cmp.Or(reason, codeWord(m["reason"])), cmp.Or(wait, m.wait())
	}
	return reason, wait
}

// says reports whether e is an error.
func (e ErrorBody) says() bool { return e.Code != "" || e.Message != "" || e.Type != "" }

// merge fills in missing fields of the inner level from the outer one.
func merge(inner, outer ErrorBody) ErrorBody {
	return ErrorBody{
		Code:       strongest(inner.Code, outer.Code),
		Type:       cmp.Or(inner.Type, outer.Type),
		Wrapped:    cmp.Or(outer.Wrapped, inner.Wrapped),
		Param:      cmp.Or(inner.Param, outer.Param),
		Message:    cmp.Or(inner.Message, outer.Message),
		RequestID:  cmp.Or(inner.RequestID, outer.RequestID),
		RetryAfter: cmp.Or(inner.RetryAfter, outer.RetryAfter),
	}
}

func (e ErrorBody) cut() ErrorBody {
	e.Code, e.Type, e.Wrapped, e.Param = CutWord(e.Code), CutWord(e.Type), CutWord(e.Wrapped), CutWord(e.Param)
	e.Message, e.RequestID = CutMessage(e.Message), CutWord(e.RequestID)
	return e
}

// strongest returns the first code that is more than an HTTP status, or else the first code.
func strongest(codes ...string) string {
	for _, c := range codes {
		if n, err := strconv.Atoi(c); c != "" && (err != nil || n < 100 || n > 599) {
			return c
		}
	}
	return cmp.Or(codes...)
}

// codeWord returns a string that can be a code, or "". A reason may also be a sentence.
func codeWord(v jsontext.Value) string {
	s := text(v)
	if strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-.", r)
	}) {
		return ""
	}
	return s
}

// rpcStatus returns the name of the code in a google.rpc.Status, or "". Other objects with a status
// are tasks.
func (f fields) rpcStatus() string {
	s := text(f["status"])
	if code.Code_value[s] == 0 || f["code"] == nil && f["message"] == nil {
		return ""
	}
	return s
}

// fields are the members of an object, by squeezed name.
type fields map[string]jsontext.Value

// membersOf returns the members of an object, or nil. Of names that squeeze alike, the last in byte
// order wins, so that "code" wins over "Code" and "id" over "_id". But null and "" win over nothing.
func membersOf(v jsontext.Value) fields {
	var members map[string]jsontext.Value
	if v.Kind() != '{' || json.Unmarshal(v, &members, lax.Options) != nil {
		return nil
	}
	f := make(fields, len(members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		key, value := squeeze(name), members[name]
		if f[key] == nil || value.Kind() != 'n' && string(value) != `""` {
			f[key] = value
		}
	}
	return f
}

// list returns the items of an array, or nil.
func list(v jsontext.Value) []jsontext.Value {
	var items []jsontext.Value
	if v.Kind() != '[' || json.Unmarshal(v, &items, lax.Options) != nil {
		return nil
	}
	return items
}

// text returns the value of a JSON string, or "" for any other JSON value.
func text(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	// AppendUnquote replaces invalid UTF-8, although it also returns an error.
	b, _ := jsontext.AppendUnquote(nil, v)
	return strings.TrimSpace(string(b))
}

// word returns an error code: the value of a string, or a number as written. It is empty for 0.
func word(v jsontext.Value) string {
	if s := unquoted(v); s != "0" {
		return s
	}
	return ""
}

func describe(body []byte) string {
	s := strings.TrimSpace(string(beginning(body, maxExcerpt)))
	switch {
	case s == "":
		return ""
	case s[0] == '<':
		return strings.TrimSpace("an HTML page " + htmlTitle(s))
	case s[0] == '{' || s[0] == '[':
		return "JSON that is not an error"
	case strings.HasPrefix(s, gzipMagic):
		return fmt.Sprintf("%d bytes of undeclared gzip data", len(body))
	case !isText(s):
		return fmt.Sprintf("%d bytes of binary data", len(body))
	default:
		return CutMessage(s)
	}
}

// beginning returns the start of body, at most limit bytes, cut at a rune boundary.
func beginning(body []byte, limit int) []byte {
	if len(body) <= limit {
		return body
	}
	for limit > 0 && !utf8.RuneStart(body[limit]) {
		limit--
	}
	return body[:limit]
}

// isText reports whether s may be quoted: it must be valid UTF-8 without control characters other
// than tab, CR and LF.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) })
}

func htmlTitle(page string) string {
	lower := strings.ToLower(page)
	start := strings.Index(lower, "<title>")
	if start < 0 || len(lower) != len(page) {
		return ""
	}
	rest := page[start+len("<title>"):]
	title, _, _ := strings.Cut(rest, "<")
	if !isText(title) {
		return ""
	}
	return CutMessage(strings.TrimSpace(title))
}

// RequestID returns the upstream's ID for the call from the headers, or "".
func RequestID(h http.Header) string {
	for _, name := range []string{"X-Request-Id", "X-Oneapi-Request-Id", "X-Generation-Id"} {
		if id := h.Get(name); id != "" {
			return CutWord(id)
		}
	}
	return ""
}

// ResponseError converts an error answer to an *Error. The bool reports whether the body could be
// read as an error. If not, and the body is encoded or not text, the message also states the
// declared type and encoding. RequestID and RetryAfter come from a header or, failing that, from the
// body.
func (ep *Endpoint) ResponseError(op string, resp *http.Response, body []byte) (*Error, bool) {
	said, readable := ParseErrorBody(body)
	if !readable && said.Message != "" && (Encoding(resp.Header) != "" || !isText(string(beginning(body, maxExcerpt)))) {
		said.Message += Declared(resp.Header)
	}
	if said.Message == "" {
		said.Message = strings.ToLower(http.StatusText(resp.StatusCode))
	}
	if host := redirectHost(resp); host != "" {
		said.Message = "the upstream redirects to " + host + "; redirects are never followed, so set base_url to the final address"
	}
	wait := cmp.Or(RetryAfter(resp.Header), said.RetryAfter)
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		wait = cmp.Or(wait, waitInText(said.Message)) // not for other statuses, whose messages may quote a prompt
	}
	e := &Error{
		Op: op, Code: said.Code, Type: said.Type, Wrapped: said.Wrapped, Param: said.Param, Message: CutMessage(said.Message),
		HTTPStatus: resp.StatusCode, RequestID: cmp.Or(RequestID(resp.Header), said.RequestID), RetryAfter: wait,
		Reported: readable, Written: true,
	}
	ep.hide(e)
	return e, readable
}

// Declared returns the content type and encoding that an answer's header declares, in parentheses,
// to be appended to a description of the body.
func Declared(h http.Header) string {
	s := fmt.Sprintf(" (Content-Type %.100q", h.Get("Content-Type"))
	if encoding := Encoding(h); encoding != "" {
		s += fmt.Sprintf(", Content-Encoding %.100q", encoding)
	}
	return s + ")"
}

// redirectHost describes the target of a redirect: the host in Location, or "another path" if
// Location names no host. It returns "" if the answer is not a redirect.
func redirectHost(resp *http.Response) string {
	if resp.StatusCode < 300 || resp.StatusCode > 399 || resp.StatusCode == http.StatusNotModified {
		return ""
	}
	u, err := url.Parse(resp.Header.Get("Location"))
	if err != nil || u.Host == "" {
		return "another path"
	}
	return "host " + u.Host
}

// CutMessage makes a message valid UTF-8 and truncates it at a rune boundary to 2 KiB, the limit of
// Error.Message.
func CutMessage(s string) string { return cut(s, maxMessage) }

// CutWord is like CutMessage but truncates to 256 bytes. It is meant for codes, types, params and
// request IDs.
func CutWord(s string) string { return cut(s, maxWord) }

// cut makes s valid UTF-8 and truncates it at a rune boundary to at most limit bytes.
func cut(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
