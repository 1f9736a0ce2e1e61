package body_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
)

func TestSet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ object, value, want string }{
		"there":         {`{ "x":{"model":"a"} , "model" : "old", "y":1.0 }`, `"new"`, `{ "x":{"model":"a"} , "model" : "new", "y":1.0 }`},
		"first":         {`{"model":"old"}`, `"a\"b"`, `{"model":"a\"b"}`},
		"null":          {`{"model":null}`, `"new"`, `{"model":"new"}`},
		"escaped":       {`{"mod\u0065l":"old"}`, `"new"`, `{"mod\u0065l":"new"}`},
		"the last wins": {`{"model":1,"model":2}`, `3`, `{"model":1,"model":3}`},
		"not there":     {"{\"x\":1\n}", `"new"`, "{\"x\":1,\"model\":\"new\"\n}"},
		"nothing there": {`{ }`, `"new"`, `{"model":"new" }`},
	} {
		object := []byte(tc.object)
		got, ok := body.SetMember(object, "model", []byte(tc.value))
		if diff := cmp.Diff(tc.want, string(got)); diff != "" || !ok {
			t.Errorf("%s: %t %s", name, ok, diff)
		}
		if string(object) != tc.object {
			t.Errorf("%s: the object itself was changed", name)
		}
		if again, _ := body.SetMember(got, "model", []byte(tc.value)); &again[0] != &got[0] {
			t.Errorf("%s: what needs no change was copied", name)
		}
		if string(body.FindMember(got, "model")) != tc.value {
			t.Errorf("%s: found %s", name, body.FindMember(got, "model"))
		}
	}
	for _, none := range []string{``, `[1]`, `"{}"`, `{"a"`, `{"a":1`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{"a":"\"}`} {
		if got, ok := body.SetMember([]byte(none), "model", []byte(`1`)); ok || string(got) != none {
			t.Errorf("%s: %t %s", none, ok, got)
		}
	}
}

// TestCursor checks that a break leaves the cursor in place and that values that a loop does not
// read are skipped.
func TestCursor(t *testing.T) {
	t.Parallel()
	c := body.NewCursor([]byte(` { "a" : [ 1 , {"b":"]"} , "x" ] , "\u0063" : -1.5e3 } `))
	var got []string
	for quoted := range c.Members() {
		got = append(got, string(body.MemberName(quoted)))
		if c.Peek() != '[' {
			continue
		}
		for i := range c.Elements() {
			if i == 1 {
				got = append(got, string(c.Value()))
			}
		}
	}
	if diff := cmp.Diff([]string{"a", `{"b":"]"}`, "c"}, got); diff != "" || !c.AtEnd() {
		t.Errorf("at %d, %s", c.At, diff)
	}
	for range body.NewCursor([]byte(`[1,`)).Elements() {
		break
	}
}

// FuzzCursor checks that a cursor stays inside its text and agrees with another parser on valid
// JSON.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{`{"stream":true}`, `{"a":[{"b":"\\\""}],"stream":true}`, `{"str\u0065am":true}`, `{"a":{}`, `{"stream"`, `{"a":"\\`, "{\"a\":1\n,\"stream\":true}", `[1,[],{"a":null}]`, `{"a":1,}`, `[[[`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		members := map[string]json.RawMessage{}
		c := body.NewCursor(text)
		for quoted := range c.Members() {
			members[string(body.MemberName(quoted))] = c.Value()
		}
		bad := !c.AtEnd()
		var elements []json.RawMessage
		a := body.NewCursor(text)
		for range a.Elements() {
			elements = append(elements, a.Value())
		}
		_, _ = body.SetMember(text, "a", []byte(`1`))
		if !utf8.Valid(text) {
			return // the other parser replaces it
		}
		var wantMembers map[string]json.RawMessage
		if json.Unmarshal(text, &wantMembers) == nil && wantMembers != nil {
			if diff := cmp.Diff(wantMembers, members); diff != "" || bad {
				t.Fatalf("%t, members (-want +got)\n%s", bad, diff)
			}
		}
		var wantElements []json.RawMessage
		if json.Unmarshal(text, &wantElements) == nil && wantElements != nil && len(wantElements) > 0 {
			if diff := cmp.Diff(wantElements, elements); diff != "" || !a.AtEnd() {
				t.Fatalf("elements (-want +got)\n%s", diff)
			}
		}
	})
}
