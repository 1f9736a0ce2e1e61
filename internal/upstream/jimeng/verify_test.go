package jimeng

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

const vectorURL = "http://genbus.example.com:8080/jimeng" + submitPath

func TestVerify(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(r *http.Request)
		raw    string
		secret string
		now    time.Time
		want   error // nil expects success, or any error if any is set
		any    bool
	}{
		"good":                {},
		"15 minutes late":     {now: testNow.Add(15 * time.Minute)},
		"15 minutes early":    {now: testNow.Add(-15 * time.Minute)},
		"too late":            {now: testNow.Add(15*time.Minute + time.Second), want: errSkew},
		"too early":           {now: testNow.Add(-15*time.Minute - time.Second), want: errSkew},
		"other secret":        {secret: "OTHER", want: errMismatch},
		"other body":          {raw: vectorBody + " ", want: errBody},
		"unsigned header":     {change: set("X-Other", "1")},
		"host changed":        {change: func(r *http.Request) { r.Host = "other.example.com" }, want: errMismatch},
		"method changed":      {change: func(r *http.Request) { r.Method = http.MethodPut }, want: errMismatch},
		"path changed":        {change: func(r *http.Request) { r.URL.Path = "/" }, want: errMismatch},
		"query changed":       {change: func(r *http.Request) { r.URL.RawQuery += "&x=1" }, want: errMismatch},
		"query reordered":     {change: func(r *http.Request) { r.URL.RawQuery = "Version=2022-08-31&Action=CVSync2AsyncSubmitTask" }},
		"query unreadable":    {change: func(r *http.Request) { r.URL.RawQuery += "&%zz" }, any: true},
		"type changed":        {change: set("Content-Type", "text/plain"), want: errMismatch},
		"type added to":       {change: func(r *http.Request) { r.Header.Add("Content-Type", "text/plain") }, want: errMismatch},
		"date changed":        {change: set("X-Date", "20260101T000001Z"), want: errMismatch},
		"date added to":       {change: func(r *http.Request) { r.Header.Add("X-Date", "20260101T000000Z") }, want: errDate},
		"date missing":        {change: func(r *http.Request) { r.Header.Del("X-Date") }, want: errDate},
		"date with a zone":    {change: set("X-Date", "20260101T000000+00"), want: errDate},
		"date of another day": {change: set("X-Date", "20251231T235959Z"), want: errDate},
		"hash changed":        {change: set("X-Content-Sha256", hash(nil)), want: errBody},
		"signature changed":   {change: replace("Signature=", "Signature=0"), want: errMismatch},
		"region changed":      {change: replace("cn-north-1", "cn-south-1"), want: errMismatch},
		"service changed":     {change: replace("/cv/", "/iam/"), want: errMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signed(t, vectorURL, vectorBody, testNow)
			if c.change != nil {
				c.change(r)
			}
			sig, ok := surface{}.Signature(r, []byte(or(c.raw, vectorBody)))
			if !ok || sig.AccessKey != "AK" {
				t.Fatalf("signature = %+v, %v", sig, ok)
			}
			now := c.now
			if now.IsZero() {
				now = testNow
			}
			err := sig.Verify(or(c.secret, "SECRET"), now)
			if c.any && err == nil || !c.any && !errors.Is(err, c.want) {
				t.Errorf("error = %v, want %v", err, c.want)
			}
			if err := sig.Verify("", now); err == nil {
				t.Error("the empty secret verified")
			}
		})
	}
}

func set(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func replace(old, with string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), old, with, 1))
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// TestVerifyOtherScope checks that a client may sign for any region and service, and with fewer
// headers.
func TestVerifyOtherScope(t *testing.T) {
	t.Parallel()
	r := signed(t, vectorURL, vectorBody, testNow)
	r.Header.Del(headerHash)
	sc := scope{day: "20260101", region: "anywhere", service: "genbus"}
	names := []string{"x-date", "host"} // in the client's order
	canonical, err := canonicalRequest(r, names, hash([]byte(vectorBody)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "HMAC-SHA256 Signature="+sc.signature("SECRET", "20260101T000000Z", canonical)+
		",SignedHeaders=x-date;host,Credential=AK/"+sc.String())
	sig, _ := surface{}.Signature(r, []byte(vectorBody))
	if err := sig.Verify("SECRET", testNow); err != nil {
		t.Error(err)
	}
	// The signature covers the body even without X-Content-Sha256.
	sig, _ = surface{}.Signature(r, []byte("{}"))
	if err := sig.Verify("SECRET", testNow); !errors.Is(err, errMismatch) {
		t.Errorf("error = %v, want a mismatch", err)
	}
}

func TestSignatureForms(t *testing.T) {
	t.Parallel()
	const sign = ", Signature=00"
	for header, want := range map[string]error{
		"HMAC-SHA256": errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request":                                                errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s, SignedHeaders=host;x-date" + sign:                      errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request/x, SignedHeaders=host;x-date" + sign:            errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/aws4_request, SignedHeaders=host;x-date" + sign:         errMalformed,
		"HMAC-SHA256 Credential=/20260101/r/s/request, SignedHeaders=host;x-date" + sign:                errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=" + sign:                         errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=host;host;x-date" + sign:         errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=Host;X-Date" + sign:              errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=host;x-date, Signature=":         errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=host;x-date, X=1":                errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=host;x-date, X=1" + sign:         errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=host;x-date" + sign + sign:       errMalformed,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=host" + sign:                     errUnsigned,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=content-type;x-date" + sign:      errUnsigned,
		"HMAC-SHA256 Credential=AK/20260102/r/s/request, SignedHeaders=host;x-date" + sign:              errDate,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=host;x-date" + sign:              errMismatch,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request,SignedHeaders=host;x-date;x-none,Signature=00":  errMismatch,
		"HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=host;x-date, Signature=\xff\x00": errMismatch,
	} {
		r := signed(t, vectorURL, vectorBody, testNow)
		r.Header.Set("Authorization", header)
		sig, ok := surface{}.Signature(r, []byte(vectorBody))
		if !ok {
			t.Errorf("%s: no signature", header)
			continue
		}
		if err := sig.Verify("SECRET", testNow); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", header, err, want)
		}
	}
	for _, header := range []string{"", "Bearer sk-1", "Bearer HMAC-SHA256 x", "Basic YTpi"} {
		r := signed(t, vectorURL, vectorBody, testNow)
		r.Header.Set("Authorization", header)
		if sig, ok := (surface{}).Signature(r, nil); ok {
			t.Errorf("%q is a signature: %+v", header, sig)
		}
	}
}

// FuzzSignature checks that no header, date, query or host makes Verify panic, and that nothing
// verifies without a signature.
func FuzzSignature(f *testing.F) {
	good := signed(f, vectorURL, vectorBody, testNow)
	f.Add(good.Header.Get("Authorization"), "20260101T000000Z", good.URL.RawQuery, good.Host, vectorBody)
	f.Add("HMAC-SHA256 Credential=AK/20260101/r/s/request, SignedHeaders=host;x-date, Signature=00", "20260101T000000Z", "a=%zz", "", "")
	f.Add("HMAC-SHA256 =,=,=", "", "", "", "{}")
	f.Fuzz(func(t *testing.T, header, date, query, host, body string) {
		r := good.Clone(t.Context())
		r.Header["Authorization"] = []string{header}
		r.Header["X-Date"] = []string{date}
		r.URL.RawQuery, r.Host = query, host
		sig, ok := surface{}.Signature(r, []byte(body))
		if !ok {
			return
		}
		if sig.Verify("SECRET", testNow) == nil && !strings.Contains(header, "Signature=") {
			t.Errorf("verified %q", header)
		}
		if sig.Verify("another secret", testNow) == nil {
			t.Errorf("%q verified with another secret", header)
		}
	})
}
