package content

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"

	"github.com/genbus/genbus/internal/errcode"
)

// Part is a part of a file.
type Part struct {
	*File
	// Offset is the position of the first byte within the file. It is 0 if the upstream cannot start
	// in the middle and does not report the file size.
	Offset int64
	// Size is the size of the whole file, or -1 if the upstream does not report it.
	Size int64
}

// RangeOf returns the Range header for length bytes from offset on. A length of 0 means the rest. It
// is empty for the whole file.
func RangeOf(offset, length int64) string {
	switch {
	case length > math.MaxInt64-offset: // the sum would overflow, and no file is that long
		return fmt.Sprintf("bytes=%d-", offset)
	case length > 0:
		return fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)
	case offset > 0:
		return fmt.Sprintf("bytes=%d-", offset)
	default:
		return ""
	}
}

// Part describes the file, opened with RangeOf, as a part. It fails if offset is beyond the file.
func (f *File) Part(offset int64) (Part, error) {
	if f.Status == http.StatusRequestedRangeNotSatisfiable {
		size, known := unsatisfiedLength(f.Range)
		switch {
		case !known:
			return Part{}, beyond(offset, -1)
		case size > 0 && size == offset:
			return f.end(offset), nil
		default:
			return Part{}, beyond(offset, size)
		}
	}
	if f.Range == "" {
		return Part{File: f, Size: f.Length}, nil
	}
	r := parseContentRange(f.Range)
	if r == nil {
		return Part{}, errcode.New(errcode.ContentUnavailable, "the upstream sent an unidentified part of the file")
	}
	return Part{File: f, Offset: r.first, Size: r.length}, nil
}

// ContentRange returns the Content-Range of n bytes of the part, from the position at in the file.
func (p Part) ContentRange(at, n int64) string {
	return contentRange{first: at, last: at + n - 1, length: p.Size}.String()
}

// end describes the empty rest of a file. A caller that has read the whole file may ask for it.
func (f *File) end(offset int64) Part {
	_ = f.Body.Close()
	rest := *f
	rest.Body, rest.Status = http.NoBody, http.StatusOK
	return Part{File: &rest, Offset: offset, Size: offset}
}

// SkipTo reads up to offset if the part begins before it.
func (p *Part) SkipTo(offset int64) error {
	n, err := io.CopyN(io.Discard, p.Body, offset-p.Offset)
	p.Offset += n
	switch {
	case errors.Is(err, io.EOF):
		return beyond(offset, p.Offset)
	case err != nil:
		return cutOff(err)
	default:
		return nil
	}
}

// Next reads until buf is full or the part ends. It returns io.EOF, possibly with the last bytes, at
// the end. With io.ReadFull, callers could not tell the end of the part from an interruption.
func (p *Part) Next(buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		m, err := p.Body.Read(buf[n:])
		n += m
		if errors.Is(err, io.EOF) {
			return n, io.EOF
		}
		if err != nil {
			return n, cutOff(err)
		}
	}
	return n, nil
}

func cutOff(err error) error {
	return errcode.New(errcode.ContentUnavailable, "the file was cut off: %w", err)
}

// beyond returns the error for an offset outside the file, whose size is -1 if unknown.
func beyond(offset, size int64) error {
	text := fmt.Sprintf("%d is beyond the file", offset)
	if size >= 0 {
		text += fmt.Sprintf(", which has %d bytes", size)
	}
	return errcode.Invalid([]errcode.Violation{{Field: "offset", Description: text}})
}
