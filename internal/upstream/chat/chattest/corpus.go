// Package chattest reads the corpus of chat completion answers in internal/upstream/chat/testdata.
// Tests and fuzz targets of several packages use it.
//
// Each file is a JSON object that describes one answer and the expected result:
//
//	about         which server sends this answer, in a sentence
//	status        HTTP status; default 200
//	content_type  media type; default depends on answer, text or stream
//	header        further headers
//	answer        the body as a JSON value, sent unchanged, or
//	text          the body as text, or
//	stream        the body as lines; an object becomes an event:
//	              "data: ", the object unchanged, and a blank line
//	line_end      end of each line of the stream; default "\n"
//	unterminated  true: the last line has no end
//	reset         true: the connection breaks after the body
//	want          the expected result, see Want
//
// The text {100 KiB} stands for that many letters x.
package chattest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Answer is a file of the corpus.
type Answer struct {
	// Name is the file's name without ".json".
	Name        string
	Status      int
	ContentType string
	Header      map[string]string
	// Body is the body of the answer.
	Body []byte
	// Streamed is true for text/event-stream.
	Streamed bool
	// Reset is true if the connection breaks after Body.
	Reset bool
	Want  Want
}

// Want is the expected result of an answer. Replies are compared as JSON values, but numbers must
// be written the same way.
type Want struct {
	// Reply is the whole reply. For a JSON answer the default is the answer itself. It is nil if
	// Error is set.
	Reply jsontext.Value `json:"reply"`
	// Restreamed is the reply assembled from the chunks into which a JSON answer is converted.
	// Default Reply.
	Restreamed jsontext.Value `json:"restreamed"`
	// Blocks are the blocks of a stream that are passed on, byte for byte. In the file this is a
	// list of blocks, or the number of objects to take from the start of the stream. If it is
	// absent, all objects are passed on.
	Blocks Blocks `json:"-"`
	// Skipped is the number of events of a stream that are no part of the reply.
	Skipped int `json:"skipped"`
	// Error is the expected error, or nil.
	Error *Error `json:"error"`
}

// Blocks are the blocks of a stream.
type Blocks []string

// Error is the expected content of an upstream error, apart from the HTTP status.
type Error struct {
	Code         string `json:"code"`
	Type         string `json:"type"`
	Param        string `json:"param"`
	Message      string `json:"message"`
	RequestID    string `json:"request_id"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	// Reported is true if the upstream reported the error.
	Reported bool `json:"said"`
	// Final is true if the same request would fail again.
	Final bool `json:"final"`
	// Scope is "request", "key" or "upstream".
	Scope string `json:"scope"`
}

type file struct {
	About        string            `json:"about"`
	Status       int               `json:"status"`
	ContentType  *string           `json:"content_type"`
	Header       map[string]string `json:"header"`
	Answer       jsontext.Value    `json:"answer"`
	Text         string            `json:"text"`
	Stream       []jsontext.Value  `json:"stream"`
	LineEnd      string            `json:"line_end"`
	Unterminated bool              `json:"unterminated"`
	Reset        bool              `json:"reset"`
	Want         struct {
		Want
		Blocks jsontext.Value `json:"blocks"`
	} `json:"want"`
}

// Load reads every file in dir and fails the test if one is invalid.
func Load(t testing.TB, dir string) []Answer {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no corpus in %s: %v", dir, err)
	}
	answers := make([]Answer, 0, len(names))
	for _, name := range names {
		a, err := read(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		answers = append(answers, a)
	}
	return answers
}

// Seeds reads the files with bodies of at most 4 KiB as seeds for fuzz targets. Longer inputs make
// fuzzing slow.
func Seeds(f *testing.F, dir string) []Answer {
	f.Helper()
	return slices.DeleteFunc(Load(f, dir), func(a Answer) bool { return len(a.Body) > 4<<10 })
}

func read(name string) (Answer, error) {
	raw, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		return Answer{}, err
	}
	raw = bytes.ReplaceAll(raw, []byte("{100 KiB}"), bytes.Repeat([]byte("x"), 100<<10))
	f := file{Status: 200, LineEnd: "\n"}
	if err := json.Unmarshal(raw, &f, json.RejectUnknownMembers(true)); err != nil {
		return Answer{}, err
	}
	a := Answer{
		Name: strings.TrimSuffix(filepath.Base(name), ".json"), Status: f.Status, Header: f.Header,
		Streamed: f.Stream != nil, Reset: f.Reset, Want: f.Want.Want,
	}
	a.ContentType, a.Body = f.body()
	if f.ContentType != nil {
		a.ContentType = *f.ContentType
	}
	if a.Want.Error == nil && f.Answer != nil && a.Want.Reply == nil {
		a.Want.Reply = f.Answer
	}
	if a.Want.Restreamed == nil {
		a.Want.Restreamed = a.Want.Reply
	}
	a.Want.Blocks, err = f.blocks()
	return a, err
}

func (f *file) body() (contentType string, body []byte) {
	switch {
	case f.Stream != nil:
		return "text/event-stream", f.lines()
	case f.Answer != nil:
		return "application/json", f.Answer
	default:
		return "text/plain", []byte(f.Text)
	}
}

func (f *file) lines() []byte {
	var b strings.Builder
	for _, line := range f.Stream {
		if line.Kind() == '{' {
			b.WriteString("data: " + string(line) + f.LineEnd)
		} else {
			b.WriteString(text(line))
		}
		b.WriteString(f.LineEnd)
	}
	if f.Unterminated {
		return []byte(strings.TrimSuffix(b.String(), f.LineEnd))
	}
	return []byte(b.String())
}

func (f *file) blocks() (Blocks, error) {
	wanted := f.Want.Blocks
	if wanted.Kind() == '[' {
		var list []jsontext.Value
		err := json.Unmarshal(wanted, &list)
		return texts(list), err
	}
	var events []jsontext.Value
	for _, line := range f.Stream {
		if line.Kind() == '{' {
			events = append(events, line)
		}
	}
	if wanted == nil {
		return texts(events), nil
	}
	var n int
	if err := json.Unmarshal(wanted, &n); err != nil {
		return nil, err
	}
	return texts(events[:min(n, len(events))]), nil
}

func texts(values []jsontext.Value) Blocks {
	var all Blocks
	for _, v := range values {
		all = append(all, text(v))
	}
	return all
}

// text returns the content of a JSON string, and other values unchanged.
func text(v jsontext.Value) string {
	if v.Kind() != '"' {
		return string(v)
	}
	s, _ := jsontext.AppendUnquote(nil, v)
	return string(s)
}
