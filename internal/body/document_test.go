package body

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
)

// The functions below parse a text and ask the document one thing.

func header(raw []byte) (Head, error) {
	d := Parse(raw)
	return d.Head(), d.Err()
}

func fingerprint(raw []byte) ([32]byte, error) {
	d := Parse(raw)
	return d.Fingerprint(), d.Err()
}

func violations(raw []byte, check func(Document) []Violation) []Violation {
	d := Parse(raw)
	if field, ok := errors.AsType[*FieldError](d.Err()); ok {
		return []Violation{field.Violation}
	}
	return check(d)
}

func checkVideo(raw []byte) []Violation { return violations(raw, Document.CheckVideo) }

func checkChat(raw []byte) []Violation { return violations(raw, Document.CheckChat) }

func checkRules(raw []byte, rules []Rule) []Violation {
	return violations(raw, func(d Document) []Violation { return d.Check(rules) })
}

func chatText(req *genbusv1.ChatRequest) ([]byte, error) { return textOfDocument(Chat(req)) }

func videoText(req *genbusv1.VideoRequest) ([]byte, error) { return textOfDocument(Video(req)) }

// textOfDocument also makes sure that a document which was written is one.
func textOfDocument(d Document, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if err := Parse(d.Bytes()).Err(); err != nil {
		return nil, fmt.Errorf("what was written is no document: %w", err)
	}
	return d.Bytes(), nil
}

// TestStreamOfAnyBody: what is no document asks for no stream.
func TestStreamOfAnyBody(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		`{"stream":true}`: true,
		"\n{ \"a\" : [ {\"stream\":true} ] , \"stream\" : true }": true,
		`{"str\u0065am":true}`:               true,
		`{"a":"\"stream\":true","b":"\\"}`:   false,
		`{"a":{"stream":true}}`:              false,
		`{"stream":false}`:                   false,
		`{"stream":null}`:                    false,
		`{"stream":"true"}`:                  false,
		`{"stream_options":{"stream":true}}`: false,
		`["stream",true]`:                    false,
		`{"a":1.5e3,"b":true,"stream":true}`: true,
		``:                                   false,
		`{`:                                  false,
		`{"`:                                 false,
		`{"a":"\`:                            false,
		`{"a":[[[`:                           false,
	} {
		if got := Parse([]byte(raw)).Head().Stream; got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

func TestDocument(t *testing.T) {
	t.Parallel()
	text := []byte(` {"a":"\u0062","n":"1.0","big":12345678901234567890,"stream":null} `)
	d := Parse(text)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	if d.Text("a") != "b" || d.Number("n") != "1.0" || d.Number("big") != "12345678901234567890" || d.Text("big") != "" || d.Member("none") != nil {
		t.Errorf("%q %q %q", d.Text("a"), d.Number("n"), d.Number("big"))
	}
	if got := string(d.With("stream", []byte("true")).Bytes()); got != ` {"a":"\u0062","n":"1.0","big":12345678901234567890,"stream":true} ` {
		t.Errorf("with stream: %s", got)
	}
	if &d.Bytes()[0] != &text[0] {
		t.Error("the text is a copy")
	}
}

// TestBadDocument: what is not one JSON object keeps its text and its error, and has no
// members.
func TestBadDocument(t *testing.T) {
	t.Parallel()
	for _, d := range []Document{{}, Parse(nil), Parse([]byte{}), Parse([]byte(`{"model":"m","stream":true`)), Parse([]byte(`[]`)), Parse([]byte(`{"a":1,"a":2}`))} {
		set := d.With("stream", []byte("true"))
		for _, d := range []Document{d, set} {
			if _, ok := errors.AsType[*FieldError](d.Err()); !ok || d.Head() != (Head{}) || d.Member("a") != nil || d.Member("model") != nil || len(d.CheckChat()) == 0 {
				t.Errorf("%s: %v, %+v", d.Bytes(), d.Err(), d.Head())
			}
			d.Fingerprint()
		}
		if string(set.Bytes()) != string(d.Bytes()) {
			t.Errorf("%s became %s", d.Bytes(), set.Bytes())
		}
	}
}

// TestDocumentWithOneMemberTooMany: a document that is made of another one keeps to the
// limits too.
func TestDocumentWithOneMemberTooMany(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{MaxValues - 3: true, MaxValues - 2: false} { // beside the object and its two members
		raw := []byte(`{"a":[` + strings.Repeat("0,", n-1) + `0]}`)
		if err := Parse(raw).Err(); err != nil {
			t.Fatal(err)
		}
		err := Parse(raw).With("stream", []byte("true")).Err()
		if (err == nil) != want || err != nil && Fault(err).Code != errcode.InvalidRequest {
			t.Errorf("%d elements and stream: %v", n, err)
		}
		if err := Parse(raw).With("a", []byte("true")).Err(); err != nil {
			t.Errorf("%d elements replaced: %v", n, err)
		}
	}
}

// FuzzHead: the head of a document is what another parser reads.
func FuzzHead(f *testing.F) {
	for _, seed := range []string{`{"stream":true}`, `{"a":[{"b":"\\\""}],"stream":true}`, `{"str\u0065am":true}`, `{"a":{}`, `{"stream"`, `{"a":"\\`, "{\"a\":1\n,\"stream\":true}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := header(raw)
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil {
			t.Fatal(err)
		}
		if stream := string(members["stream"]); h.Stream != (stream == "true") || h.StreamSet != (stream == "true" || stream == "false") {
			t.Fatalf("%+v, and stream is %s", h, stream)
		}
	})
}

func valuesOf(raw []byte) int {
	values, _ := measure(raw)
	return values
}
