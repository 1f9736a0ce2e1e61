package chat

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream/chat/chattest"
)

func TestEdit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edit       func(body.Document) body.Document
		body, want string
	}{
		"stream on":               {AskForStream, `{"stream":false,"x":1}`, `{"stream":true,"x":1}`},
		"stream on, added":        {AskForStream, `{"x":1}`, `{"x":1,"stream":true}`},
		"stream on, kept options": {AskForStream, `{"stream_options":{}}`, `{"stream_options":{},"stream":true}`},
		"usage":                   {AskForUsage, `{"x":1}`, `{"x":1,"stream_options":{"include_usage":true}}`},
		"usage, null":             {AskForUsage, `{"stream_options":null,"x":1}`, `{"stream_options":{"include_usage":true},"x":1}`},
		"usage, others kept":      {AskForUsage, `{"stream_options":{ "a":1.0, "include_usage":false }}`, `{"stream_options":{ "a":1.0, "include_usage":true }}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := body.Parse([]byte(tc.body))
			if diff := cmp.Diff(tc.want, string(tc.edit(d).Bytes())); diff != "" {
				t.Error(diff)
			}
			if string(d.Bytes()) != tc.body {
				t.Error("the body itself was changed")
			}
			if again := tc.edit(tc.edit(d)); string(again.Bytes()) != tc.want {
				t.Errorf("twice: %s", again.Bytes())
			}
		})
	}
}

// FuzzEdit checks that an edit changes only its member. Admission refuses duplicate names, so
// bodies with any are skipped.
func FuzzEdit(f *testing.F) {
	for _, s := range []string{`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"n":2}`, `{}`, ` { "stream_options" : null } `, `{"a":{"model":1},"b":[1,{"c":"\""}],"model":"x"}`, `{"stream_options":{"include_usage":false}}`, `{"a":1,"a":2}`, `[]`} {
		f.Add(s)
	}
	for _, a := range chattest.Seeds(f, "testdata") {
		f.Add(string(a.Body))
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := body.Parse([]byte(text))
		before := decodeObject(d.Bytes())
		if before == nil || d.Err() != nil {
			return
		}
		edited := AskForStream(d).Bytes()
		if got := string(decodeObject(edited)["stream"]); got != "true" {
			t.Errorf("stream is %s", got)
		}
		compareOthers(t, before, edited, "stream")
		edited = AskForUsage(d).Bytes()
		var options map[string]jsontext.Value
		if err := json.Unmarshal(decodeObject(edited)["stream_options"], &options); err != nil || string(options["include_usage"]) != "true" {
			t.Errorf("usage is not asked for: %s, %v", edited, err)
		}
		compareOthers(t, before, edited, "stream_options")
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
