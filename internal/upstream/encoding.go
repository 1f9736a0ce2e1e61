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

// ErrBadGzip reports that an answer arrived in full but its gzip data is damaged.
var ErrBadGzip = errors.New("the answer's gzip data is damaged")

// gzipMagic is the prefix of all gzip data. JSON and event streams never start with it.
const gzipMagic = "\x1f\x8b"

// Encoding returns the content codings in a header other than identity, or "". genbus asks
// upstreams for identity, but some servers and proxies compress anyway.
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

// IsGzip reports whether a content coding is gzip.
func IsGzip(coding string) bool {
	return strings.EqualFold(coding, "gzip") || strings.EqualFold(coding, "x-gzip")
}

// Decode replaces the body of a gzip answer with its decoded form and removes Content-Encoding. It
// reads nothing itself, and the new body returns data as soon as it can be decoded, so streams are
// not delayed. It needs a small, fixed amount of memory, but the reader must limit the length, as
// with a plain answer. Answers with any other Content-Encoding are left unchanged, because some
// servers put values such as utf-8 there. Callers that cannot read such a body report the encoding.
func Decode(resp *http.Response) {
	if !IsGzip(Encoding(resp.Header)) {
		return
	}
	resp.Body = &gunzip{compressed: source{body: resp.Body}}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
}

// gunzip is the body of an answer labelled as gzip.
type gunzip struct {
	compressed source
	in         *bufio.Reader // reads from compressed; nil before the first read
	member     *gzip.Reader  // nil if the body is not compressed after all
	between    bool          // a member has ended, and next has not been called yet
	err        error         // sticky, including io.EOF
}

// Read returns decoded data. After an error every call returns the same error.
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
		if err != io.EOF { //nolint:errorlint // an error that wraps io.EOF is not the end
			g.err = g.explain(err)
			return n, g.err
		}
		g.between = true
		if n > 0 { // the next member may arrive much later
			return n, nil
		}
	}
	return 0, g.err
}

// begin reads the gzip header. If there is none, a proxy has decoded the body and left
// Content-Encoding in place.
func (g *gunzip) begin() {
	g.in = bufio.NewReader(&g.compressed)
	if !g.atMember() {
		return // the next read returns Peek's error
	}
	var err error
	if g.member, err = gzip.NewReader(g.in); err != nil {
		g.err = g.explain(err)
		return
	}
	g.member.Multistream(false)
}

// next moves to the next member. Any other data after a complete member is ignored, because some
// servers append padding.
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

// explain distinguishes a broken connection, truncated data and damaged data.
func (g *gunzip) explain(err error) error {
	switch {
	case err == nil || err == io.EOF: //nolint:errorlint // an error that wraps io.EOF is not the end
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

// Limits against gzip bombs. The first freeGrowth decoded bytes are limited only by MaxBody, which
// must leave room for an inline result (a data: URL). Beyond that, no genuine JSON expands by a
// factor of maxGrowth.
const (
	freeGrowth = 1 << 20
	maxGrowth  = 100
)

// bomb reports whether body is gzip data whose decoded length n is out of proportion to its
// compressed length.
func bomb(body io.Reader, n int) bool {
	g, ok := body.(*gunzip)
	return ok && n > freeGrowth && n > maxGrowth*g.compressed.n
}

// source counts the bytes read from body and keeps its error, unless that is io.EOF.
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
