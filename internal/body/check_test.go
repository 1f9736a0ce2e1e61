package body

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckVideo(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		want []Violation
	}{
		{`{"model":"m","prompt":"p"}`, nil},
		{`{"model":"m","prompt":"p","image":"","duration":5.5,"width":1280,"height":720.0,"fps":30,"seed":-1,"n":128,"metadata":{},"x":[]}`, nil},
		{`{"model":"m","prompt":"p","image":null,"duration":null,"width":null,"seed":null,"n":null,"metadata":null}`, nil},
		{`{"model":"m","prompt":"p","duration":"5","seed":18446744073709551615,"metadata":"{}"}`, nil},
		{`{}`, []Violation{{"model", "is missing; it is required"}, {"prompt", "is missing; it is required"}}},
		{`{"model":"","prompt":null}`, []Violation{{"model", "is empty; it is required"}, {"prompt", "is null; it must be a string"}}},
		{`{"model":"a\u0007","prompt":" "}`, []Violation{{"model", "holds a control character; a model id has none"}}},
		{`{"model":"` + strings.Repeat("é", 129) + `","prompt":"p"}`, []Violation{{"model", "has 258 bytes; a model id has at most 256"}}},
		{`{"model":"m","prompt":"p","image":["u"],"duration":0,"width":0,"height":"720","fps":29.97,"seed":1.5,"n":129,"metadata":[]}`, []Violation{
			{"image", "is an array; it must be a string"},
			{"duration", "must be a number above 0, in seconds"},
			{"width", "must be an integer above 0"},
			{"height", "is a string; it must be an integer above 0"},
			{"fps", "must be an integer above 0"},
			{"seed", "must be an integer"},
			{"n", "must be an integer from 1 to 128"},
			{"metadata", "is an array; it must be an object"},
		}},
		{`{"model":"m","prompt":"p","duration":"five","n":0,"seed":"7"}`, []Violation{
			{"duration", "is a string that holds no number; it must be a number above 0, in seconds"},
			{"seed", "is a string; it must be an integer"},
			{"n", "must be an integer from 1 to 128"},
		}},
		{`{"model":"m","prompt":"p","duration":"-5"}`, []Violation{{"duration", "must be a number above 0, in seconds"}}},
		{`{"model":"m","prompt":"p","duration":""}`, []Violation{{"duration", "is a string that holds no number; it must be a number above 0, in seconds"}}},
		{`{"model":"m","prompt":"p","duration":1e400}`, []Violation{{"duration", "must be a number above 0, in seconds"}}},
		{`{"model":"m","prompt":"p","duration":true}`, []Violation{{"duration", "is a boolean; it must be a number above 0, in seconds"}}},
		{`[]`, []Violation{{"", "is an array; a JSON object is needed"}}},
		{``, []Violation{{"", "is empty; it must be JSON"}}},
	} {
		if diff := cmp.Diff(test.want, CheckVideo([]byte(test.body))); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", test.body, diff)
		}
	}
}

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
		{`{"model":7}`, []Violation{{"model", "is a number; it must be a string"}, {"messages", "is missing; it is required"}}},
		{`{"model":"m","messages":null}`, []Violation{{"messages", "is null; it must be an array of messages"}}},
		{`{"model":"m","messages":{}}`, []Violation{{"messages", "is an object; it must be an array of messages"}}},
		{`{"model":"m","messages":[]}`, []Violation{{"messages", "is empty; at least one message is required"}}},
		{`{"model":"m","messages":[{"role":"user"},"hi",{"content":"x"},{"role":""},{"role":null,"content":7},{"role":"user","content":[{},1]},{"role":"user","content":{}}]}`, []Violation{
			{"messages[1]", "is a string; it must be an object with role and content"},
			{"messages[2].role", `is missing; it is required, such as "user"`},
			{"messages[3].role", "is empty; it is required"},
			{"messages[4].role", "is null; it must be a string"},
			{"messages[4].content", "is a number; it must be a string, an array of parts, or null"},
			{"messages[5].content[1]", "is a number; it must be an object"},
			{"messages[6].content", "is an object; it must be a string, an array of parts, or null"},
		}},
		{`{"model":"m",` + user + `,"stream":"true","temperature":"0","top_p":{},"max_tokens":0,"n":200,"stop":[1],"tools":[{},null]}`, []Violation{
			{"stream", "is a string; it must be true or false"},
			{"temperature", "is a string; it must be a number"},
			{"top_p", "is an object; it must be a number"},
			{"max_tokens", "must be an integer above 0"},
			{"n", "must be an integer from 1 to 128"},
			{"stop[0]", "is a number; it must be a string"},
			{"tools[1]", "is null; it must be an object"},
		}},
		{`{"model":"m",` + user + `,"stop":7,"tools":{}}`, []Violation{
			{"stop", "is a number; it must be a string or an array of strings"}, {"tools", "is an object; it must be an array of tools"}}},
	} {
		if diff := cmp.Diff(test.want, CheckChat([]byte(test.body))); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", test.body, diff)
		}
	}
}

func TestCheckStopsAfterTwenty(t *testing.T) {
	t.Parallel()
	got := CheckChat(fmt.Appendf(nil, `{"model":"","messages":[%s1]}`, strings.Repeat("1,", 1000)))
	if len(got) != maxViolations {
		t.Fatalf("got %d violations, want %d", len(got), maxViolations)
	}
	if last := got[maxViolations-1].Field; last != "messages[18]" {
		t.Errorf("the last is %s", last)
	}
}
