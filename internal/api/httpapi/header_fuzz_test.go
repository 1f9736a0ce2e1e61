package httpapi

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/genbus/genbus/internal/errcode"
)

// FuzzPrefersAsync checks that the preference is found exactly as a separate token.
func FuzzPrefersAsync(f *testing.F) {
	for _, seed := range []string{"", "respond-async", "RESPOND-ASYNC;wait=5", "wait=5, respond-async", "respond-asynchronously", "x;respond-async", "\"respond-async\"", ",,;;,", "respond-async=1", " respond-async\t;"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		found := prefersAsync([]string{value})
		if found && !strings.Contains(strings.ToLower(value), "respond-async") {
			t.Fatalf("found in %q", value)
		}
		if !prefersAsync([]string{value, "respond-async"}) || !prefersAsync([]string{value + ", respond-async"}) {
			t.Fatalf("not found behind %q", value)
		}
	})
}

// FuzzCheckMediaType checks that a media type is JSON or rejected with a valid error.
func FuzzCheckMediaType(f *testing.F) {
	for _, seed := range []string{"", "application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json", "text/json", "application/json;;", "application/json, x", "multipart/form-data; boundary=x", "\xff", strings.Repeat("a", 5000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		err := checkMediaType(value)
		var refused *errcode.Error
		switch {
		case err == nil && value != "" && !strings.Contains(strings.ToLower(value), "json"):
			t.Fatalf("%q is taken", value)
		case err != nil && (!errors.As(err, &refused) || refused.Code != errcode.UnsupportedMedia || len(refused.Message) > 500 || !utf8.ValidString(refused.Message)):
			t.Fatalf("%q: %v", value, err)
		}
	})
}

// FuzzNumber checks that a number is within its bounds or rejected.
func FuzzNumber(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "100", "101", "-1", "+1", "1e3", "0x1", " 1", "٣", "9223372036854775808", "1_0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := number(text, "limit", 20, 1, 100)
		var refused *errcode.Error
		switch {
		case err == nil && (n < 1 || n > 100):
			t.Fatalf("%q is %d", text, n)
		case err != nil && (!errors.As(err, &refused) || refused.Code != errcode.InvalidRequest):
			t.Fatalf("%q: %v", text, err)
		}
	})
}
