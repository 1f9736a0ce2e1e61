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
		{`{"model":"m"}`, nil},
		{`{"model":"m","image":"https://example.com/a.png","prompt":""}`, nil},
		{`{"model":"m","image":"https://example.com/a.png","prompt":null}`, nil},
		{`{"model":"m","prompt":"p","image":null,"duration":null,"width":null,"seed":null,"n":null,"metadata":null}`, nil},
		{`{"model":"m","prompt":"p","duration":"5","seed":18446744073709551615,"metadata":"{}"}`, nil},
		{`{}`, []Violation{{Field: "model", Description: "is required"}}},
		{`{"model":"","prompt":["p"]}`, []Violation{{Field: "model", Description: "is empty; it is required"}, {Field: "prompt", Description: "is an array; it must be a string"}}},
		{`{"model":"a\u0007","prompt":" "}`, []Violation{{Field: "model", Description: "holds a control character; a model id has none"}}},
		{`{"model":"` + strings.Repeat("é", 129) + `","prompt":"p"}`, []Violation{{Field: "model", Description: "has 258 bytes; a model id has at most 256"}}},
		{`{"model":"m","prompt":"p","image":["u"],"duration":0,"width":0,"height":"720","fps":29.97,"seed":1.5,"n":129,"metadata":[]}`, []Violation{
			{Field: "image", Description: "is an array; it must be a string"},
			{Field: "duration", Description: "must be a number above 0, in seconds"},
			{Field: "width", Description: "must be an integer above 0"},
			{Field: "height", Description: "is a string; it must be an integer above 0"},
			{Field: "fps", Description: "must be an integer above 0"},
			{Field: "seed", Description: "must be an integer"},
			{Field: "n", Description: "must be an integer from 1 to 128"},
			{Field: "metadata", Description: "is an array; it must be an object"},
		}},
		{`{"model":"m","prompt":"p","duration":"five","n":0,"seed":"7"}`, []Violation{
			{Field: "duration", Description: "is a string that holds no number; it must be a number above 0, in seconds"},
			{Field: "seed", Description: "is a string; it must be an integer"},
			{Field: "n", Description: "must be an integer from 1 to 128"},
		}},
		{`{"model":"m","prompt":"p","duration":"-5"}`, []Violation{{Field: "duration", Description: "must be a number above 0, in seconds"}}},
		{`{"model":"m","prompt":"p","duration":""}`, []Violation{{Field: "duration", Description: "is a string that holds no number; it must be a number above 0, in seconds"}}},
		{`{"model":"m","prompt":"p","duration":1e400}`, []Violation{{Field: "duration", Description: "must be a number above 0, in seconds"}}},
		{`{"model":"m","prompt":"p","duration":true}`, []Violation{{Field: "duration", Description: "is a boolean; it must be a number above 0, in seconds"}}},
		{`[]`, []Violation{{Field: "", Description: "is an array; a JSON object is needed"}}},
		{``, []Violation{{Field: "", Description: "is empty; it must be JSON"}}},
	} {
		if diff := cmp.Diff(test.want, checkVideo([]byte(test.body))); diff != "" {
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
