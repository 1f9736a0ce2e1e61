package body

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
)

// The functions below parse a text and call one method of the document.

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

func checkChat(raw []byte) []Violation { return violations(raw, Document.CheckChat) }

func checkRules(raw []byte, rules []Rule) []Violation {
	return violations(raw, func(d Document) []Violation { return d.Check(rules) })
}

func chatText(req *genbusv1.ChatRequest) ([]byte, error) { return textOfDocument(Chat(req)) }

func videoText(req *genbusv1.VideoRequest) ([]byte, error) { return textOfDocument(Video(req)) }

// textOfDocument also checks that a written document parses.
func textOfDocument(d Document, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if err := Parse(d.Bytes()).Err(); err != nil {
		return nil, fmt.Errorf("what was written is no document: %w", err)
	}
	return d.Bytes(), nil
}

// TestStreamOfAnyBody checks that Head reports a stream only for a top-level stream member that is
// true, and never for an invalid body.
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

// TestBadDocument checks that an invalid body keeps its text and its error, and has no members.
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

// TestDocumentWithOneMemberTooMany checks that With keeps to MaxValues.
func TestDocumentWithOneMemberTooMany(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{MaxValues - 3: true, MaxValues - 2: false} { // plus the object and its two members
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

func TestWith(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ body, name, value, want string }{
		{`{}`, "a", `1`, `{"a":1}`},
		{" { } \n", "a", `1`, " {\"a\":1 } \n"},
		{` {"x" : 1.0 } `, "a", `"b"`, ` {"x" : 1.0,"a":"b" } `},
		{`{"a" :  "old" , "b":{"a":1}}`, "a", `"new"`, `{"a" :  "new" , "b":{"a":1}}`},
		{`{"b":{"a":1}}`, "a", `{"c":[]}`, `{"b":{"a":1},"a":{"c":[]}}`},
		{`{"\u0061":1,"b":2}`, "a", `3`, `{"\u0061":3,"b":2}`},
		{`{"a":[1,2,{"x":"}"}]}`, "a", `null`, `{"a":null}`},
		{`{"a":1}`, `q"uote`, `2`, `{"a":1,"q\"uote":2}`},
	} {
		for _, d := range []Document{Parse([]byte(test.body)), Trusted([]byte(test.body))} {
			got := d.With(test.name, []byte(test.value))
			if got.Err() != nil || string(got.Bytes()) != test.want || string(got.Member(test.name)) != test.value {
				t.Errorf("%s: got %s, %v\nwant %s", test.body, got.Bytes(), got.Err(), test.want)
			}
			if string(d.Bytes()) != test.body {
				t.Errorf("%s was changed", test.body)
			}
		}
	}
}

func TestWithRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	for _, test := range []struct {
		d                 Document
		name, value, want string
	}{
		{Parse([]byte(`[]`)), "a", `1`, "the body is an array; it must be a JSON object"},
		{Trusted([]byte(`[]`)), "a", `1`, "the body is not a JSON object"},
		{Trusted(nil), "a", `1`, "the body is empty; it must be JSON"},
		{Parse([]byte(`{"a":1,"a":2}`)), "a", `1`, "the body has a duplicate member in an object, before byte 6"},
		{Parse([]byte(`{}`)), "a", ``, "a is empty; it must be JSON"},
		{Parse([]byte(`{}`)), "a", deep, "a makes the body deeper than 200 levels"},
		{Trusted([]byte(`{}`)), "a", deep, "a makes the body deeper than 200 levels"},
		{Trusted([]byte(`{}`)).With("a", []byte(deep)), "b", "1", "a makes the body deeper than 200 levels"},
	} {
		got := test.d.With(test.name, []byte(test.value))
		if err := got.Err(); err == nil || err.Error() != test.want || string(got.Bytes()) != string(test.d.Bytes()) || got.Member("a") != nil {
			t.Errorf("%s: got %s, %v\nwant %s", test.d.Bytes(), got.Bytes(), err, test.want)
		}
	}
	for _, d := range []Document{Parse([]byte(`{}`)), Trusted([]byte(`{}`))} {
		if got := d.With("a", []byte(deep[1:len(deep)-1])); got.Err() != nil || Parse(got.Bytes()).Err() != nil {
			t.Errorf("as deep as may be: %v", got.Err())
		}
	}
}

func TestWithText(t *testing.T) {
	t.Parallel()
	got := Parse([]byte(`{"messages":[], "model" :"a" ,"n":1.0}`)).WithText("model", `vendor/"b"`)
	if want := `{"messages":[], "model" :"vendor/\"b\"" ,"n":1.0}`; got.Err() != nil || string(got.Bytes()) != want {
		t.Errorf("got %s, %v\nwant %s", got.Bytes(), got.Err(), want)
	}
	if err := Parse([]byte(`{}`)).WithText("model", "\xff").Err(); err == nil || err.Error() != "model is not valid UTF-8" {
		t.Error(err)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		`{ "a" : 1 , "\u0062":{"x":[ ]},"a":"y" }`: `a=1 b={"x":[ ]} a="y" `,
		`{"a":1,"stop":2,"b":3}`:                   `a=1 stop=2 `,
		`{}`:                                       "",
	} {
		var seen strings.Builder
		for name, value := range Trusted([]byte(object)).Members() {
			_, _ = seen.WriteString(name + "=" + string(value) + " ")
			if name == "stop" {
				break
			}
		}
		if seen.String() != want {
			t.Errorf("%s: saw %q", object, seen.String())
		}
	}
	for _, bad := range []string{``, `[]`, `null`, `{"a":1`, `{} {}`} {
		for range Parse([]byte(bad)).Members() {
			t.Errorf("%q has a member", bad)
		}
	}
}

func TestMember(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		body         string
		value        string // "" for no member
		text, number string
	}{
		"text":             {`{"x":1,"m":"a\u0062"}`, `"a\u0062"`, "ab", ""},
		"an escaped name":  {`{"\u006d":"v"}`, `"v"`, "v", ""},
		"the last of two":  {`{"m":1,"m":2}`, `2`, "", "2"},
		"half a surrogate": {`{"m":"\ud800"}`, `"\ud800"`, "\ufffd", ""},
		"a number":         {`{"m": 5.0 }`, `5.0`, "", "5.0"},
		"a number as text": {`{"m":"12"}`, `"12"`, "12", "12"},
		"text of digits":   {`{"m":"12s"}`, `"12s"`, "12s", ""},
		"two numbers":      {`{"m":"1 2"}`, `"1 2"`, "1 2", ""},
		"empty text":       {`{"m":""}`, `""`, "", ""},
		"a long number":    {`{"m":` + strings.Repeat("1", 33) + `}`, strings.Repeat("1", 33), "", ""},
		"null":             {`{"m":null}`, `null`, "", ""},
		"an object":        {`{"m":{"m":1}}`, `{"m":1}`, "", ""},
		"deeper only":      {`{"x":{"m":1}}`, ``, "", ""},
		"none":             {`{}`, ``, "", ""},
		"no object":        {`["m"]`, ``, "", ""},
		"no JSON":          {`{"m":1`, ``, "", ""},
		"nothing":          {``, ``, "", ""},
	} {
		d := Parse([]byte(row.body))
		if name == "the last of two" { // an upstream may write this
			d = Trusted(d.Bytes())
		}
		got := []string{string(d.Member("m")), d.Text("m"), d.Number("m")}
		if diff := cmp.Diff([]string{row.value, row.text, row.number}, got); diff != "" {
			t.Errorf("%s: member, text and number (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzHead checks the head of a document against another parser.
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

// wantMember checks the result of With with another parser.
func wantMember(t *testing.T, body, out []byte, name string, value []byte) {
	t.Helper()
	var before, after map[string]json.RawMessage
	if json.Unmarshal(body, &before) != nil {
		t.Fatalf("With took what is no object: %q", body)
	}
	if err := json.Unmarshal(out, &after); err != nil {
		t.Fatalf("With wrote %q: %v", out, err)
	}
	if diff := cmp.Diff(jsonValue(t, value), jsonValue(t, after[name])); diff != "" {
		t.Fatalf("member %q of %s (-want +got):\n%s", name, out, diff)
	}
	before[name], after[name] = nil, nil
	if diff := cmp.Diff(before, after); diff != "" {
		t.Fatalf("other members changed (-before +after):\n%s", diff)
	}
}
