package body_test

import (
	"testing"

	"github.com/genbus/genbus/internal/body"
)

func TestWantsStream(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]bool{
		`{"stream":true}`: true,
		"\n{ \"a\" : [ {\"stream\":true} ] , \"stream\" : true }": true,
		`{"str\u0065am":true}`:               true,
		`{"a":"\"stream\":true","b":"\\"}`:   false,
		`{"a":{"stream":true}}`:              false,
		`{"stream":false}`:                   false,
		`{"stream":null}`:                    false,
		`{"stream":"true"}`:                  false,
		`{"stream_options":{"stream":true}}`: false,
		`["stream",true]`:                    false,
		`{"a":1.5e3,"b":true,"stream":true}`: true,
		``:                                   false,
		`{`:                                  false,
		`{"`:                                 false,
		`{"a":"\`:                            false,
		`{"a":[[[`:                           false,
	} {
		if got := body.WantsStream([]byte(raw)); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// FuzzWantsStream: it never leaves its input, and agrees with the strict reader
// on everything that this one accepts.
func FuzzWantsStream(f *testing.F) {
	for _, seed := range []string{`{"stream":true}`, `{"a":[{"b":"\\\""}],"stream":true}`, `{"str\u0065am":true}`, `{"a":{}`, `{"stream"`, `{"a":"\\`, "{\"a\":1\n,\"stream\":true}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got := body.WantsStream(raw)
		if head, err := body.Header(raw); err == nil && head.Stream != got {
			t.Fatalf("%v, the strict reader says %v", got, head.Stream)
		}
	})
}
