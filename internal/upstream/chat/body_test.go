package chat

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestPeek(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body string
		want Peeked
	}{
		"usual":        {`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`, Peeked{Model: "m", Stream: true, HasMessages: true, N: 1}},
		"empty":        {" {} \n", Peeked{N: 1}},
		"nulls":        {`{"model":null,"stream":null,"stream_options":null,"messages":null,"n":null}`, Peeked{N: 1}},
		"options":      {`{"stream_options":{"include_usage":true,"x":1},"n":3,"messages":[]}`, Peeked{IncludeUsage: true, N: 3}},
		"options off":  {`{"stream_options":{"include_usage":false},"stream":false}`, Peeked{N: 1}},
		"escapes":      {`{"mod\u0065l":"a\/b\u00e9"}`, Peeked{Model: "a/bé", N: 1}},
		"not the top":  {`{"metadata":{"model":"x","stream":true},"tools":[{"model":"y"}]}`, Peeked{N: 1}},
		"order turned": {`{"messages":[1],"n":128,"model":"m"}`, Peeked{Model: "m", HasMessages: true, N: 128}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Peek([]byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPeekErrors(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]BodyError{
		``:                            {"", "it ends too early"},
		`{"model":"m"`:                {"", "it ends too early"},
		`{"model":"secret`:            {"", "it ends too early"},
		`[]`:                          {"", "must be a JSON object"},
		`"secret"`:                    {"", "must be a JSON object"},
		`null`:                        {"", "must be a JSON object"},
		`hello`:                       {"", "not valid JSON"},
		`{"a":secret}`:                {"", "not valid JSON, at byte 5"},
		`{"a":1,}`:                    {"", "not valid JSON"},
		`{"a":"` + "\xff" + `"}`:      {"", "not valid JSON"},
		`{"a":1}{"b":2}`:              {"", "more than one JSON value"},
		`{"a":1} x`:                   {"", "more than one JSON value"},
		`{"model":"a","model":"b"}`:   {"", "repeats a name"},
		`{"a":{"b":1,"b":2}}`:         {"", "repeats a name"},
		`{"model":1}`:                 {"model", "must be a string"},
		`{"stream":"true"}`:           {"stream", "true or false"},
		`{"stream":1}`:                {"stream", "true or false"},
		`{"stream_options":[]}`:       {"stream_options", "object"},
		`{"messages":"hi"}`:           {"messages", "array"},
		`{"n":0}`:                     {"n", "whole number from 1"},
		`{"n":1.5}`:                   {"n", "whole number from 1"},
		`{"n":"1"}`:                   {"n", "whole number from 1"},
		`{"n":99999999999999999999}`:  {"n", "whole number from 1"},
		`{"a":"\ud800"}`:              {"", "not valid JSON"},
		strings.Repeat(`{"a":`, 2e4):  {"", "not valid JSON"},
		`{"messages":[{"secret":}]}`:  {"", "not valid JSON"},
		`{"messages":[1,2,{"a":tru}]`: {"", "not valid JSON"},
	} {
		_, err := Peek([]byte(body))
		got, ok := errors.AsType[*BodyError](err)
		if !ok || got.Param != want.Param || !strings.Contains(got.Message, want.Message) {
			t.Errorf("%.80s: %#v, want %q", body, err, want)
			continue
		}
		if strings.Contains(got.Message, "secret") {
			t.Errorf("%.80s: the message quotes the body: %s", body, got.Message)
		}
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit       func([]byte) []byte
		body, want string
	}{
		"model":                    {func(b []byte) []byte { return ReplaceModel(b, "new") }, `{ "x":{"model":"a"} , "model" : "old", "y":1.0 }`, `{ "x":{"model":"a"} , "model" : "new", "y":1.0 }`},
		"model first":              {func(b []byte) []byte { return ReplaceModel(b, "a\"b") }, `{"model":"old"}`, `{"model":"a\"b"}`},
		"model null":               {func(b []byte) []byte { return ReplaceModel(b, "new") }, `{"model":null}`, `{"model":"new"}`},
		"model escaped":            {func(b []byte) []byte { return ReplaceModel(b, "new") }, `{"mod\u0065l":"old"}`, `{"mod\u0065l":"new"}`},
		"no model":                 {func(b []byte) []byte { return ReplaceModel(b, "new") }, "{\"x\":1\n}", "{\"x\":1,\"model\":\"new\"\n}"},
		"nothing there":            {func(b []byte) []byte { return ReplaceModel(b, "new") }, `{ }`, `{"model":"new" }`},
		"no object":                {func(b []byte) []byte { return ReplaceModel(b, "new") }, `[1]`, `[1]`},
		"stream on":                {func(b []byte) []byte { return SetStream(b, true) }, `{"stream":false,"x":1}`, `{"stream":true,"x":1}`},
		"stream on, added":         {func(b []byte) []byte { return SetStream(b, true) }, `{"x":1}`, `{"x":1,"stream":true}`},
		"stream on, kept options":  {func(b []byte) []byte { return SetStream(b, true) }, `{"stream_options":{}}`, `{"stream_options":{},"stream":true}`},
		"stream off":               {func(b []byte) []byte { return SetStream(b, false) }, `{"stream":true,"stream_options":{"include_usage":true},"x":1}`, `{"stream":false,"x":1}`},
		"stream off, options last": {func(b []byte) []byte { return SetStream(b, false) }, `{"stream":true , "stream_options":{"a":[","]}}`, `{"stream":false }`},
		"stream off, options only": {func(b []byte) []byte { return SetStream(b, false) }, `{ "stream_options":null }`, `{"stream":false }`},
		"usage":                    {AskForUsage, `{"x":1}`, `{"x":1,"stream_options":{"include_usage":true}}`},
		"usage, null":              {AskForUsage, `{"stream_options":null,"x":1}`, `{"stream_options":{"include_usage":true},"x":1}`},
		"usage, others kept":       {AskForUsage, `{"stream_options":{ "a":1.0, "include_usage":false }}`, `{"stream_options":{ "a":1.0, "include_usage":true }}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := []byte(tc.body)
			if diff := cmp.Diff(tc.want, string(tc.edit(body))); diff != "" {
				t.Error(diff)
			}
			if string(body) != tc.body {
				t.Error("the body itself was changed")
			}
			if again := tc.edit(tc.edit(body)); string(again) != tc.want {
				t.Errorf("twice: %s", again)
			}
		})
	}
}

// What Peek accepts, json.Unmarshal must too, and see the same; an edit must
// change what it says and nothing else.
func FuzzBody(f *testing.F) {
	for _, s := range []string{`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"n":2}`, `{}`, ` { "stream_options" : null } `, `{"a":{"model":1},"b":[1,{"c":"\""}],"model":"x"}`, `{"stream_options":{"include_usage":false}}`, `{"a":1,"a":2}`, `[]`} {
		f.Add(s, "new")
	}
	f.Fuzz(func(t *testing.T, body, model string) {
		before := decodeObject([]byte(body))
		p, err := Peek([]byte(body))
		if err != nil {
			if _, ok := errors.AsType[*BodyError](err); !ok {
				t.Errorf("error %T", err)
			}
			return
		}
		if before == nil {
			t.Fatalf("accepted %q", body)
		}
		var name string
		if v := before["model"]; v != nil && !isNull(v) && json.Unmarshal(v, &name) == nil && name != p.Model {
			t.Errorf("model %q, want %q", p.Model, name)
		}
		replaced := ReplaceModel([]byte(body), model)
		if q, err := Peek(replaced); err != nil || q.Model != strings.ToValidUTF8(model, "\uFFFD") && q.Model != string([]rune(model)) {
			t.Errorf("model %q became %q, %v", model, q.Model, err)
		}
		compareOthers(t, before, replaced, "model")
		for _, on := range []bool{true, false} {
			if q, err := Peek(SetStream([]byte(body), on)); err != nil || q.Stream != on {
				t.Errorf("stream is %v, want %v, %v", q.Stream, on, err)
			}
			compareOthers(t, before, SetStream([]byte(body), on), "stream", "stream_options")
		}
		if q, err := Peek(AskForUsage([]byte(body))); err != nil || !q.IncludeUsage {
			t.Errorf("usage is not asked for: %v", err)
		}
		compareOthers(t, before, AskForUsage([]byte(body)), "stream_options")
	})
}

func decodeObject(body []byte) map[string]jsontext.Value {
	var m map[string]jsontext.Value
	if jsontext.Value(body).Kind() != '{' || json.Unmarshal(body, &m) != nil {
		return nil
	}
	return m
}

func compareOthers(t *testing.T, before map[string]jsontext.Value, edited []byte, but ...string) {
	t.Helper()
	after := decodeObject(edited)
	if after == nil {
		t.Fatalf("the edit made no object: %q", edited)
	}
	want := map[string]string{}
	for name, v := range before {
		want[name] = string(v)
	}
	got := map[string]string{}
	for name, v := range after {
		got[name] = string(v)
	}
	for _, name := range but {
		delete(want, name)
		delete(got, name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func usualBody() []byte {
	turn := `{"role":"user","content":"` + strings.Repeat("The quick brown fox. ", 40) + `"},`
	return []byte(`{"messages":[` + strings.Repeat(turn, 18) + `{"role":"user","content":"hi"}],"model":"gpt-4o-mini","stream":true}`)
}

func BenchmarkPeek(b *testing.B) {
	body := usualBody()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Peek(body); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReplaceModel(b *testing.B) {
	body := usualBody()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if len(ReplaceModel(body, "other")) == 0 {
			b.Fatal("nothing")
		}
	}
}
