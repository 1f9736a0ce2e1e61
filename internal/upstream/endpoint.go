package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"

	"github.com/genbus/genbus/internal/protocol"
)

// DefaultMaxBody is the default of Endpoint.MaxBody.
const DefaultMaxBody = 32 << 20

// Endpoint is an upstream server and a key for it. It must not be modified after construction and
// is safe for concurrent use.
type Endpoint struct {
	// Name is the upstream's name in the configuration. It appears in errors.
	Name string
	// BaseURL is the address below which the API is, for example "https://host" or
	// "https://host/api/v3". URL adds the version unless BaseURL has one. A trailing slash is
	// ignored. The configuration refuses query, fragment and user information.
	BaseURL string
	// VersionPath replaces the version that URL adds, whether or not BaseURL has one, for example
	// "/v4", or "/" for none. Default: "/v1" if BaseURL has no version, none otherwise.
	VersionPath string
	// Key is sent as a bearer token. If it is empty, no Authorization header is sent.
	Key Secret
	// Auth signs each request instead of sending the bearer token. If it is nil, Key is used.
	Auth Authorizer
	// Transport makes the calls. It must come from NewTransport, because other transports send
	// creates over reused connections and do not show whether a failed request was sent.
	Transport http.RoundTripper
	// ReuseConnections lets creates over HTTP/1.1 reuse connections, as all other calls do. If the
	// upstream closes a reused connection while a create is being sent, the outcome of that create
	// is unknown. Default false.
	ReuseConnections bool
	// MaxBody limits the bytes of an answer read by AppendBody. Default 32 MiB.
	MaxBody int64
	// Header is sent with every request. Headers that genbus sets itself take precedence, except
	// User-Agent.
	Header http.Header
}

// Authorizer signs requests with a vendor's scheme. Implementations must be safe for concurrent
// use.
type Authorizer interface {
	// Authorize sets the authentication headers. It is called once per request, after the rest of
	// the request is final. body is the body to send, or nil.
	Authorize(req *http.Request, body []byte) error
	// Secrets returns strings that must not appear in errors.
	Secrets() []string
}

// String returns the name, which is not secret.
func (ep *Endpoint) String() string { return ep.Name }

// LogValue returns the name and the base URL.
func (ep *Endpoint) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", ep.Name), slog.String("base_url", ep.BaseURL))
}

// version begins the paths of OpenAI's API.
const version = "/v1"

// URL returns the address of a path that starts with "/". Vendors document a base address to which
// clients append "/chat/completions", so URL drops the path's "/v1" if the base URL already has a
// version segment: "https://host/api/v3" calls "https://host/api/v3/chat/completions", and
// "https://host" calls "https://host/v1/chat/completions". Paths without "/v1" start at the Root of
// the base URL.
func (ep *Endpoint) URL(path string) string {
	base := strings.TrimRight(ep.BaseURL, "/")
	resource, versioned := strings.CutPrefix(path, version+"/")
	switch {
	case !versioned:
		return Root(base) + path
	case ep.VersionPath != "":
		return base + strings.TrimRight(ep.VersionPath, "/") + "/" + resource
	case protocol.HasVersion(base):
		return base + "/" + resource
	default:
		return base + path
	}
}

// Root returns a base URL without a trailing slash or "/v1".
func Root(base string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(base, "/"), version), "/")
}

// NewRequest returns a request for path, which starts with "/" and is already escaped. If body is
// nil, the request has none. A body is sent at most once: the request has no GetBody, so net/http
// cannot resend it, and the body cannot be read after Do has returned an error. An empty, non-nil
// body is an error, because net/http treats it as no body and may resend the request.
func (ep *Endpoint) NewRequest(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	var once *onceBody
	if body != nil {
		if len(body) == 0 {
			return nil, fmt.Errorf("upstream %s: %s %s: the request body is empty", ep.Name, method, path)
		}
		once = newOnceBody(ctx, body)
		ctx = once.trace(ctx)
	}
	req, err := http.NewRequestWithContext(ctx, method, ep.URL(path), nil)
	if err != nil {
		return nil, fmt.Errorf("upstream %s: %s %s: the URL cannot be used", ep.Name, method, path)
	}
	if once != nil {
		req.Body, req.ContentLength = once, int64(len(body))
	}
	ep.setHeader(req.Header, once != nil)
	return req, nil
}

func (ep *Endpoint) setHeader(h http.Header, hasBody bool) {
	h.Set("User-Agent", "genbus")
	for name, values := range ep.Header {
		h[http.CanonicalHeaderKey(name)] = append([]string(nil), values...)
	}
	if ep.Key != "" && ep.Auth == nil {
		h.Set("Authorization", "Bearer "+string(ep.Key))
	}
	h.Set("Accept-Encoding", "identity")
	if hasBody {
		h.Set("Content-Type", "application/json")
	}
}

// Do sends a request from NewRequest and returns the answer, whatever its status, with gzip
// decoded. The caller must close its body. The error is always an *Error with HTTPStatus 0. Its
// Written field reports whether the upstream may have processed the request. A request without a
// body counts as written once it has been signed, because only requests with a body are traced.
func (ep *Endpoint) Do(op string, req *http.Request) (*http.Response, error) {
	resp, err := ep.DoRaw(op, req)
	if err == nil {
		Decode(resp)
	}
	return resp, err
}

// DoRaw is like Do but does not decode the body. It is meant for files, whose lengths and ranges
// refer to the bytes as sent.
func (ep *Endpoint) DoRaw(op string, req *http.Request) (*http.Response, error) {
	if err := ep.authorize(req); err != nil {
		return nil, &Error{Op: op, Message: ep.clean("the request could not be signed: " + err.Error()), Err: err}
	}
	resp, err := ep.Transport.RoundTrip(req)
	if err == nil {
		return resp, nil
	}
	return nil, ep.transportError(req, op, err)
}

// DoRepeatable sends a request made by build, as Do does. If the upstream certainly did not process
// the request and a new connection may help, DoRepeatable immediately sends another. This is the
// case if nothing was written to a reused connection, which the upstream may have closed, or if the
// upstream refused the HTTP/2 stream. Over HTTP/1.1 the second request uses a new connection. If
// again is not nil, it is called before the second request. A second failure is final. Timeouts are
// not retried, because the time allowed has been used up. The error is always an *Error.
func (ep *Endpoint) DoRepeatable(ctx context.Context, op string, again func(), build func(context.Context) (*http.Request, error)) (*http.Response, error) {
	resp, err := ep.buildAndDo(ctx, op, build)
	if err == nil || ctx.Err() != nil || !repeatable(AsError(op, err)) {
		return resp, err
	}
	if again != nil {
		again()
	}
	return ep.buildAndDo(withFreshConn(ctx), op, build)
}

func (ep *Endpoint) buildAndDo(ctx context.Context, op string, build func(context.Context) (*http.Request, error)) (*http.Response, error) {
	req, err := build(ctx)
	if err != nil {
		return nil, NotSent(op, err)
	}
	return ep.Do(op, req)
}

// repeatable reports whether a failed request may be resent immediately.
func repeatable(e *Error) bool {
	if cause, ok := errors.AsType[net.Error](e); ok && cause.Timeout() {
		return false
	}
	return e.Repeatable
}

func (ep *Endpoint) authorize(req *http.Request) error {
	if ep.Auth == nil {
		return nil
	}
	var body []byte
	if once, ok := req.Body.(*onceBody); ok {
		body = once.bytes
	}
	return ep.Auth.Authorize(req, body)
}

// AppendBody reads the rest of an answer's body, appends it to dst and closes the body. The error
// is always an *Error. It means that the connection broke, the context ended, the gzip data is
// damaged or grows too much, or the decoded answer is longer than MaxBody.
func (ep *Endpoint) AppendBody(op string, resp *http.Response, dst []byte) ([]byte, error) {
	defer func() { _ = resp.Body.Close() }()
	limit := ep.maxBody()
	start := len(dst)
	for {
		if cap(dst)-len(dst) < 512 {
			dst = append(dst, make([]byte, max(512, len(dst)))...)[:len(dst)]
		}
		n, err := resp.Body.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if int64(len(dst)-start) > limit {
			return dst, ep.bodyError(op, resp, fmt.Sprintf("the answer is longer than %d bytes", limit), nil)
		}
		if bomb(resp.Body, len(dst)-start) {
			return dst, ep.bodyError(op, resp, fmt.Sprintf("the answer's gzip data grows more than %d times", maxGrowth), nil)
		}
		if err == io.EOF {
			return dst, nil
		}
		if errors.Is(err, ErrBadGzip) {
			return dst, ep.bodyError(op, resp, err.Error(), err)
		}
		if err != nil {
			return dst, ep.bodyError(op, resp, "the connection broke during the answer: "+reason(resp.Request.Context(), err), err)
		}
	}
}

func (ep *Endpoint) maxBody() int64 {
	if ep.MaxBody > 0 {
		return ep.MaxBody
	}
	return DefaultMaxBody
}

func (ep *Endpoint) bodyError(op string, resp *http.Response, message string, cause error) *Error {
	return &Error{
		Op: op, HTTPStatus: resp.StatusCode, Message: ep.clean(message), RequestID: RequestID(resp.Header),
		RetryAfter: RetryAfter(resp.Header), Written: true, Err: cause,
	}
}

func (ep *Endpoint) transportError(req *http.Request, op string, err error) *Error {
	e := &Error{Op: op, Written: true, Err: err}
	if once, traced := req.Body.(*onceBody); traced {
		e.Written = once.seal()
		reused, informed := once.met()
		if refusal := unprocessed(err); refusal != "" && !informed {
			e.Written, e.Repeatable, e.Message = false, true, "the upstream did not process the request: "+refusal
			return e
		}
		e.Repeatable = reused && !e.Written
	}
	what := "could not reach the upstream: "
	if e.Written {
		what = "no answer: "
	}
	e.Message = ep.clean(what + reason(req.Context(), err))
	return e
}

// reason returns the cause of ctx if ctx has ended, and the transport error otherwise.
func reason(ctx context.Context, err error) string {
	if cause := context.Cause(ctx); cause != nil {
		return cause.Error()
	}
	return Reason(err)
}

// Reason returns the text of a transport error without details that callers must not see: the
// addresses of the connection, the proxy and the resolver, and the answer of a server that does not
// speak HTTP.
func Reason(err error) string {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return "no such host"
		}
		return "host name lookup failed"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		// The system's error often starts with op.Op, too.
		return op.Op + ": " + strings.TrimPrefix(Reason(op.Err), op.Op+": ")
	}
	if record, ok := errors.AsType[tls.RecordHeaderError](err); ok && string(record.RecordHeader[:]) == "HTTP/" {
		return "the server speaks HTTP, but the URL begins with https"
	}
	text := err.Error()
	// The net/http errors that contain these phrases quote the answer.
	for _, quoted := range []string{"malformed HTTP", "malformed MIME", "Content-Length", "transfer encoding", "Trailer key", "trailer key"} {
		if strings.Contains(text, quoted) {
			return "the answer is not valid HTTP"
		}
	}
	return text
}

// clean removes secrets from a message, and truncates it.
func (ep *Endpoint) clean(message string) string { return CutMessage(ep.redact(message)) }

// hide removes secrets from an error that the upstream reported. e may be nil.
func (ep *Endpoint) hide(e *Error) {
	if e != nil {
		e.Code, e.Type, e.Wrapped = ep.redact(e.Code), ep.redact(e.Type), ep.redact(e.Wrapped)
		e.Param, e.Message = ep.redact(e.Param), ep.redact(e.Message)
	}
}

// redact removes the endpoint's secrets, which some servers echo.
func (ep *Endpoint) redact(text string) string { return Redact(text, ep.Secrets()...) }

// Secrets returns the credentials of the endpoint.
func (ep *Endpoint) Secrets() []string {
	secrets := []string{string(ep.Key)}
	if ep.Auth != nil {
		secrets = append(secrets, ep.Auth.Secrets()...)
	}
	return secrets
}

// Redact removes secrets from text. Secrets shorter than 8 bytes may be part of an ordinary word, so
// it removes them only where they stand alone.
func Redact(text string, secrets ...string) string {
	for _, secret := range secrets {
		switch {
		case len(secret) >= 8:
			text = strings.ReplaceAll(text, secret, redacted)
		case secret != "":
			text = asWord(secret).ReplaceAllString(text, redacted)
		}
	}
	return text
}

// asWord matches text where it is not part of a longer word.
func asWord(text string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(text)
	if letter.MatchString(text[:1]) {
		pattern = `\b` + pattern
	}
	if letter.MatchString(text[len(text)-1:]) {
		pattern += `\b`
	}
	return regexp.MustCompile(pattern)
}

var letter = regexp.MustCompile(`\w`)

// NotSent returns the *Error for a request that could not be built. The error is final, because
// building the same request again would fail too.
func NotSent(op string, err error) *Error {
	return &Error{Op: op, Message: CutMessage(err.Error()), Final: true, Err: err}
}

// AsError returns the *Error in err. It wraps any other error in an *Error that assumes the worst:
// that the request was written, so its outcome is unknown. If err is nil, AsError returns nil.
func AsError(op string, err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Op: op, Message: CutMessage(err.Error()), Written: true, Err: err}
}
