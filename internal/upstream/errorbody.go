package upstream

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
	// Code is the error code, with a number as written. It is empty if the code is null, 0, "" or
	// missing.
	Code string
	Type string
	// Param names the request parameter at fault.
	Param string
	// Message is truncated to 2 KiB at a rune boundary.
	Message string
	// RequestID is the upstream's ID for the call, if the body contains it.
	RequestID string
}

// ParseErrorBody reads an error answer in any of these forms:
//
//	{"error":{"message":"..","type":"..","param":null,"code":"word"|502|null}}
//	{"error":"text"}
//	{"code":"word"|502,"message":"..","data":null,"request_id":".."}
//	{"ResponseMetadata":{"RequestId":"..","Error":{"CodeN":1,"Code":"Word","Message":".."}}}
//	{"detail":"text"|[{"loc":[..],"msg":".."}]|{..}}
//	{"message":".."}  {"msg":".."}
//
// The bool is false if the body has none of these forms (for example an HTML page from a proxy,
// plain text or nothing) or reports no error (an error object with code 0 and no message). In that
// case Message is a short description of the body, or empty. The description quotes the body only
// if it is text. RequestID is set whenever the body contains one.
func ParseErrorBody(body []byte) (ErrorBody, bool) {
	fields, ok := object(body)
	if !ok {
		return ErrorBody{Message: describe(body)}, false
	}
	e := readFields(fields)
	if metadata, ok := object(fields["ResponseMetadata"]); ok {
		e = merge(readMetadata(metadata), e)
	}
	switch inner := fields["error"]; inner.Kind() {
	case '{':
		nested, _ := object(inner)
		e = merge(readFields(nested), e)
	case '"':
		e = merge(ErrorBody{Message: text(inner)}, e)
	}
	e = e.cut()
	if e.Code == "" && e.Message == "" && e.Type == "" {
		return ErrorBody{Message: describe(body), RequestID: e.RequestID}, false
	}
	return e, true
}

func readFields(fields map[string]jsontext.Value) ErrorBody {
	e := ErrorBody{
		Code:      word(fields["code"]),
		Type:      text(fields["type"]),
		Param:     text(fields["param"]),
		Message:   text(fields["message"]),
		RequestID: text(fields["request_id"]),
	}
	if e.Message == "" {
		e.Message = text(fields["msg"])
	}
	if e.Message == "" {
		e.Message = detail(fields["detail"])
	}
	return e
}

// readMetadata reads the ResponseMetadata that a vendor's API gateway sends if it refuses a request
// before the service sees it.
func readMetadata(metadata map[string]jsontext.Value) ErrorBody {
	fields, _ := object(metadata["Error"])
	return ErrorBody{
		Code:      cmp.Or(text(fields["Code"]), word(fields["CodeN"])),
		Message:   text(fields["Message"]),
		RequestID: text(metadata["RequestId"]),
	}
}

// merge fills in missing fields of the inner level from the outer one.
func merge(inner, outer ErrorBody) ErrorBody {
	return ErrorBody{
		Code:      cmp.Or(inner.Code, outer.Code),
		Type:      cmp.Or(inner.Type, outer.Type),
		Param:     cmp.Or(inner.Param, outer.Param),
		Message:   cmp.Or(inner.Message, outer.Message),
		RequestID: cmp.Or(inner.RequestID, outer.RequestID),
	}
}

func (e ErrorBody) cut() ErrorBody {
	return ErrorBody{
		Code: CutWord(e.Code), Type: CutWord(e.Type), Param: CutWord(e.Param),
		Message: CutMessage(e.Message), RequestID: CutWord(e.RequestID),
	}
}

// detail reads FastAPI's detail: a string, a list of errors or an object.
func detail(v jsontext.Value) string {
	switch v.Kind() {
	case '"':
		return text(v)
	case '[':
		var list []jsontext.Value
		if json.Unmarshal(v, &list, lax.Options) != nil || len(list) == 0 {
			return ""
		}
		return detail(list[0])
	case '{':
		fields, _ := object(v)
		if s := text(fields["msg"]); s != "" {
			return s
		}
		return text(fields["message"])
	default:
		return ""
	}
}

func object(v []byte) (map[string]jsontext.Value, bool) {
	var fields map[string]jsontext.Value
	if jsontext.Value(v).Kind() != '{' || json.Unmarshal(v, &fields, lax.Options) != nil {
		return nil, false
	}
	return fields, true
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

// word returns an error code: the value of a string, or a number other than 0 as written.
func word(v jsontext.Value) string {
	if v.Kind() == '0' {
		if s := string(v); s != "0" {
			return s
		}
		return ""
	}
	return text(v)
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
// declared type and encoding. RequestID comes from a header or, failing that, from the body.
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
	return &Error{
		Op: op, Code: said.Code, Type: said.Type, Param: said.Param, Message: ep.clean(said.Message),
		HTTPStatus: resp.StatusCode, RequestID: cmp.Or(RequestID(resp.Header), said.RequestID), RetryAfter: RetryAfter(resp.Header),
		Reported: readable, Written: true,
	}, readable
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
