package content

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteRange is one range of a Range header: from first to last, or the last suffix bytes.
type byteRange struct {
	first, last int64 // inclusive; last is math.MaxInt64 for "to the end"
	suffix      int64 // -1 if first and last apply
}

// parseRange parses a Range header with one range, such as "bytes=0-99", "bytes=100-" or
// "bytes=-500". It returns nil for anything that RFC 9110 lets a server ignore: several ranges,
// another unit, a syntax error.
func parseRange(header string) *byteRange {
	unit, spec, ok := strings.Cut(header, "=")
	if !ok || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return nil
	}
	first, last, ok := strings.Cut(strings.Trim(spec, " \t"), "-")
	if !ok {
		return nil
	}
	if first == "" {
		n, ok := parseCount(last)
		if !ok {
			return nil
		}
		return &byteRange{suffix: n}
	}
	r := byteRange{last: math.MaxInt64, suffix: -1}
	if r.first, ok = parseCount(first); !ok {
		return nil
	}
	if last == "" {
		return &r
	}
	if r.last, ok = parseCount(last); !ok || r.last < r.first {
		return nil
	}
	return &r
}

// parseCount parses a decimal number. A number that overflows becomes math.MaxInt64, which is
// beyond the end of any file.
func parseCount(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return n, true
}

// String returns the value of a Range header.
func (r byteRange) String() string {
	switch {
	case r.suffix >= 0:
		return fmt.Sprintf("bytes=-%d", r.suffix)
	case r.last == math.MaxInt64:
		return fmt.Sprintf("bytes=%d-", r.first)
	default:
		return fmt.Sprintf("bytes=%d-%d", r.first, r.last)
	}
}

// within returns the position of the range in a file of length bytes. ok is false if they do not
// overlap.
func (r byteRange) within(length int64) (start, n int64, ok bool) {
	if r.suffix >= 0 {
		n = min(r.suffix, length)
		return length - n, n, n > 0
	}
	if r.first >= length {
		return 0, 0, false
	}
	return r.first, min(r.last, length-1) - r.first + 1, true
}

type contentRange struct {
	first, last int64
	length      int64 // of the whole content, -1 if unknown
}

// parseContentRange parses "bytes 0-99/1000" and "bytes 0-99/*". It returns nil for anything else.
func parseContentRange(header string) *contentRange {
	unit, rest, ok := strings.Cut(strings.TrimSpace(header), " ")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return nil
	}
	part, whole, ok := strings.Cut(strings.TrimSpace(rest), "/")
	if !ok {
		return nil
	}
	first, last, ok := strings.Cut(part, "-")
	if !ok {
		return nil
	}
	from, fromOK := parseCount(first)
	to, toOK := parseCount(last)
	c := contentRange{first: from, last: to, length: -1}
	if whole != "*" {
		c.length, ok = parseCount(whole)
	}
	if !ok || !fromOK || !toOK || from > to || to == math.MaxInt64 || c.length >= 0 && to >= c.length {
		return nil
	}
	return &c
}

// String returns the value of a Content-Range header.
func (c contentRange) String() string {
	whole := "*"
	if c.length >= 0 {
		whole = strconv.FormatInt(c.length, 10)
	}
	return fmt.Sprintf("bytes %d-%d/%s", c.first, c.last, whole)
}

func (c contentRange) size() int64 { return c.last - c.first + 1 }

// answers reports whether c is a valid response to r. A server may send less than requested, but
// must start where requested.
func (c contentRange) answers(r byteRange) bool {
	if c.length < 0 {
		return r.suffix >= c.size() || r.suffix < 0 && c.first == r.first && c.last <= r.last
	}
	start, n, ok := r.within(c.length)
	return ok && c.first == start && c.size() <= n
}

// parseUnsatisfied normalises the Content-Range of a 416, such as "bytes */1000". It returns "" if
// the header is invalid.
func parseUnsatisfied(header string) string {
	if n, ok := unsatisfiedLength(header); ok {
		return unsatisfied(n)
	}
	return ""
}

func unsatisfiedLength(header string) (n int64, ok bool) {
	unit, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	length, ok := strings.CutPrefix(strings.TrimSpace(rest), "*/")
	if !ok || !strings.EqualFold(unit, "bytes") {
		return 0, false
	}
	return parseCount(length)
}

func unsatisfied(length int64) string { return fmt.Sprintf("bytes */%d", length) }
