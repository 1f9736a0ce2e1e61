package sandbox

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// signedRequest is the vector that was computed by the vendor's description.
func signedRequest(t *testing.T, sum string) (*http.Request, []byte) {
	t.Helper()
	const body = `{"req_key":"jimeng_t2v_v30","prompt":"a cat"}`
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"https://visual.volcengineapi.com/?Version=2022-08-31&Action=CVSync2AsyncSubmitTask", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Date", "20260101T000000Z")
	r.Header.Set("X-Content-Sha256", hashOf([]byte(body)))
	r.Header.Set("Authorization", "HMAC-SHA256 Credential=AK/20260101/cn-north-1/cv/request, SignedHeaders=content-type;host;x-content-sha256;x-date, Signature="+sum)
	return r, []byte(body)
}

func TestSignatureVector(t *testing.T) {
	t.Parallel()
	const sum = "d244c0851610c75567409857930547869d26df7e16bc0650c7d1b77147e57cf1"
	r, body := signedRequest(t, sum)
	sig, ok := parseSignature(r.Header.Get("Authorization"))
	if !ok || sig.accessKey != "AK" || len(sig.headers) != 4 {
		t.Fatalf("read %+v, %v", sig, ok)
	}
	if got := hashOf(sig.canonical(r, hashOf(body))); got != "e5921bc3b29fc4b25389a57a52026199b865552fdbed8e60519998ed3f67b302" {
		t.Errorf("canonical request %s", got)
	}
	pairs := map[string]string{"AK": "SECRET"}
	now := time.Date(2026, 1, 1, 0, 14, 0, 0, time.UTC)
	if problem := sig.verify(r, body, pairs, now); problem.code != "" {
		t.Errorf("the vector: %+v", problem)
	}
	for name, spoil := range map[string]func(){
		"another port":     func() { r.Host = "visual.volcengineapi.com:8443" },
		"header without":   func() { sig.headers = []string{"x-date"} },
		"another region":   func() { sig.scope = "cn-beijing/cv/request" },
		"another date":     func() { sig.date = "20260102" },
		"sum of something": func() { r.Header.Set("X-Content-Sha256", sum) },
	} {
		r, body = signedRequest(t, sum)
		sig, _ = parseSignature(r.Header.Get("Authorization"))
		spoil()
		if problem := sig.verify(r, body, pairs, now); problem != wrongSignature {
			t.Errorf("%s: %+v, want SignatureDoesNotMatch", name, problem)
		}
	}
	r, body = signedRequest(t, sum)
	sig, _ = parseSignature(r.Header.Get("Authorization"))
	r.Host += ":443"
	if problem := sig.verify(r, body, pairs, now); problem.code != "" {
		t.Errorf("with the usual port: %+v", problem)
	}
}

func TestTokenVector(t *testing.T) {
	t.Parallel()
	const text = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJ0ZXN0LWFjY2Vzcy1rZXkiLCJleHAiOjE3MDAwMDE4MDAsIm5iZiI6MTY5OTk5OTk5NX0.J29Lwx43sKb6uBJFXUNKg2nVYdfHfu4z9pbvmk9BFeQ"
	s := New(Options{Pairs: map[string]string{"test-access-key": "test-secret-key"}})
	for at, want := range map[int64]string{1_699_999_994: "1003", 1_699_999_995: "", 1_700_001_799: "", 1_700_001_800: "1004"} {
		if code, message := s.klingProblem(bearer+text, time.Unix(at, 0)); code != want {
			t.Errorf("at %d: %q (%s), want %q", at, code, message, want)
		}
	}
	if got := credentialOf(bearer + text); got != "test-access-key" {
		t.Errorf("credential %q, want the access key", got)
	}
}

// FuzzAuthorization checks that no header is let in without a key, and that none
// brings the sandbox down.
func FuzzAuthorization(f *testing.F) {
	for _, seed := range []string{
		"", "Bearer ", "Bearer a.b.c", "Bearer e30.e30.", "Bearer eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJhayIsImV4cCI6MWU5OX0.AA", "HMAC-SHA256 ",
		"HMAC-SHA256 Credential=ak/20260101/cn-north-1/cv/request, SignedHeaders=host;x-date, Signature=00", "HMAC-SHA256 Credential=//,SignedHeaders=;,Signature=0",
	} {
		f.Add(seed, "20260101T000000Z")
	}
	s := New(Options{Key: "sk-1", Pairs: map[string]string{"ak": "a secret that nobody guesses"}})
	f.Fuzz(func(t *testing.T, header, date string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/jimeng/?Action=x", http.NoBody)
		r.Header.Set("X-Date", date)
		r.Header.Set("Authorization", header)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		if code, _ := s.klingProblem(header, now); code == "" && header != "Bearer sk-1" {
			t.Errorf("Kling lets %q in", header)
		}
		if problem := s.jimengProblem(r, nil, now); problem.code == "" && header != "Bearer sk-1" {
			t.Errorf("Jimeng lets %q in", header)
		}
		if account := accountOf(r); (account == "") != (credentialOf(header) == "") {
			t.Errorf("%q is account %q", header, account)
		}
	})
}
