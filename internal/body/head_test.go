package body

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeader(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		want Head
	}{
		{`{}`, Head{}},
		{`{"messages":[{"model":"no","stream":true}],"model":"m","stream":true,"stream_options":{"a":{},"include_usage":true}}`,
			Head{Model: "m", Stream: true, StreamSet: true, IncludeUsage: true}},
		{`{"stream":false , "m\u006fdel" : "\u0061" }`, Head{Model: "a", StreamSet: true}},
		{`{"stream":null,"model":7,"stream_options":null}`, Head{}},
		{`{"stream":"true","stream_options":{"include_usage":"true"}}`, Head{}},
	} {
		got, err := header([]byte(test.body))
		if err != nil {
			t.Fatalf("%s: %v", test.body, err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.body, diff)
		}
	}
	if _, err := header([]byte(`[{"model":"m"}]`)); err == nil {
		t.Error("an array has a head")
	}
}

func TestSetMember(t *testing.T) {
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
		before := test.body
		got, err := SetMember([]byte(test.body), test.name, []byte(test.value))
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %s, %v\nwant %s", test.body, got, err, test.want)
		}
		if test.body != before {
			t.Errorf("%s was changed", before)
		}
	}
}

func TestSetMemberRefuses(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	for _, test := range []struct{ body, name, value, want string }{
		{`[]`, "a", `1`, "the body is an array; a JSON object is needed"},
		{`{"a":1,"a":2}`, "a", `1`, "the body has the same member twice in one object, before byte 6"},
		{`{}`, "a", ``, "a is empty; it must be JSON"},
		{`{}`, "a", `1,"b":2`, "a has more than one JSON value: text follows at byte 1"},
		{`{}`, "\xff", `1`, "the body cannot have a member whose name is not valid UTF-8"},
		{`{}`, "a", deep, "a makes the body deeper than 200 levels"},
	} {
		if got, err := SetMember([]byte(test.body), test.name, []byte(test.value)); err == nil || err.Error() != test.want {
			t.Errorf("%s: got %s, %v\nwant %s", test.body, got, err, test.want)
		}
	}
}

func TestSetModel(t *testing.T) {
	t.Parallel()
	got, err := SetModel([]byte(`{"messages":[], "model" :"a" ,"n":1.0}`), `vendor/"b"`)
	if want := `{"messages":[], "model" :"vendor/\"b\"" ,"n":1.0}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	if _, err := SetModel([]byte(`{}`), "\xff"); err == nil || err.Error() != "model is not valid UTF-8" {
		t.Error(err)
	}
}

// wantMember checks what SetMember promises, by another parser.
func wantMember(t *testing.T, body, out []byte, name string, value []byte) {
	t.Helper()
	var before, after map[string]json.RawMessage
	if json.Unmarshal(body, &before) != nil {
		t.Fatalf("SetMember took what is no object: %q", body)
	}
	if err := json.Unmarshal(out, &after); err != nil {
		t.Fatalf("SetMember wrote %q: %v", out, err)
	}
	if diff := cmp.Diff(jsonValue(t, value), jsonValue(t, after[name])); diff != "" {
		t.Fatalf("member %q of %s (-want +got):\n%s", name, out, diff)
	}
	before[name], after[name] = nil, nil
	if diff := cmp.Diff(before, after); diff != "" {
		t.Fatalf("other members changed (-before +after):\n%s", diff)
	}
}
