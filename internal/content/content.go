// Package content streams the content of completed videos from the upstream, from the URL that the
// upstream names, or from the archive in the object store. It never holds a whole file in memory.
// It knows nothing about tasks, so callers pass it the location of the content.
//
// A result's URL is untrusted. The key and the configured headers go only to the upstream's own
// origin (scheme, host and port). The package follows redirects itself, at most five, and only to
// http and https. Connections to other hosts are checked for private addresses when they are
// dialled, so neither DNS nor a redirect can lead into the internal network. A proxy would bypass
// this check, because it would dial instead of genbus. Therefore the environment's proxies
// (HTTPS_PROXY) are used only for the upstream's own origin and, if private addresses are allowed,
// for other hosts.
package content

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// File is content, or a range of it, described in HTTP terms.
type File struct {
	// Status is 200, 206, or 416 if the range begins beyond the end of the content.
	Status int
	// Type is the media type, such as "video/mp4", or empty for 416. It is never a type that a
	// browser would run or render as a page.
	Type string
	// Length is the number of bytes in Body, or -1 if unknown. With HeadOnly, it is the number that
	// Body would otherwise have.
	Length int64
	// Range is the Content-Range of a 206 or 416, or empty for 200.
	Range string
	// ETag and LastModified are the values of the headers with these names, or empty.
	ETag, LastModified string
	// Body is never nil, and the caller must close it. It ends with io.EOF only if the content is
	// complete. Read fails on content that is truncated, stalled or damaged, with
	// io.ErrUnexpectedEOF in the chain if the content is too short.
	Body io.ReadCloser
}

// Request specifies which part of the content to read.
type Request struct {
	// Range is the client's Range header, or empty. A header with several ranges, another unit or a
	// syntax error is ignored and yields the whole content (RFC 9110).
	Range string
	// IfRange is the client's If-Range header, or empty. It is ignored without Range.
	IfRange string
	// HeadOnly leaves Body empty and ignores Range, as HEAD does. The upstream still receives a
	// GET, because many signed URLs allow no other method, but its body is not read.
	HeadOnly bool
}

// Place locates content.
type Place struct {
	// Endpoint is the upstream that created the task, with its key. It may be nil if the upstream
	// is no longer configured. In that case only URL can be read.
	Endpoint *upstream.Endpoint
	// Path is the escaped path of the content below the endpoint's base URL. It is ignored if URL
	// is set.
	Path string
	// URL is the result's http, https or data URL, or empty. If it is on the endpoint's own origin,
	// it is called with the key.
	URL string
	// Fresh is true if the upstream reported the content at most a few minutes ago. The content may
	// not be available yet, so Open repeats refused requests (see Options.Again).
	Fresh bool
	// PrivateOK allows private addresses on hosts other than the endpoint's own, and lets calls to
	// these hosts use the environment's proxies.
	PrivateOK bool
}

// Options configures a Reader. The zero value is ready to use.
type Options struct {
	// HeaderTimeout bounds the time until the header of a response arrives. If the response is an
	// error, or JSON that names a URL, it also bounds the time to read the rest. Default 30 s.
	HeaderTimeout time.Duration
	// IdleTimeout bounds how long a read of a body may wait for data. Default 60 s.
	IdleTimeout time.Duration
	// Again lists the waits before each further request for fresh content that is not there yet.
	// Default 1 s, 2 s and 4 s.
	Again []time.Duration
	// TLS configures connections to hosts other than the upstream's own. Default nil, which uses
	// the system's root certificates.
	TLS *tls.Config
}

func (o Options) withDefaults() Options {
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, time.Minute)
	if o.Again == nil {
		o.Again = []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}
	}
	return o
}

// Reader reads content from upstreams and the hosts that they name. It is safe for concurrent use.
type Reader struct {
	opts Options
	// public refuses private addresses; anywhere allows them.
	public, anywhere *http.Transport
}

// NewReader returns a Reader.
func NewReader(opts Options) *Reader {
	opts = opts.withDefaults()
	return &Reader{opts: opts, public: toPublic(opts.TLS), anywhere: toAnywhere(opts.TLS)}
}

// Close closes idle connections. Open bodies stay readable.
func (r *Reader) Close() {
	r.public.CloseIdleConnections()
	r.anywhere.CloseIdleConnections()
}

// Open returns the content's headers and its body, which is valid until ctx ends. Errors are
// *errcode.Error: ContentExpired if the content is gone, ContentBlocked if genbus must not read its
// address, CallerGone if ctx was cancelled, and ContentUnavailable otherwise. They may name hosts,
// but never a key or the query of a URL, which may hold a signature.
func (r *Reader) Open(ctx context.Context, p Place, q Request) (*File, error) {
	f, err := r.open(ctx, p, q)
	if !p.Fresh {
		return f, err
	}
	for _, wait := range r.opts.Again {
		if !mayFollow(err) || broker.Wait(ctx, wait) != nil {
			break
		}
		late, again := r.open(ctx, p, q)
		if again != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			break // the answer before says more than that the time is over
		}
		f, err = late, again
	}
	return f, err
}

func (r *Reader) open(ctx context.Context, p Place, q Request) (*File, error) {
	w := &walk{reader: r, place: p, want: newWant(q), trusted: true}
	return w.open(ctx)
}

// mayFollow reports whether an error is an answer that servers give while content is being stored
// or spread to their hosts. Ark and new-api say 400.
func mayFollow(err error) bool {
	e, ok := errors.AsType[*errcode.Error](err)
	if !ok {
		return false
	}
	switch e.UpstreamHTTPStatus {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusTooEarly:
		return true
	default:
		return e.UpstreamHTTPStatus/100 == 2 // no content, or an error in a 200
	}
}
