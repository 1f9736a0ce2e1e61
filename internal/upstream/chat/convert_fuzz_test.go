package chat

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzToChunks checks that the chunks of any reply are JSON objects.
func FuzzToChunks(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"choices":[]}`, `{"choices":null,"usage":{"total_tokens":1}}`, `{"id":"c","object":"x","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":null}`,
		`{"choices":[{"message":{"tool_calls":[{"id":"1"},{"index":7},null]}}]}`, `{"choices":[{"index":-1},{"index":1e9,"finish_reason":{}}]}`, `{"choices":{}}`, `{"choices":[7]}`, `{"\u0000":1,"choices":[{"delta":[]}]}`,
		`{"choices":[{"message":7,"logprobs":{"content":[]}}],"id":[1],"model":{"a":1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		if len(reply) == 0 || reply[0] != '{' || !validJSON(reply) {
			return // toChunks requires a valid object
		}
		chunks, err := toChunks(reply)
		if err != nil {
			return
		}
		for i, chunk := range chunks {
			if !jsontext.Value(chunk).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) || chunk[0] != '{' {
				t.Fatalf("chunk %d: %s", i, chunk)
			}
		}
	})
}
