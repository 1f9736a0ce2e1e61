package body

import (
	"testing"

	"google.golang.org/protobuf/proto"
)

// FuzzParseUsage checks that any usage from an upstream can be stored in an event.
func FuzzParseUsage(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `[]`, `{}`, `{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}`, `{"total_tokens":-1}`, `{"total_tokens":1e3,"prompt_tokens":9223372036854775808}`,
		`{"prompt_tokens_details":{"cached_tokens":1,"x":[]},"completion_tokens_details":null}`, `{"prompt_tokens":"7","prompt_tokens":8}`, "{\"\xff\":1}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := proto.Marshal(ParseUsage(raw)); err != nil {
			t.Fatal(err)
		}
	})
}
