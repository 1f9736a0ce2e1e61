package streamread

import (
	"errors"
	"testing"
)

// FuzzDecodeGet checks that Decode returns either a message or an error, and at most one of
// ErrNoMessage and ErrRefused.
func FuzzDecodeGet(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `[]`, `{"message":null}`, `{"message":{"subject":"a.b","seq":7,"data":"eA==","time":"2026-01-31T00:00:00Z"}}`,
		`{"message":{"subject":"a.b","seq":7,"hdrs":"TkFUUy8xLjANCmE6IGINCg0K","data":"","time":"2026-01-31T00:00:00Z"}}`,
		`{"message":{"subject":"a.b","seq":-1}}`, `{"message":{"hdrs":"AAAA","seq":1}}`, `{"message":{"hdrs":"TkFUUy8xLjA=","seq":1}}`,
		`{"error":{"code":404,"err_code":10037,"description":"no message found"}}`, `{"error":{}}`, `{"error":"x"}`, `{"message":{"seq":1,"time":"0000-00-00T00:00:00Z"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		switch {
		case err == nil:
		case m.Subject != "" || m.Seq != 0 || m.Data != nil || m.Header != nil:
			t.Fatalf("%v, and a message: %+v", err, m)
		case errors.Is(err, ErrNoMessage) && errors.Is(err, ErrRefused):
			t.Fatalf("two things at once: %v", err)
		}
	})
}
