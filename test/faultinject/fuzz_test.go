package faultinject

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzAnswers parses arbitrary bodies of clients and upstreams.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		videoBody, chatBody, streamBody,
		`{"id":"task_1","task_id":"task_1"}`,
		`{"code":0,"data":{"task_id":"7"}}`,
		`{"code":50429,"data":null}`,
		`{"choices":[{"message":{"content":"hello"}}]}`,
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n",
		"data: {\"choices\":[]}\n\ndata:",
		`{"id":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if m := Marker(body); m != "" && !bytes.Contains(body, []byte("mark="+m)) {
			t.Errorf("the marker %q is not in the body", m)
		}
		if id := taskIDOf(body); id != "" && !bytes.ContainsRune(body, '{') {
			t.Errorf("an id %q without an object", id)
		}
		// A stream of one event has the content of its data.
		if text := contentIn(body); text != "" && !bytes.ContainsAny(body, "\n") && contentOf(append([]byte("data: "), body...)) != text {
			t.Errorf("%q is lost in a stream", strings.ToValidUTF8(text, "?"))
		}
	})
}
