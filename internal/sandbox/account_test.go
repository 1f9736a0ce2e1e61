package sandbox

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestTheAccountOfASignature(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":               "",
		"Bearer sk-1":    "sk-1",
		"Bearer a.b.c":   "a.b.c", // not a token
		"Basic c2stMTo=": "Basic c2stMTo=",
		"Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJ0ZXN0LWFjY2Vzcy1rZXkiLCJleHAiOjE3MDAwMDE4MDAsIm5iZiI6MTY5OTk5OTk5NX0.J29Lwx43sKb6uBJFXUNKg2nVYdfHfu4z9pbvmk9BFeQ": "test-access-key",
		"HMAC-SHA256 Credential=AK/20260101/cn-north-1/cv/request, SignedHeaders=content-type;host;x-content-sha256;x-date, Signature=d2":                                         "AK",
	} {
		if got := credentialOf(header); got != want {
			t.Errorf("%q is of %q, want %q", header, got, want)
		}
	}
}

// FuzzAuthorization proves that only the configured key is accepted, and that no header makes the
// sandbox panic.
func FuzzAuthorization(f *testing.F) {
	for _, seed := range []string{
		"", "Bearer ", "Bearer a.b.c", "Bearer e30.e30.", "Bearer eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJhayIsImV4cCI6MWU5OX0.AA", "HMAC-SHA256 ",
		"HMAC-SHA256 Credential=ak/20260101/cn-north-1/cv/request, SignedHeaders=host;x-date, Signature=00", "HMAC-SHA256 Credential=//,SignedHeaders=;,Signature=0",
	} {
		f.Add(seed)
	}
	s := New(Options{Key: "sk-1"})
	kling := s.klingAuthorised(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/jimeng/?Action=x", http.NoBody)
		r.Header.Set("Authorization", header)
		w := httptest.NewRecorder()
		if kling(w, r); w.Code == http.StatusOK && header != "Bearer sk-1" {
			t.Errorf("Kling lets %q in", header)
		}
		if problem := s.jimengProblem(r); problem.code == "" && header != "Bearer sk-1" {
			t.Errorf("Jimeng lets %q in", header)
		}
		if account := accountOf(r); (account == "") != (credentialOf(header) == "") {
			t.Errorf("%q is account %q", header, account)
		}
	})
}
