package kling

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// The vendor's test vector.
const (
	vectorAccess = "test-access-key"
	vectorSecret = "test-secret-key"
	vectorToken  = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJ0ZXN0LWFjY2Vzcy1rZXkiLCJleHAiOjE3MDAwMDE4MDAsIm5iZiI6MTY5OTk5OTk5NX0.J29Lwx43sKb6uBJFXUNKg2nVYdfHfu4z9pbvmk9BFeQ"
)

var vectorTime = time.Unix(1700000000, 0)

func TestTokenVector(t *testing.T) {
	t.Parallel()
	if got := newToken(vectorAccess, vectorSecret, vectorTime); got != vectorToken {
		t.Errorf("token = %s\n     want %s", got, vectorToken)
	}
}

func signerAt(at *time.Time) *signer {
	s := NewJWT(vectorAccess, vectorSecret).(*signer)
	s.now = func() time.Time { return *at }
	return s
}

func authorization(t *testing.T, s *signer) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Authorize(req, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	return req.Header.Get("Authorization")
}

func TestTokenIsKeptAndRenewed(t *testing.T) {
	t.Parallel()
	at := vectorTime
	s := signerAt(&at)
	first := authorization(t, s)
	if first != "Bearer "+vectorToken {
		t.Fatalf("Authorization = %s", first)
	}
	for _, c := range []struct {
		after time.Duration
		same  bool
	}{
		{0, true},
		{25 * time.Minute, true},
		{-5 * time.Second, true},
		{25*time.Minute + time.Second, false},
		{-6 * time.Second, false},
		{30 * 24 * time.Hour, false},
	} {
		at = vectorTime
		s.dropToken()
		_ = authorization(t, s)
		at = vectorTime.Add(c.after)
		if got := authorization(t, s); (got == first) != c.same {
			t.Errorf("after %v: the same token: %v, want %v", c.after, got == first, c.same)
		}
	}
}

func TestDropToken(t *testing.T) {
	t.Parallel()
	at := vectorTime
	s := signerAt(&at)
	first := authorization(t, s)
	at = at.Add(time.Second)
	if authorization(t, s) != first {
		t.Error("the token was not kept")
	}
	s.dropToken()
	if authorization(t, s) == first {
		t.Error("the token was kept")
	}
}

func TestSignerIsConcurrent(t *testing.T) {
	t.Parallel()
	s := NewJWT(vectorAccess, vectorSecret).(*signer)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				_ = s.current()
				s.dropToken()
				_ = s.Secrets()
			}
		})
	}
	group.Wait()
}

func TestSignerKeepsItsSecrets(t *testing.T) {
	t.Parallel()
	at := vectorTime
	s := signerAt(&at)
	_ = authorization(t, s)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", s, s, s, s), fmt.Sprint(struct{ A any }{s})} {
		for _, secret := range s.Secrets() {
			if secret == "" || strings.Contains(text, secret) {
				t.Errorf("%q holds %q", text, secret)
			}
		}
	}
	if got := s.Secrets(); len(got) != 2 || got[0] != vectorSecret || got[1] != vectorToken {
		t.Errorf("Secrets = %q", got)
	}
}

func TestSignerWantsBothKeys(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"", ""}, {"a", ""}, {"", "s"}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.com", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := NewJWT(pair[0], pair[1]).Authorize(req, nil); err == nil || req.Header.Get("Authorization") != "" {
			t.Errorf("keys %q: %v", pair, err)
		}
	}
}
