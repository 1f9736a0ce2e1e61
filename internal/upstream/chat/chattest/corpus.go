// Package chattest reads the corpus of answers to a chat completion, in
// internal/upstream/chat/testdata. It calls no server and judges nothing; tests and
// fuzz targets of several packages begin with what it reads.
//
// A file is one answer and what must be made of it, as JSON:
//
//	about         which server answers so, in a sentence
//	status        the HTTP status; 200 when absent
//	content_type  the media type; by default that of answer, stream or text
//	header        further headers
//	answer        the body, a JSON value that is sent as it is, or
//	text          the body, whatever it is, or
//	stream        its lines, of which an object is an event of its own:
//	              "data: ", the object as it is and a blank line
//	line_end      what ends each line of the stream; "\n" when absent
//	unterminated  true: the last line has no end
//	reset         true: the connection breaks behind the body
//	want          what must be made of it, see Want
//
// {100 KiB} means as many letters x, wherever it is.
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

// Answer is one file of the corpus.
type Answer struct {
	// Name is the file's name without ".json".
	Name        string
	Status      int
	ContentType string
	Header      map[string]string
	// Body is what the server sends.
	Body []byte
	// Streamed is true for text/event-stream.
	Streamed bool
	// Reset is true when the connection breaks behind Body.
	Reset bool
	Want  Want
}

// Want is what must be made of an answer. Replies are compared as JSON values,
// whose numbers stand as they were written.
type Want struct {
	// Reply is the whole reply; of an answer in JSON the answer itself when the
	// file does not say. Nil with Error.
	Reply jsontext.Value `json:"reply"`
	// Restreamed is what the blocks make that are given out for an answer in
	// JSON; the Reply when the file does not say.
	Restreamed jsontext.Value `json:"restreamed"`
	// Blocks are the blocks of a stream that are given out, byte for byte. The
	// file has a list of them, the number of objects in the stream from the first
	// one on, or nothing for all of these.
	Blocks Blocks `json:"-"`
	// Error is the error, nil for none.
	Error *Error `json:"error"`
}

// Blocks are the blocks of a stream.
type Blocks []string

// Error is what must be known of an upstream's error, in addition to the HTTP status.
type Error struct {
	Code         string `json:"code"`
	Type         string `json:"type"`
	Param        string `json:"param"`
	Message      string `json:"message"`
	RequestID    string `json:"request_id"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	// Said is true when the upstream said so.
	Said bool `json:"said"`
	// Final is true when the same request would fail again.
	Final bool `json:"final"`
	// Scope is "request", "key" or "upstream".
	Scope string `json:"scope"`
}

// file is a file as it is written.
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

// Load reads every file of dir, and fails the test when one is not as it should
// be.
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

// Seeds reads what fuzz targets begin with: every file whose body has at most
// 4 KiB, because long inputs make fuzzing slow.
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

// text returns what a string says, and every other value as it is.
func text(v jsontext.Value) string {
	if v.Kind() != '"' {
		return string(v)
	}
	s, _ := jsontext.AppendUnquote(nil, v)
	return string(s)
}
