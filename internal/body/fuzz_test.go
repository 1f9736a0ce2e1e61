package body

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func seed(f *testing.F) {
	for _, text := range []string{
		``, `{}`, ` { "a" : [ 1 , -0.5e+3 , {} , [] ] } `, deltaBlock, fullChatJSON, `{"a":"\ud83d\ude00\ud83d\"\\"}`, `{"a":1,"a":2}`,
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"m","prompt":"p","duration":"5","metadata":{"a":1},"n":1.0,"seed":12345678901234567890}`,
		`{"choices":[{"index":0,"message":{"content":[{"type":"text"}],"tool_calls":[{"index":0,"id":""}]},"logprobs":{"content":[{"token":"a","logprob":0,"bytes":[1],"top_logprobs":[]}]}}],"usage":{"prompt_tokens_details":null}}`,
		"{\"a\":\"\xff\"}", `[[[[]]]]`, `{"m\u006fdel":1}`,
	} {
		f.Add([]byte(text))
	}
}

// loses reports whether JSON values of a body cannot be compared, because of duplicate names or
// invalid Unicode.
func loses(body []byte) bool {
	return !valid(body, strict) || bytes.Contains(bytes.ToLower(body), []byte(`\ud`))
}

func fuzzReply[M proto.Message](f *testing.F, parse func([]byte) (M, error), write func(M) ([]byte, error)) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parse(raw)
		if err != nil {
			return
		}
		if _, err := proto.Marshal(m); err != nil {
			t.Fatalf("the message cannot be sent: %v", err)
		}
		if !valid(raw, strict) {
			return // a duplicate name may be both typed and extra
		}
		again, err := write(m)
		if err != nil {
			t.Fatalf("write: %v", err)
		}
		twice, err := parse(again)
		if err != nil || !proto.Equal(m, twice) {
			t.Fatalf("%v\n%v\n%v", err, m, twice)
		}
	})
}

func FuzzParseCompletion(f *testing.F) { fuzzReply(f, ParseCompletion, completionJSON) }

func FuzzParseChunk(f *testing.F) { fuzzReply(f, ParseChunk, ChunkJSON) }

func FuzzParseChatRequest(f *testing.F) {
	fuzzReply(f, parseChat, func(m *genbusv1.ChatCompletionBody) ([]byte, error) { return chatText(typedChat(m)) })
}

func FuzzParseVideo(f *testing.F) {
	fuzzReply(f, parseVideo, func(m *genbusv1.VideoGeneration) ([]byte, error) { return videoText(typedVideo(m)) })
}

func FuzzFingerprint(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		sum, err := fingerprint(body)
		if err != nil {
			return
		}
		c := canonical{c: Cursor{Text: body}}
		c.value()
		if !utf8.Valid(c.out) || !json.Valid(c.out) {
			t.Fatalf("the canonical form is no JSON: %q", c.out)
		}
		again, err := fingerprint(c.out)
		if err != nil || again != sum {
			t.Fatalf("the canonical form has another fingerprint: %v\n%q", err, c.out)
		}
		if bytes.Contains(bytes.ToLower(body), []byte(`\ud`)) {
			return // the other parser reads half a surrogate pair as U+FFFD
		}
		if diff := diffJSON(t, body, c.out); diff != "" {
			t.Fatalf("the canonical form is another value:\n%s", diff)
		}
	})
}

func FuzzCheck(f *testing.F) {
	seed(f)
	rules := []Rule{
		{Name: "model", Required: true, Wrong: IsModel}, {Name: "duration", Wrong: IsSeconds}, {Name: "seed", Wrong: IsInteger},
		{Name: "width", Wrong: IsPositive}, {Name: "n", Wrong: IsChoices}, {Name: "metadata", Wrong: IsObjectOrText},
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, violations := range [][]Violation{checkRules(body, rules), checkChat(body)} {
			if len(violations) > maxViolations {
				t.Fatalf("%d violations", len(violations))
			}
			if !json.Valid(body) && len(violations) == 0 {
				t.Fatal("what is no JSON is judged right")
			}
			for _, v := range violations {
				if v.Description == "" {
					t.Fatalf("%s: nothing said", v.Field)
				}
			}
		}
		if checkChat(body) == nil {
			if h, err := header(body); err != nil || h.Model == "" {
				t.Fatalf("judged right without a model: %v", err)
			}
		}
	})
}

func FuzzWith(f *testing.F) {
	for _, body := range []string{`{}`, ` {"a" : 1 , "b":[{"a":2}]} `, `{"\u0061":"\""}`, `[]`} {
		f.Add([]byte(body), "a", []byte(`"v"`))
		f.Add([]byte(body), "model", []byte(`{"x":[1.0]}`))
	}
	f.Fuzz(func(t *testing.T, body []byte, name string, value []byte) {
		before := bytes.Clone(body)
		d := Parse(body).With(name, value)
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if d.Err() != nil || !utf8.ValidString(name) || loses(body) || loses(value) {
			return
		}
		wantMember(t, body, d.Bytes(), name, value)
	})
}

// FuzzTrusted checks that reading and editing an unchecked text never panics.
func FuzzTrusted(f *testing.F) {
	seed(f)
	for _, s := range []string{`{"model":"`, `{"a":"\u12"}`, `{"stream_options":{"include_usage`, `{"a":"\`, `{"n":-}`, `{"metadata":tru`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d := Trusted(raw)
		for name, value := range d.Members() {
			if len(value) == 0 || !bytes.Contains(raw, value) {
				t.Errorf("member %q of %q is %q", name, raw, value)
			}
			_, _ = d.Text(name), d.Number(name)
		}
		var o Object
		o.Merge(d)
		if err := d.WithText("model", "m").Err(); err == nil && d.WithText("model", "m").Text("model") != "m" {
			t.Errorf("%q took a member and has none", raw)
		}
	})
}
