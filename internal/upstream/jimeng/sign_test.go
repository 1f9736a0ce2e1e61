package jimeng

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// The test vector: a create signed at midnight on 1 January 2026.
const (
	vectorBody = `{"req_key":"jimeng_t2v_v30","prompt":"a cat"}`
	vectorHash = "e5921bc3b29fc4b25389a57a52026199b865552fdbed8e60519998ed3f67b302" // of the canonical request
	vectorSig  = "d244c0851610c75567409857930547869d26df7e16bc0650c7d1b77147e57cf1"
)

func signerAt(at time.Time) *signer {
	s := NewSigner("AK", "SECRET").(*signer)
	s.now = func() time.Time { return at }
	return s
}

func signed(t testing.TB, target, body string, at time.Time) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if err := signerAt(at).Authorize(req, []byte(body)); err != nil {
		t.Fatal(err)
	}
	return req
}

func TestVector(t *testing.T) {
	t.Parallel()
	// Local time, to show that the date is always UTC.
	at := testNow.In(time.FixedZone("CST", 8*3600))
	req := signed(t, "https://visual.volcengineapi.com"+submitPath, vectorBody, at)
	canonical, err := canonicalRequest(req, []string{"content-type", "host", "x-content-sha256", "x-date"}, hash([]byte(vectorBody)))
	if err != nil || hash([]byte(canonical)) != vectorHash {
		t.Errorf("canonical request, %v:\n%s", err, canonical)
	}
	want := "HMAC-SHA256 Credential=AK/20260101/cn-north-1/cv/request, " +
		"SignedHeaders=content-type;host;x-content-sha256;x-date, Signature=" + vectorSig
	if got := req.Header.Get("Authorization"); got != want {
		t.Errorf("Authorization = %s", got)
	}
	if got := req.Header.Get("X-Date"); got != "20260101T000000Z" {
		t.Errorf("X-Date = %s", got)
	}
}

func TestCanonicalRequest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		url, host string
		want      string // method, path, query and host
	}{
		"no path":         {"https://h.example.com?b=2&a=1", "", "POST\n/\na=1&b=2\nhost:h.example.com\n"},
		"escapes":         {"https://h.example.com/a%2Fb/c?x=a+b%20c&y=%7E-._*", "", "POST\n/a%2Fb/c\nx=a%20b%20c&y=~-._%2A\nhost:h.example.com\n"},
		"default port":    {"https://h.example.com:443/", "", "POST\n/\n\nhost:h.example.com\n"},
		"default http":    {"http://h.example.com:80/", "", "POST\n/\n\nhost:h.example.com\n"},
		"other port":      {"http://h.example.com:8080/", "", "POST\n/\n\nhost:h.example.com:8080\n"},
		"ends like one":   {"http://h.example.com:1443/", "", "POST\n/\n\nhost:h.example.com:1443\n"},
		"Host header":     {"http://127.0.0.1:1/", "h.example.com", "POST\n/\n\nhost:h.example.com\n"},
		"empty parameter": {"http://h.example.com/?b&a=", "", "POST\n/\na=&b=\nhost:h.example.com\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.host != "" {
				req.Host = c.host
			}
			got, err := canonicalRequest(req, []string{"host"}, "HASH")
			if want := c.want + "\nhost\nHASH"; err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	req := &http.Request{Method: http.MethodPost, URL: httptest.NewRequest(http.MethodPost, "/?a=%zz", nil).URL}
	if _, err := canonicalRequest(req, []string{"host"}, ""); err == nil {
		t.Error("a query that cannot be read was signed")
	}
}

// TestSignedOverTheWire checks that a server can verify a signed request with a path prefix and a
// port.
func TestSignedOverTheWire(t *testing.T) {
	t.Parallel()
	client := serve(t, upstream.Options{}, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		sig, ok := surface{}.Signature(r, raw)
		if !ok || sig.AccessKey != "AK" {
			t.Errorf("signature = %+v, %v", sig, ok)
		} else if err := sig.Verify("SECRET", testNow); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"code":10000,"data":{"task_id":"t","status":"in_queue"}}`)
	})
	client.ep.BaseURL += "/jimeng"
	client.ep.Auth = signerAt(testNow)
	if sub := client.Create(t.Context(), testCreate); sub.Verdict != upstream.Accepted {
		t.Errorf("submission = %+v", sub)
	}
	if _, err := client.Poll(t.Context(), testRef); err != nil {
		t.Error(err)
	}
}

// TestSignWithoutBody checks the signature of a request without a body and content type.
func TestSignWithoutBody(t *testing.T) {
	t.Parallel()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://h.example.com/v1/models", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := signerAt(testNow).Authorize(req, nil); err != nil {
		t.Fatal(err)
	}
	if got := req.Header.Get("Authorization"); !strings.Contains(got, "SignedHeaders=host;x-content-sha256;x-date,") {
		t.Errorf("Authorization = %s", got)
	}
	sig, _ := surface{}.Signature(req, nil)
	if err := sig.Verify("SECRET", testNow); err != nil {
		t.Error(err)
	}
}

func TestSecretsAreCleaned(t *testing.T) {
	t.Parallel()
	client := serve(t, upstream.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"message":"you signed with SECRET-0123456789"}`)
	})
	client.ep.Auth = NewSigner("AK", "SECRET-0123456789")
	if e := client.Create(t.Context(), testCreate).Err; e == nil || strings.Contains(e.Message, "SECRET") {
		t.Errorf("error = %+v", e)
	}
}
