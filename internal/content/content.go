// Package content reads the content of completed videos as a stream, from where
// the upstream says it is or from the archive in the object store. It holds
// nothing whole in memory, and knows nothing of tasks: its callers say where a
// task's content is.
//
// A result's URL comes from a stranger, so it is called with care. The key and
// the configured headers go to the upstream's own origin (scheme, host and port)
// and to no other. Redirects are followed by hand, at most five, and only to
// http and https. Every connection to another host is checked against the
// private addresses at the moment it is made, so that neither DNS nor a redirect
// leads into the internal network. That check needs the connection to be ours:
// the proxies of the environment (HTTPS_PROXY) are used for the upstream's own
// origin, and for other hosts only where private addresses are allowed.
package content

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// File is content, or a part of it, as an HTTP answer would give it.
type File struct {
	// Status is 200, 206, or 416 when the range begins beyond the content.
	Status int
	// Type is the media type, such as "video/mp4"; empty for 416. It is never one
	// that a browser would run or render as a page.
	Type string
	// Length is how many bytes Body has (with HeadOnly: would have); -1 when
	// unknown.
	Length int64
	// Range is the Content-Range of a 206 or 416, and empty for 200.
	Range string
	// ETag and LastModified are validators as the headers of these names have
	// them, or empty.
	ETag, LastModified string
	// Body is never nil, and the caller closes it. It ends with io.EOF only when
	// the content is whole: content that was cut off, stalled or is damaged fails
	// Read, with io.ErrUnexpectedEOF in the chain where it was too short.
	Body io.ReadCloser
}

// Request is what of the content is wanted.
type Request struct {
	// Range is the client's Range header, or empty. A header of several ranges, of
	// another unit or with a mistake is ignored, which gives the whole (RFC 9110).
	Range string
	// IfRange is the client's If-Range header, or empty. Without Range it says
	// nothing.
	IfRange string
	// HeadOnly leaves Body empty and Range aside, as HEAD does. The upstream sees
	// a GET all the same, because many signed URLs allow nothing else; its body is
	// not read.
	HeadOnly bool
}

// Place is where content lies.
type Place struct {
	// Endpoint is the upstream that made the task, with its key. It may be nil when
	// the upstream is not configured any more; then only URL can be read.
	Endpoint *upstream.Endpoint
	// Path is the escaped path of the content below the endpoint's base URL. It
	// counts where there is no URL.
	Path string
	// URL is the result's http, https or data URL, or empty. One on the endpoint's
	// own origin is called with the key.
	URL string
	// PrivateOK allows private addresses on other hosts than the endpoint's own,
	// and lets the environment's proxies be used for them.
	PrivateOK bool
}

// Options tunes a Reader. The zero value is ready to use.
type Options struct {
	// HeaderTimeout bounds each call until its header has come, and after that the
	// reading of what is no content: errors, and JSON that names a URL. Default 30 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a body may give nothing while it is read. Default
	// 60 s.
	IdleTimeout time.Duration
	// TLS is for hosts other than the upstream's own. Default nil: the system's
	// roots.
	TLS *tls.Config
}

func (o Options) withDefaults() Options {
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, time.Minute)
	return o
}

// Reader reads content from upstreams and the hosts they name. It is safe for
// concurrent use.
type Reader struct {
	opts Options
	// public refuses private addresses; anywhere does not.
	public, anywhere *http.Transport
}

// NewReader returns a Reader.
func NewReader(opts Options) *Reader {
	opts = opts.withDefaults()
	return &Reader{opts: opts, public: toPublic(opts.TLS), anywhere: toAnywhere(opts.TLS)}
}

// Close ends idle connections. Bodies that are still read go on.
func (r *Reader) Close() {
	r.public.CloseIdleConnections()
	r.anywhere.CloseIdleConnections()
}

// Open finds the content and gives its headers and its body, which live as long
// as ctx. Errors are *errcode.Error: ContentExpired when the content is gone,
// ContentBlocked when it lies where genbus does not read, CallerGone when ctx was
// cancelled, and else ContentUnavailable. They name hosts, but never a URL's
// query, which is where signatures stand, nor a key.
func (r *Reader) Open(ctx context.Context, p Place, q Request) (*File, error) {
	w := &walk{reader: r, place: p, want: newWant(q), trusted: true}
	return w.open(ctx)
}
