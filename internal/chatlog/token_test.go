package chatlog

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/genbus/genbus/internal/subject"
)

var chatName = subject.JobName{Kind: subject.Chat, Tenant: "acme", ID: "chat_1"}

func TestTokenRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := position{
			created: rapid.Int64().Draw(t, "created"), attempt: rapid.Uint32().Draw(t, "attempt"),
			index: rapid.Uint64().Draw(t, "index"), seq: rapid.Uint64().Draw(t, "seq"), version: rapid.Uint64().Draw(t, "version"),
		}
		token := p.token(chatName)
		if got, err := parseToken(chatName, token); err != nil || got != p {
			t.Fatalf("%+v came back as %+v, %v", p, got, err)
		}
		other := subject.JobName{Kind: subject.Chat, Tenant: "acme", ID: "chat_2"}
		if _, err := parseToken(other, token); !errors.Is(err, ErrToken) {
			t.Fatalf("another chat took the token: %v", err)
		}
		b := []byte(token)
		at := rapid.IntRange(0, len(b)-2).Draw(t, "at") // some bits of the last character are unused
		if b[at]++; string(b) != token {
			if _, err := parseToken(chatName, string(b)); !errors.Is(err, ErrToken) {
				t.Fatalf("a damaged token gave %v", err)
			}
		}
	})
}

func FuzzParseToken(f *testing.F) {
	f.Add("")
	f.Add("AQ")
	f.Add("not base64!")
	f.Add(position{}.token(chatName))
	f.Add(position{created: 1 << 60, attempt: 2, index: 300, seq: 1 << 40, version: 3}.token(chatName))
	f.Fuzz(func(t *testing.T, token string) {
		p, err := parseToken(chatName, token)
		if err != nil {
			if !errors.Is(err, ErrToken) || p != (position{}) {
				t.Errorf("%+v, %v", p, err)
			}
			return
		}
		if token == "" {
			return
		}
		if again, err := parseToken(chatName, p.token(chatName)); err != nil || again != p {
			t.Errorf("%+v came back as %+v, %v", p, again, err)
		}
	})
}
