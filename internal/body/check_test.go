package body

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckChat(t *testing.T) {
	t.Parallel()
	const user = `"messages":[{"role":"user","content":"hi"}]`
	for _, test := range []struct {
		body string
		want []Violation
	}{
		{`{"model":"m",` + user + `}`, nil},
		{fullChatJSON, nil},
		{`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{}]},{"role":"assistant","content":null,"tool_calls":7},{"role":"x"}]}`, nil},
		{`{"model":"m",` + user + `,"stream":null,"temperature":null,"max_tokens":null,"n":null,"stop":null,"tools":null}`, nil},
		{`{"model":"m",` + user + `,"stream":true,"temperature":99,"top_p":-1,"max_tokens":1,"n":1,"stop":"a","tools":[],"logprobs":"passed on"}`, nil},
		{`{"model":"m",` + user + `,"stop":["a","b","c","d","e"]}`, nil},
		{`{"model":7}`, []Violation{{Field: "model", Description: "is a number; it must be a string"}, {Field: "messages", Description: "is required"}}},
		{`{"model":"m","messages":null}`, []Violation{{Field: "messages", Description: "is null; it must be an array of messages"}}},
		{`{"model":"m","messages":{}}`, []Violation{{Field: "messages", Description: "is an object; it must be an array of messages"}}},
		{`{"model":"m","messages":[]}`, []Violation{{Field: "messages", Description: "is empty; at least one message is required"}}},
		{`{"model":"m","messages":[{"role":"user"},"hi",{"content":"x"},{"role":""},{"role":null,"content":7},{"role":"user","content":[{},1]},{"role":"user","content":{}}]}`, []Violation{
			{Field: "messages[1]", Description: "is a string; it must be an object with role and content"},
			{Field: "messages[2].role", Description: `is required, such as "user"`},
			{Field: "messages[3].role", Description: "is empty; it is required"},
			{Field: "messages[4].role", Description: "is null; it must be a string"},
			{Field: "messages[4].content", Description: "is a number; it must be a string, an array of parts, or null"},
			{Field: "messages[5].content[1]", Description: "is a number; it must be an object"},
			{Field: "messages[6].content", Description: "is an object; it must be a string, an array of parts, or null"},
		}},
		{`{"model":"m",` + user + `,"stream":"true","temperature":"0","top_p":{},"max_tokens":0,"n":200,"stop":[1],"tools":[{},null]}`, []Violation{
			{Field: "stream", Description: "is a string; it must be true or false"},
			{Field: "temperature", Description: "is a string; it must be a number"},
			{Field: "top_p", Description: "is an object; it must be a number"},
			{Field: "max_tokens", Description: "must be an integer above 0"},
			{Field: "n", Description: "must be an integer from 1 to 128"},
			{Field: "stop[0]", Description: "is a number; it must be a string"},
			{Field: "tools[1]", Description: "is null; it must be an object"},
		}},
		{`{"model":"m",` + user + `,"stop":7,"tools":{}}`, []Violation{
			{Field: "stop", Description: "is a number; it must be a string or an array of strings"}, {Field: "tools", Description: "is an object; it must be an array of tools"}}},
	} {
		if diff := cmp.Diff(test.want, checkChat([]byte(test.body))); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", test.body, diff)
		}
	}
}

func TestCheckStopsAfterTwenty(t *testing.T) {
	t.Parallel()
	got := checkChat(fmt.Appendf(nil, `{"model":"","messages":[%s1]}`, strings.Repeat("1,", 1000)))
	if len(got) != maxViolations {
		t.Fatalf("got %d violations, want %d", len(got), maxViolations)
	}
	if last := got[maxViolations-1].Field; last != "messages[18]" {
		t.Errorf("the last is %s", last)
	}
}
