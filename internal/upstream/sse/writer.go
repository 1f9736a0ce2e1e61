package sse

import "bytes"

// Append appends e as text/event-stream, including the final blank line, to dst. Each line of Data
// becomes a data field, so a reader receives CR and CRLF as LF. Line breaks and NULs are removed
// from Type and ID. If either is empty, its field is omitted.
func Append(dst []byte, e Event) []byte {
	dst = appendField(dst, "id: ", e.ID)
	dst = appendField(dst, "event: ", []byte(e.Type))
	return AppendData(dst, e.Data)
}

func appendField(dst []byte, name string, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	dst = append(dst, name...)
	for _, c := range value {
		if c != '\n' && c != '\r' && c != 0 {
			dst = append(dst, c)
		}
	}
	return append(dst, '\n')
}

// AppendData appends an event that has only data to dst.
func AppendData(dst, block []byte) []byte {
	if bytes.IndexByte(block, '\n') < 0 && bytes.IndexByte(block, '\r') < 0 { // the common case; IndexAny is slower
		dst = append(dst, "data: "...)
		dst = append(dst, block...)
		return append(dst, '\n', '\n')
	}
	for {
		line, rest, more := cutLine(block)
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if !more {
			return append(dst, '\n')
		}
		block = rest
	}
}

// AppendComment appends a comment to dst. A comment keeps a connection alive and must not be inside
// an event. No blank line follows, because openai-go before 3.43 takes one for the end of an event
// and fails on an event without data.
func AppendComment(dst []byte, text string) []byte {
	block := []byte(text)
	for {
		line, rest, more := cutLine(block)
		dst = append(dst, ": "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if !more {
			return dst
		}
		block = rest
	}
}

// cutLine splits b after its first line. more is false if there is no line break.
func cutLine(b []byte) (line, rest []byte, more bool) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 {
		return b, nil, false
	}
	next := i + 1
	if b[i] == '\r' && next < len(b) && b[next] == '\n' {
		next++
	}
	return b[:i], b[next:], true
}
