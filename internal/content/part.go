package content

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode"

	"github.com/genbus/genbus/internal/errcode"
)

type want struct {
	part     *byteRange // nil for the whole content
	ifRange  string
	headOnly bool
}

func newWant(q Request) want {
	if q.HeadOnly {
		return want{headOnly: true}
	}
	w := want{part: parseRange(q.Range), ifRange: strings.TrimSpace(q.IfRange)}
	if w.part == nil || strings.ContainsFunc(w.ifRange, unicode.IsControl) {
		return want{}
	}
	return w
}

// setHeader sets the headers of a request to an upstream. It asks for uncompressed content, because
// compressed content cannot be measured or split into ranges.
func (w want) setHeader(h http.Header) {
	h.Set("Accept", "*/*")
	h.Set("Accept-Encoding", "identity")
	if w.part == nil {
		return
	}
	h.Set("Range", w.part.String())
	if w.ifRange != "" {
		h.Set("If-Range", w.ifRange)
	}
}

// of turns a whole file into the response. This is the requested range if the length is known and
// If-Range matches, and the whole file otherwise.
func (w want) of(f *File) *File {
	if w.part == nil || f.Length < 0 || !f.matches(w.ifRange) {
		f.Status, f.Range = http.StatusOK, ""
		return w.sized(f, 0)
	}
	start, n, ok := w.part.within(f.Length)
	if !ok {
		_ = f.Body.Close()
		return notInFile(unsatisfied(f.Length))
	}
	f.Status, f.Range = http.StatusPartialContent, contentRange{start, start + n - 1, f.Length}.String()
	f.Length = n
	return w.sized(f, start)
}

// sized limits the body to f.Length bytes after skip. With headOnly it closes the body instead.
func (w want) sized(f *File, skip int64) *File {
	switch {
	case w.headOnly:
		_ = f.Body.Close()
		f.Body = http.NoBody
	case f.Length >= 0:
		f.Body = &section{src: f.Body, skip: skip, remaining: f.Length}
	}
	return f
}

func notInFile(contentRange string) *File {
	return &File{Status: http.StatusRequestedRangeNotSatisfiable, Range: contentRange, Body: http.NoBody}
}

// matches reports whether an If-Range header allows a range of f. It does if it is empty, or equals
// f's strong ETag or date.
func (f *File) matches(ifRange string) bool {
	if ifRange == "" {
		return true
	}
	if strings.HasPrefix(ifRange, `"`) {
		return ifRange == f.ETag
	}
	has, err := http.ParseTime(f.LastModified)
	asked, askedErr := http.ParseTime(ifRange)
	return errors.Join(err, askedErr) == nil && has.Equal(asked)
}

// section is a part of a body, with a known length. It skips the beginning on the first read, so
// that the headers are not delayed.
type section struct {
	src             io.ReadCloser
	skip, remaining int64
}

func (s *section) Read(p []byte) (int, error) {
	if s.skip > 0 {
		n, err := io.CopyN(io.Discard, s.src, s.skip)
		if s.skip -= n; err != nil {
			return 0, notEnd(err)
		}
	}
	if s.remaining == 0 {
		return 0, io.EOF
	}
	n, err := s.src.Read(p[:min(int64(len(p)), s.remaining)])
	if s.remaining -= int64(n); s.remaining > 0 {
		err = notEnd(err)
	}
	return n, err
}

// notEnd turns a premature io.EOF into an error.
func notEnd(err error) error {
	if err == io.EOF { //nolint:errorlint // an error that wraps io.EOF is a failure, not the end
		return errcode.New(errcode.ContentUnavailable, "the content ended too early: %w", io.ErrUnexpectedEOF)
	}
	return err
}

func (s *section) Close() error { return s.src.Close() }
