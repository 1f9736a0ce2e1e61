package jobindex

import (
	"encoding/base64"
	"testing"

	"github.com/genbus/genbus/internal/subject"
)

// FuzzParsePageToken: what is read is a place that a list can begin after, and it
// is read back as it is written.
func FuzzParsePageToken(f *testing.F) {
	good := formatToken(row{created: 1, id: "video_aaaaaaaaaaaaaaaaaaaaaaaaaa"})
	for _, seed := range []string{
		"", good, good[:len(good)-3], "AQ", "====", base64.RawURLEncoding.EncodeToString([]byte(`{"c":9223372036854775808,"i":"x"}`)),
		base64.RawURLEncoding.EncodeToString([]byte(`{"c":-1,"i":"a.b"}`)), base64.RawURLEncoding.EncodeToString([]byte(`{"c":1e3,"i":">"}`)),
		base64.RawURLEncoding.EncodeToString([]byte(`{"c":1,"c":2,"i":"x","I":"y"}`)), base64.RawURLEncoding.EncodeToString([]byte(`[[[[`)),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		r, err := parseToken(token)
		switch {
		case err != nil && r != (row{}):
			t.Fatalf("%v, and a place: %v", err, r)
		case err != nil, token == "":
			return
		case subject.CheckToken(r.id) != nil:
			t.Fatalf("the id %q", r.id)
		}
		if again, err := parseToken(formatToken(r)); err != nil || again != r {
			t.Fatalf("%v is read back as %v, %v", r, again, err)
		}
	})
}
