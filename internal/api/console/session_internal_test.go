package console

import (
	"strings"
	"testing"
	"time"
)

// TestSessions checks that a process with the same keys opens a sealed session until it expires.
func TestSessions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	key, other := [32]byte{1}, [32]byte{2}
	want := session{Key: "gb_secret", Expires: now.Add(time.Hour)}
	text, err := seal(key, want)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "gb_") {
		t.Error("the key can be read")
	}
	if got, ok := unseal(key, text, now); !ok || got != want {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := unseal(other, text, now); ok {
		t.Error("it is opened with another key")
	}
	if _, ok := unseal(key, text, want.Expires); ok {
		t.Error("it is opened after its end")
	}
	if again, err := seal(key, want); err != nil || again == text {
		t.Errorf("two sessions are sealed alike: %v", err)
	}
}

// FuzzUnseal checks that only a sealed text is a session.
func FuzzUnseal(f *testing.F) {
	key := [32]byte{1}
	text, err := seal(key, session{Key: "gb_secret", Expires: time.Now().Add(time.Hour)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text[1:])
	f.Add("")
	f.Add("====")
	f.Fuzz(func(t *testing.T, given string) {
		if _, ok := unseal(key, given, time.Now()); ok && given != text {
			t.Errorf("%q is a session", given)
		}
	})
}
