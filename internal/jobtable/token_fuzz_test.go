package jobtable

import (
	"encoding/base64"
	"testing"

	"github.com/genbus/genbus/internal/subject"
)

// FuzzParsePageToken checks that an accepted token identifies a valid row and survives a round
// trip.
func FuzzParsePageToken(f *testing.F) {
	good := formatToken(Row{Created: 1, ID: "video_aaaaaaaaaaaaaaaaaaaaaaaaaa"})
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
		case err != nil && r != (Row{}):
			t.Fatalf("%v, and a place: %v", err, r)
		case err != nil, token == "":
			return
		case subject.CheckToken(r.ID) != nil:
			t.Fatalf("the id %q", r.ID)
		}
		if again, err := parseToken(formatToken(r)); err != nil || again != r {
			t.Fatalf("%v is read back as %v, %v", r, again, err)
		}
	})
}

// FuzzSearchToken checks that a token is accepted by its own search only.
func FuzzSearchToken(f *testing.F) {
	s := Search{Filter: Filter{Tenant: "acme"}}
	good := s.formatToken(place{Created: 1, Kind: subject.Video, Tenant: "acme", ID: "video_1"})
	for _, seed := range []string{"", good, good[:len(good)-2], "AQ", "===="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		mine, other := s, Search{Filter: Filter{Tenant: "globex"}}
		mine.Token, other.Token = token, token
		err := mine.parseToken()
		if token != "" && err == nil && other.parseToken() == nil {
			t.Fatalf("%q is a token of two searches", token)
		}
		if err == nil && token != "" && (subject.CheckToken(mine.After.ID) != nil || subject.CheckToken(mine.After.Tenant) != nil) {
			t.Fatalf("%q begins after %v", token, mine.After)
		}
	})
}
