package upstream

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// ErrBadGzip says that an answer arrived whole and that its gzip data is damaged.
var ErrBadGzip = errors.New("the answer's gzip data is damaged")

// gzipMagic begins all gzip data, and neither JSON nor a stream.
const gzipMagic = "\x1f\x8b"

// Encoding gives the content codings of an answer as its header names them, or ""
// for none. Nothing but identity is asked for, but some servers, and the proxies in
// front of them, compress regardless.
func Encoding(h http.Header) string {
	var codings []string
	for _, value := range h.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(value, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				codings = append(codings, coding)
			}
		}
	}
	return strings.Join(codings, ", ")
}

// Decode makes the body of a gzip answer a plain one and removes its
// Content-Encoding. It reads nothing yet, and holds back nothing that can be decoded,
// so that streams arrive as they are sent. Its memory is small and fixed; limits on
// the length are for the reader, as with a plain answer. An answer in another encoding
// stays as it is: servers write words such as utf-8 into the header, and the caller that
// cannot read the body says which encoding it has.
func Decode(resp *http.Response) {
	if coding := strings.ToLower(Encoding(resp.Header)); coding != "gzip" && coding != "x-gzip" {
		return
	}
	resp.Body = &gunzip{compressed: source{body: resp.Body}}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
}

// gunzip is the body of an answer whose header says gzip.
type gunzip struct {
	compressed source
	in         *bufio.Reader // of compressed; nil before the first read
	member     *gzip.Reader  // nil where the body is plain all the same
	between    bool          // a member has ended, and the next one was not looked for
	err        error         // sticky, io.EOF too
}

// Read gives what can be decoded. The first error is returned by every later call.
func (g *gunzip) Read(p []byte) (int, error) {
	if g.in == nil {
		g.begin()
	}
	for g.err == nil {
		if g.between {
			g.next()
			continue
		}
		if g.member == nil {
			n, err := g.in.Read(p)
			g.err = g.explain(err)
			return n, g.err
		}
		n, err := g.member.Read(p)
		if err != io.EOF { //nolint:errorlint // an error that wraps io.EOF is no end
			g.err = g.explain(err)
			return n, g.err
		}
		g.between = true
		if n > 0 { // the next member may come much later
			return n, nil
		}
	}
	return 0, g.err
}

// begin reads the gzip header. A body without one was decoded on its way here by a
// proxy that left Content-Encoding behind.
func (g *gunzip) begin() {
	g.in = bufio.NewReader(&g.compressed)
	if !g.atMember() {
		return // the error of the look comes again at the next read
	}
	var err error
	if g.member, err = gzip.NewReader(g.in); err != nil {
		g.err = g.explain(err)
		return
	}
	g.member.Multistream(false)
}

// next goes on with the next member. Anything else behind a whole member is no part of the
// answer: some servers pad it, as they pad files.
func (g *gunzip) next() {
	g.between = false
	if !g.atMember() {
		if g.err = g.compressed.err; g.err == nil {
			g.err = io.EOF
		}
		return
	}
	if err := g.member.Reset(g.in); err != nil {
		g.err = g.explain(err)
		return
	}
	g.member.Multistream(false)
}

func (g *gunzip) atMember() bool {
	head, _ := g.in.Peek(len(gzipMagic))
	return string(head) == gzipMagic
}

// explain tells a connection that broke from data that ends early and from data that
// is wrong.
func (g *gunzip) explain(err error) error {
	switch {
	case err == nil || err == io.EOF: //nolint:errorlint // an error that wraps io.EOF is no end
		return err
	case g.compressed.err != nil:
		return g.compressed.err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("its gzip data is cut off: %w", err)
	default:
		return fmt.Errorf("%w: %w", ErrBadGzip, err)
	}
}

// Close closes the answer's body.
func (g *gunzip) Close() error { return g.compressed.body.Close() }

// What small data grows to is unlimited but by the limit on the answer, which is as long
// as a result within it (a data: URL) may be. Beyond freeGrowth bytes no JSON grows
// maxGrowth times.
const (
	freeGrowth = 1 << 20
	maxGrowth  = 100
)

// bomb reports whether body is gzip data that has grown too much, to n bytes.
func bomb(body io.Reader, n int) bool {
	g, ok := body.(*gunzip)
	return ok && n > freeGrowth && n > maxGrowth*g.compressed.n
}

// source counts what it reads, and remembers why its body could not be read to the end.
type source struct {
	body io.ReadCloser
	n    int
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	s.n += n
	if err != io.EOF {
		s.err = err
	}
	return n, err
}
