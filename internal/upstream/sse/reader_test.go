package sse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/upstream/chat/chattest"
)

// got is an Event with its own copy of the bytes.
type got struct {
	Type, ID, Data string
	Unterminated   bool
}

func readAll(src io.Reader, maxEvent int) ([]got, error) {
	r := NewReader(src, maxEvent)
	var all []got
	for {
		e, err := r.Next()
		if err != nil {
			if _, again := r.Next(); again != err {
				return all, errors.New("the error did not stick")
			}
			return all, err
		}
		all = append(all, got{e.Type, string(e.ID), string(e.Data), e.Unterminated})
	}
}

// reference parses a whole stream in the simplest way, following the WHATWG text.
func reference(stream string, maxEvent int) ([]got, error) {
	normal := strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	lines := strings.Split(normal, "\n")
	rest := lines[len(lines)-1]
	lines = lines[:len(lines)-1]
	if rest != "" {
		lines = append(lines, rest)
	}
	var all []got
	var data []string
	joined := 0 // bytes of data, including line feeds
	var eventType, id string
	for i, line := range lines {
		if len(line) > maxEvent {
			return all, ErrTooLong
		}
		if i == 0 {
			line = strings.TrimPrefix(line, "\xEF\xBB\xBF")
		}
		if line == "" {
			if data != nil {
				all = append(all, got{eventType, id, strings.Join(data, "\n"), false})
			}
			data, joined, eventType = nil, 0, ""
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data = append(data, value)
			if joined += len(value) + 1; joined-1 > maxEvent {
				return all, ErrTooLong
			}
		case "event":
			eventType = value
		case "id":
			if !strings.Contains(value, "\x00") {
				id = value
			}
		}
	}
	if data != nil {
		all = append(all, got{eventType, id, strings.Join(data, "\n"), true})
	}
	return all, io.EOF
}

func TestReader(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 5<<20)
	for name, tc := range map[string]struct {
		stream string
		want   []got
	}{
		"empty":                 {"", nil},
		"one":                   {"data: a\n\n", []got{{Data: "a"}}},
		"no space":              {"data:a\n\n", []got{{Data: "a"}}},
		"one space only":        {"data:  a\n\n", []got{{Data: " a"}}},
		"two":                   {"data: a\n\ndata: b\n\n", []got{{Data: "a"}, {Data: "b"}}},
		"CRLF":                  {"data: a\r\n\r\ndata: b\r\n\r\n", []got{{Data: "a"}, {Data: "b"}}},
		"CRLF, all fields":      {"id: 1\r\nevent: e\r\ndata: a\r\ndata: b\r\n\r\n", []got{{Type: "e", ID: "1", Data: "a\nb"}}},
		"CR, all fields":        {"id: 1\revent: e\rdata: a\rdata: b\r\r", []got{{Type: "e", ID: "1", Data: "a\nb"}}},
		"CR":                    {"data: a\r\rdata: b\r\r", []got{{Data: "a"}, {Data: "b"}}},
		"mixed":                 {"data: a\r\n\ndata: b\n\rdata: c\r\n\r\n", []got{{Data: "a"}, {Data: "b"}, {Data: "c"}}},
		"BOM":                   {"\xEF\xBB\xBFdata: a\n\n", []got{{Data: "a"}}},
		"BOM only once":         {"data: a\n\n\xEF\xBB\xBFdata: b\n\n", []got{{Data: "a"}}},
		"comments":              {": PING\n\n: OPENROUTER PROCESSING\n\n:\n\ndata: a\n: between\ndata: b\n\n", []got{{Data: "a\nb"}}},
		"multi-line":            {"data: a\ndata:\ndata\ndata: b\n\n", []got{{Data: "a\n\n\nb"}}},
		"bare data first":       {"data\ndata: b\n\n", []got{{Data: "\nb"}}},
		"empty data":            {"data\n\ndata:\n\n", []got{{}, {}}},
		"event and id":          {"event: error\nid: 7\nretry: 10\ndata: a\n\ndata: b\n\n", []got{{Type: "error", ID: "7", Data: "a"}, {ID: "7", Data: "b"}}},
		"type without data":     {"event: error\n\ndata: a\n\n", []got{{Data: "a"}}},
		"id reset":              {"id: 7\ndata: a\n\nid\ndata: b\n\n", []got{{ID: "7", Data: "a"}, {Data: "b"}}},
		"id with NUL":           {"id: 7\nid: \x008\ndata: a\n\n", []got{{ID: "7", Data: "a"}}},
		"unknown field":         {"foo: bar\nfoo\ndatax: 1\nDATA: 2\ndata: a\n\n", []got{{Data: "a"}}},
		"no last blank line":    {"data: a\n\ndata: b\n", []got{{Data: "a"}, {Data: "b", Unterminated: true}}},
		"no last line end":      {"data: a\n\ndata: b", []got{{Data: "a"}, {Data: "b", Unterminated: true}}},
		"no last line end, two": {"data: a\ndata: b", []got{{Data: "a\nb", Unterminated: true}}},
		"ends in CR":            {"data: a\r\n\r", []got{{Data: "a"}}},
		"comment at the end":    {"data: a\n\n: bye", []got{{Data: "a"}}},
		"megabytes":             {"data: " + big + "\n\ndata: b\n\n", []got{{Data: big}, {Data: "b"}}},
		"megabytes in lines":    {"data: a\ndata: " + big + "\ndata: " + big + "\n\n", []got{{Data: "a\n" + big + "\n" + big}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, src := range map[string]io.Reader{
				"whole":      strings.NewReader(tc.stream),
				"by bytes":   iotest.OneByteReader(strings.NewReader(tc.stream)),
				"by halves":  iotest.HalfReader(strings.NewReader(tc.stream)),
				"data+error": iotest.DataErrReader(strings.NewReader(tc.stream)),
			} {
				all, err := readAll(src, 0)
				if err != io.EOF {
					t.Errorf("%s: error %v, want EOF", how, err)
				}
				if diff := cmp.Diff(tc.want, all); diff != "" {
					t.Errorf("%s: (-want +got)\n%.2000s", how, diff)
				}
			}
		})
	}
}

func TestReaderLimits(t *testing.T) {
	t.Parallel()
	ten := strings.Repeat("x", 10)
	for name, tc := range map[string]struct {
		stream string
		want   []got
	}{
		"line":            {"data: a\n\ndata: " + ten + "x\n\ndata: b\n\n", []got{{Data: "a"}}},
		"comment":         {"data: a\n\n:" + ten + ten + "\n\ndata: b\n\n", []got{{Data: "a"}}},
		"line in the end": {"data: a\n\ndata: " + ten + "x", []got{{Data: "a"}}},
		"joined":          {"data: " + ten + "\ndata: " + ten + "\n\ndata: b\n\n", nil},
		"joined, no end":  {"data: " + ten + "\ndata: " + ten, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, src := range map[string]io.Reader{
				"whole":    strings.NewReader(tc.stream),
				"by bytes": iotest.OneByteReader(strings.NewReader(tc.stream)),
			} {
				all, err := readAll(src, 16)
				if !errors.Is(err, ErrTooLong) {
					t.Errorf("%s: error %v, want ErrTooLong", how, err)
				}
				if diff := cmp.Diff(tc.want, all); diff != "" {
					t.Errorf("%s: (-want +got)\n%s", how, diff)
				}
			}
		})
	}
	all, err := readAll(strings.NewReader("data: "+ten+"\n\n"), 16)
	if err != io.EOF || len(all) != 1 {
		t.Errorf("a line of exactly the limit: %v, %v", all, err)
	}
}

func TestReaderBufferStaysBounded(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	line := "data: " + strings.Repeat("x", 1000) + "\n: " + strings.Repeat("y", 30_000) + "\n"
	event := strings.Repeat(line, 60) + "\n"
	r := NewReader(iotest.HalfReader(strings.NewReader(strings.Repeat(event, 20))), limit)
	for range 20 {
		e, err := r.Next()
		if err != nil || len(e.Data) != 60*1001-1 {
			t.Fatalf("event of %d bytes, %v", len(e.Data), err)
		}
	}
	if len(r.buf) > 3*limit+firstBuffer {
		t.Errorf("the buffer grew to %d bytes", len(r.buf))
	}
}

func TestReaderBrokenStreamDropsTheIncompleteEvent(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	src := io.MultiReader(strings.NewReader("data: a\n\ndata: {\"b\":"), iotest.ErrReader(broken))
	all, err := readAll(src, 0)
	if err != broken {
		t.Errorf("error %v, want %v", err, broken)
	}
	if diff := cmp.Diff([]got{{Data: "a"}}, all); diff != "" {
		t.Error(diff)
	}
}

func TestReaderGivesUpOnEmptyReads(t *testing.T) {
	t.Parallel()
	if _, err := readAll(emptyReader{}, 0); err != io.ErrNoProgress {
		t.Errorf("error %v, want ErrNoProgress", err)
	}
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// TestReaderDoesNotWait checks that an event is returned as soon as its blank line has arrived: the
// pipe has no more bytes, so another read would block forever.
func TestReaderDoesNotWait(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]string{
		"LF": "data: a\n\n", "CR": "data: a\r\r", "CRLF cut": "data: a\r\n\r", "CRLF": "data: a\r\n\r\n", "mixed": "data: a\n\r",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := io.Pipe()
			defer from.Close() //nolint:errcheck // a pipe's Close never fails
			next := make(chan struct{})
			go func() {
				for range 3 {
					_, _ = io.WriteString(to, event) // fails only if the test has failed
					<-next
				}
				_ = to.Close()
			}()
			r := NewReader(from, 0)
			for range 3 {
				e, err := r.Next()
				if err != nil || string(e.Data) != "a" {
					t.Fatalf("%q, %v", e.Data, err)
				}
				next <- struct{}{}
			}
			if _, err := r.Next(); err != io.EOF {
				t.Errorf("error %v, want EOF", err)
			}
		})
	}
}

// TestReaderDoesNotAllocate is not parallel, because allocations are counted for the whole process.
func TestReaderDoesNotAllocate(t *testing.T) {
	r := NewReader(&endless{block: usualBlock()}, 0)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = r.Next() }); n != 0 {
		t.Errorf("%v allocations for each event", n)
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "event: e\r\ndata: a\r\ndata: b\r\n\r\n", "\xEF\xBB\xBFdata: a\r\n\r\n", "data\ndata\r\rid: 1\revent: e\rdata:x\r\r", ": c\n\ndata: {\"a\":1}\ndata: b",
		"event: error\ndata: {}\n\n", "id: \x00\nretry: 5\ndata:  x \n\r\n", "data: 12345678901234567890123456789\n\n", "data: 0123456789\ndata: 0123456789abc\n\n",
	} {
		f.Add(s, uint16(24))
	}
	for _, a := range chattest.Seeds(f, "../chat/testdata") {
		if a.Streamed {
			f.Add(string(a.Body), uint16(1000))
		}
	}
	f.Fuzz(func(t *testing.T, stream string, maxEvent uint16) {
		limit := max(1, int(maxEvent))
		want, wantErr := reference(stream, limit)
		for how, src := range map[string]io.Reader{
			"whole":    strings.NewReader(stream),
			"by bytes": iotest.OneByteReader(strings.NewReader(stream)),
			"by half":  iotest.DataErrReader(iotest.HalfReader(strings.NewReader(stream))),
		} {
			all, err := readAll(src, limit)
			if !errors.Is(err, wantErr) {
				t.Errorf("%s: error %v, want %v", how, err, wantErr)
			}
			if diff := cmp.Diff(want, all); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", how, diff)
			}
		}
	})
}

type endless struct {
	block []byte
	at    int
}

func (s *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], s.block[s.at:])
		n += c
		s.at = (s.at + c) % len(s.block)
	}
	return n, nil
}

func usualBlock() []byte {
	block := []byte(`data: {"id":"chatcmpl-CabcdefghijklmnopqrstuvwxyZ01","object":"chat.completion.chunk","created":1790000000,"model":"gpt-4o-mini","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"aBcDeFgHiJkL"}`)
	return append(block, "\n\n"...)
}

func BenchmarkReader(b *testing.B) {
	for name, block := range map[string][]byte{"LF": usualBlock(), "CRLF": bytes.ReplaceAll(usualBlock(), []byte("\n"), []byte("\r\n")), "CR": bytes.ReplaceAll(usualBlock(), []byte("\n"), []byte("\r"))} {
		b.Run(name, func(b *testing.B) {
			r := NewReader(&endless{block: block}, 0)
			b.SetBytes(int64(len(block)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
