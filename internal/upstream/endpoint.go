package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// DefaultMaxBody is the limit on one upstream answer.
const DefaultMaxBody = 32 << 20

// Endpoint is one upstream server and the key to it. It is not changed after
// construction and is safe for concurrent use.
type Endpoint struct {
	// Name is the upstream's name in the configuration; it appears in errors.
	Name string
	// BaseURL is the server without "/v1", for example "https://host/api". A
	// trailing slash or "/v1" is accepted and not doubled. Query, fragment and
	// user information are refused by the configuration.
	BaseURL string
	// Key is sent as a bearer token; empty sends no Authorization header.
	Key Secret
	// Auth signs each request in place of the bearer token; nil uses Key.
	Auth Authorizer
	// Client carries the calls; it comes from NewHTTPClient.
	Client *http.Client
	// ReuseConnections lets creates over HTTP/1.1 reuse connections, as all other
	// calls do. The outcome of a create is unknown when the upstream closes its
	// connection at that moment. Default false.
	ReuseConnections bool
	// MaxBody limits an answer read by AppendBody, in bytes. Default 32 MiB.
	MaxBody int64
	// Header is sent with every request. The headers that genbus sets itself
	// win, except User-Agent.
	Header http.Header
}

// Authorizer signs requests in a vendor's own way. It is safe for concurrent
// use.
type Authorizer interface {
	// Authorize sets the headers that prove who calls. It is called once for each
	// request, when nothing else of the request changes any more. body is what
	// will be sent, nil for none.
	Authorize(req *http.Request, body []byte) error
	// Secrets are the texts that must never stand in an error.
	Secrets() []string
}

// String gives the name and nothing secret.
func (ep *Endpoint) String() string { return ep.Name }

// LogValue gives the name and the base URL to slog.
func (ep *Endpoint) LogValue() slog.Value {
	return slog.GroupValue(slog.String("name", ep.Name), slog.String("base_url", ep.BaseURL))
}

// URL joins the base URL and a path that starts with "/".
func (ep *Endpoint) URL(path string) string {
	base := strings.TrimRight(ep.BaseURL, "/")
	base = strings.TrimRight(strings.TrimSuffix(base, "/v1"), "/")
	return base + path
}

// NewRequest builds a request for path, which starts with "/" and is already
// escaped. A nil body sends none. A body is sent at most once, whatever
// net/http would do on its own: it has no GetBody, and it refuses to be read
// after Do has returned an error. An empty, non-nil body is an error, because
// net/http would treat it as no body and feel free to send it again.
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

// Do sends a request made by NewRequest and returns the answer, whatever its
// status, decoded where it came as gzip. The caller closes the answer's body. The
// error is always an *Error with HTTPStatus 0; its Written says whether the upstream
// may have processed the request. Only requests with a body are traced: for the
// others Written is always true.
func (ep *Endpoint) Do(op string, req *http.Request) (*http.Response, error) {
	resp, err := ep.DoRaw(op, req)
	if err == nil {
		Decode(resp)
	}
	return resp, err
}

// DoRaw is Do for files: their lengths and ranges count the bytes as they are sent.
func (ep *Endpoint) DoRaw(op string, req *http.Request) (*http.Response, error) {
	if err := ep.authorize(req); err != nil {
		return nil, &Error{Op: op, Message: ep.clean("the request could not be signed: " + err.Error()), Err: err}
	}
	resp, err := ep.Client.Do(req)
	if err == nil {
		return resp, nil
	}
	return nil, ep.transportError(req, op, err)
}

// DoRepeatable sends the request that build makes, as Do does. When the upstream
// certainly did not process it and a new connection may fare better, another one is built
// and sent at once: the connection was reused, and the upstream may have closed it before
// anything was written, or the upstream refused the HTTP/2 stream. Over HTTP/1.1 the
// connection is then a new one. again is called first, unless it is nil. A second failure
// is final, and so is a timeout, because it has cost its time. The error is always an
// *Error.
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

// repeatable reports whether a request that failed may be sent again at once.
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

// AppendBody reads the rest of an answer, closes it and appends it to dst. The
// error is always an *Error: the connection broke, the context ended, the answer's
// gzip data is damaged or a bomb, or the answer is, once decoded, longer than MaxBody.
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
	// *url.Error repeats the method and the whole URL; the cause is enough.
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
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

// reason prefers why the context ended over how the connection noticed it.
func reason(ctx context.Context, err error) string {
	if cause := context.Cause(ctx); cause != nil {
		return cause.Error()
	}
	return Reason(err)
}

// Reason is the text of a transport error without the addresses of its
// connection, of a proxy's and of the resolver's, and without what a server said
// that does not speak HTTP: callers have no business to know either.
func Reason(err error) string {
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		if lookup.IsNotFound {
			return "no such host"
		}
		return "host name lookup failed"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		// The system's error often begins with the same word.
		return op.Op + ": " + strings.TrimPrefix(Reason(op.Err), op.Op+": ")
	}
	text := err.Error()
	// So net/http begins to quote an answer.
	for _, quoted := range []string{"malformed HTTP", "malformed MIME", "Content-Length", "transfer encoding", "Trailer key", "trailer key"} {
		if strings.Contains(text, quoted) {
			return "the answer is not valid HTTP"
		}
	}
	return text
}

// clean cuts a message to its limit and removes the key, which some servers
// echo.
func (ep *Endpoint) clean(message string) string {
	const minKey = 8 // shorter ones would cut holes into ordinary words
	secrets := []string{string(ep.Key)}
	if ep.Auth != nil {
		secrets = append(secrets, ep.Auth.Secrets()...)
	}
	for _, secret := range secrets {
		if len(secret) >= minKey {
			message = strings.ReplaceAll(message, secret, redacted)
		}
	}
	return CutMessage(message)
}

// NotSent gives the *Error for a request that could not be built. The same
// request would fail again.
func NotSent(op string, err error) *Error {
	return &Error{Op: op, Message: CutMessage(err.Error()), Final: true, Err: err}
}

// AsError gives the *Error in err, or wraps err in one that assumes the worst:
// the request may have been written and nothing is known about its outcome. It
// gives nil for nil.
func AsError(op string, err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Op: op, Message: CutMessage(err.Error()), Written: true, Err: err}
}
