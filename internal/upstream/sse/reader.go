// Package sse reads and writes text/event-stream, the framing of streamed answers. It does not
// interpret the data of events and does not reconnect.
package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// DefaultMaxEvent is the default limit of a Reader. It is enough for Base64 images and audio on one
// line.
const DefaultMaxEvent = 32 << 20

// ErrTooLong reports that a line or an event's joined data exceeds the limit. The reader cannot
// continue after this error.
var ErrTooLong = errors.New("sse: event is too long")

const (
	// firstBuffer fits a few typical chunks. It is small because there are many idle streams.
	firstBuffer = 4 << 10
	// emptyReads is how many consecutive empty reads are tolerated.
	emptyReads = 100
)

var byteOrderMark = []byte("\xEF\xBB\xBF")

// Event is one event of a stream.
type Event struct {
	// Type is the event field, or empty if the field is missing, which means "message".
	Type string
	// ID is the stream's last id field so far, or empty.
	ID []byte
	// Data is the data lines joined with LF. Data and ID are valid until the next call to Next.
	Data []byte
	// Unterminated is true if the stream ended before the event's blank line, so Data may be
	// truncated.
	Unterminated bool
}

// Reader splits a stream into events. It is not safe for concurrent use.
//
// The current event stays in one buffer: the joined data in buf[dataFrom:dataTo], followed by the
// line being read from buf[line:]. To join a data line, the reader moves its value left, over the
// field name.
type Reader struct {
	src io.Reader
	max int
	err error // sticky; from src or because of a limit

	buf    []byte
	end    int // buf[:end] is filled
	line   int // start of the line being read
	scan   int // buf[line:scan] contains no CR or LF
	nextLF int // position of the next LF, if nextLF >= scan
	noLF   int // buf[scan:noLF] contains no LF

	dataFrom, dataTo int
	hasData          bool
	skipLF           bool // the last line ended in CR, so a following LF belongs to it
	started          bool // the byte order mark has been handled

	eventType string // kept so that the next event of the same type does not allocate
	hasType   bool
	id        []byte
}

// NewReader returns a reader of the events in src. A line or an event's data may have at most
// maxEvent bytes; 0 or less means DefaultMaxEvent.
func NewReader(src io.Reader, maxEvent int) *Reader {
	if maxEvent <= 0 {
		maxEvent = DefaultMaxEvent
	}
	return &Reader{src: src, max: maxEvent, nextLF: -1}
}

// Next returns the next event with data, as soon as its blank line (or the CR that begins it) has
// been read. At the end of the stream it returns a last event that lacks its blank line, if there
// is one, and then io.EOF. Any other error from the source, and ErrTooLong, discards the current
// event. After an error every call returns the same error.
func (r *Reader) Next() (Event, error) {
	r.hasData, r.hasType = false, false
	for {
		if r.skipLF && r.line < r.end {
			r.skipLineFeed()
		}
		if at := r.lineEnd(); at >= 0 {
			from := r.line
			r.skipLF = r.buf[at] == '\r'
			r.line, r.scan = at+1, at+1
			if r.take(from, at) {
				return r.event(), nil
			}
			continue
		}
		if r.end-r.line > r.max && r.err == nil {
			r.err = r.tooLong("line")
		}
		if r.err != nil {
			return r.finish()
		}
		r.fill()
	}
}

// Buffered returns the data of the next event if it is buffered and begins like a JSON object, so
// that the next call to Next returns it without reading from the source. It may return nil even
// though Next would not read. The data is valid until the next call to Next.
func (r *Reader) Buffered() []byte {
	rest := r.buf[r.line:r.end]
	if r.err != nil || !bytes.HasPrefix(rest, jsonEvent) {
		return nil
	}
	data := rest[len(jsonEvent)-1:]
	return data[:max(0, bytes.Index(data, blankLine))]
}

var jsonEvent, blankLine = []byte("data: {"), []byte("\n\n")

func (r *Reader) skipLineFeed() {
	r.skipLF = false
	if r.buf[r.line] == '\n' {
		r.line++
		r.scan = r.line
	}
}

// lineEnd returns the position of the first CR or LF at or after scan, or -1. It scans each byte at
// most once for CR and once for LF, however the stream is fragmented.
func (r *Reader) lineEnd() int {
	if r.nextLF < r.scan {
		from := max(r.scan, r.noLF)
		if i := bytes.IndexByte(r.buf[from:r.end], '\n'); i >= 0 {
			r.nextLF = from + i
		}
		r.noLF = r.end
		if r.nextLF >= r.scan {
			r.noLF = r.nextLF
		}
	}
	limit := r.end
	if r.nextLF >= r.scan {
		limit = r.nextLF
	}
	if i := bytes.IndexByte(r.buf[r.scan:limit], '\r'); i >= 0 {
		return r.scan + i
	}
	r.scan = limit
	if r.nextLF >= r.scan {
		return r.nextLF
	}
	return -1
}

// take handles the line buf[from:to] and reports whether it completes an event.
func (r *Reader) take(from, to int) bool {
	if to-from > r.max {
		r.giveUp("line")
		return false
	}
	line := r.buf[from:to]
	if !r.started {
		r.started = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		if !r.hasData {
			r.hasType = false
		}
		return r.hasData
	}
	if len(line) >= 5 && string(line[:5]) == "data:" {
		r.addData(withoutSpace(line[5:]), to)
		return false
	}
	r.takeField(line, to)
	return false
}

func (r *Reader) takeField(line []byte, to int) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = withoutSpace(value)
	switch string(name) {
	case "data":
		r.addData(value, to)
	case "event":
		r.hasType = true
		if string(value) != r.eventType {
			r.eventType = string(value)
		}
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			r.id = append(r.id[:0], value...)
		}
	}
}

func withoutSpace(value []byte) []byte {
	if len(value) > 0 && value[0] == ' ' {
		return value[1:]
	}
	return value
}

// addData appends a value to the event's data. The value ends at buf[to], the end of its line.
func (r *Reader) addData(value []byte, to int) {
	if !r.hasData {
		r.hasData = true
		r.dataFrom, r.dataTo = to-len(value), to
		return
	}
	if r.dataTo-r.dataFrom+1+len(value) > r.max {
		r.giveUp("event")
		return
	}
	// The line starts at or after dataTo and is longer than its value by the field name, so there
	// is space for the LF.
	r.buf[r.dataTo] = '\n'
	copy(r.buf[r.dataTo+1:], value)
	r.dataTo += 1 + len(value)
}

// giveUp sets the error for an exceeded limit and discards buffered input, so that no more events
// are returned.
func (r *Reader) giveUp(what string) {
	r.err, r.hasData = r.tooLong(what), false
	r.line, r.scan, r.noLF, r.nextLF = r.end, r.end, r.end, -1
}

func (r *Reader) event() Event {
	e := Event{ID: r.id, Data: r.buf[r.dataFrom:r.dataTo:r.dataTo]}
	if r.hasType {
		e.Type = r.eventType
	}
	return e
}

// finish returns the last event if the stream ended cleanly but without its blank line.
func (r *Reader) finish() (Event, error) {
	if !errors.Is(r.err, io.EOF) {
		return Event{}, r.err
	}
	if r.line < r.end {
		from := r.line
		r.line, r.scan = r.end, r.end
		r.take(from, r.end)
	}
	if !errors.Is(r.err, io.EOF) || !r.hasData {
		return Event{}, r.err
	}
	e := r.event()
	e.Unterminated = true
	return e, nil
}

func (r *Reader) tooLong(what string) error {
	return fmt.Errorf("%w: a %s of more than %d bytes", ErrTooLong, what, r.max)
}

// fill frees space and reads once. All bytes up to end must have been scanned.
func (r *Reader) fill() {
	r.grow()
	for range emptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		if n < 0 || n > len(r.buf)-r.end {
			r.err = errors.New("sse: the source's Read returned an impossible count")
			return
		}
		r.end += n
		if err != nil {
			r.err = err
		}
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// grow frees space after end. It moves the current event to the front if that frees at least a
// quarter of the buffer, and otherwise to a larger buffer.
func (r *Reader) grow() {
	keep := r.end - r.line
	if r.hasData {
		keep += r.dataTo - r.dataFrom
	}
	size := len(r.buf)
	switch {
	case size > 0 && keep == 0:
		r.moveTo(r.buf)
	case size-r.end > size/4:
	case size-keep >= size/4 && size > keep:
		r.moveTo(r.buf)
	default:
		// Data and line are at most max each, so a buffer of three times that is never too small.
		r.moveTo(make([]byte, max(firstBuffer, min(2*size, 3*r.max+firstBuffer))))
	}
}

// moveTo copies the current event to the start of buf, which becomes the buffer.
func (r *Reader) moveTo(buf []byte) {
	to := 0
	if r.hasData {
		to = copy(buf, r.buf[r.dataFrom:r.dataTo])
		r.dataFrom, r.dataTo = 0, to
	}
	r.end = to + copy(buf[to:], r.buf[r.line:r.end])
	r.buf = buf
	r.line, r.scan, r.noLF, r.nextLF = to, r.end, r.end, -1
}
