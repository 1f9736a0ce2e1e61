package kling

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// forged returns a token with any header and claims, signed like the vendor's.
func forged(header, claims, secret string) string {
	signed := encoding.EncodeToString([]byte(header)) + "." + encoding.EncodeToString([]byte(claims))
	return signed + "." + encoding.EncodeToString(macOf(signed, secret))
}

const hs256 = `{"alg":"HS256","typ":"JWT"}`

func signedRequest(authorization string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/kling/v1/videos/text2video", nil)
	r.Header.Set("Authorization", authorization)
	return r
}

func TestSignature(t *testing.T) {
	t.Parallel()
	for name, authorization := range map[string]string{
		"vector":             "Bearer " + vectorToken,
		"scheme in any case": "bearer  " + vectorToken + " ",
		"without typ":        "Bearer " + forged(`{"alg":"HS256"}`, `{"iss":"test-access-key","exp":1700001800}`, vectorSecret),
		"more claims":        "Bearer " + forged(hs256, `{"x":[1],"exp":1700001800.5,"iss":"test-access-key","iat":1}`, vectorSecret),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ok := surface{}.Signature(signedRequest(authorization), nil)
			if !ok || s.AccessKey != vectorAccess {
				t.Fatalf("Signature = %+v, %v", s, ok)
			}
			if err := s.Verify(vectorSecret, vectorTime); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNoSignature(t *testing.T) {
	t.Parallel()
	part := strings.Split(vectorToken, ".")
	for name, authorization := range map[string]string{
		"nothing":           "",
		"scheme alone":      "Bearer ",
		"basic":             "Basic dTpw",
		"API key":           "Bearer sk-0123456789",
		"three parts":       "Bearer sk.live.0123456789",
		"four parts":        "Bearer " + vectorToken + ".x",
		"two parts":         "Bearer " + part[0] + "." + part[1],
		"alg none":          "Bearer " + forged(`{"alg":"none"}`, `{"iss":"a"}`, ""),
		"alg none, no mac":  "Bearer " + encoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + part[1] + ".",
		"alg HS512":         "Bearer " + forged(`{"alg":"HS512"}`, `{"iss":"a"}`, ""),
		"alg in lower case": "Bearer " + forged(`{"alg":"hs256"}`, `{"iss":"a"}`, ""),
		"alg twice":         "Bearer " + forged(`{"alg":"HS256","alg":"none"}`, `{"iss":"a"}`, ""),
		"header no object":  "Bearer " + forged(`"HS256"`, `{"iss":"a"}`, ""),
		"no issuer":         "Bearer " + forged(hs256, `{"exp":1700001800}`, ""),
		"issuer no text":    "Bearer " + forged(hs256, `{"iss":1}`, ""),
		"exp no number":     "Bearer " + forged(hs256, `{"iss":"a","exp":"1700001800"}`, ""),
		"claims no JSON":    "Bearer " + forged(hs256, `x`, ""),
		"claims not UTF-8":  "Bearer " + forged(hs256, "{\"iss\":\"\xff\"}", ""),
		"padded":            "Bearer " + vectorToken + "=",
		"too long":          "Bearer " + forged(hs256, `{"iss":"`+strings.Repeat("a", maxToken)+`"}`, ""),
	} {
		if s, ok := (surface{}).Signature(signedRequest(authorization), nil); ok {
			t.Errorf("%s: Signature = %+v", name, s)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	at := func(exp, nbf int64) string {
		return forged(hs256, fmt.Sprintf(`{"iss":"a","exp":%d,"nbf":%d}`, vectorTime.Unix()+exp, vectorTime.Unix()+nbf), vectorSecret)
	}
	part := strings.Split(vectorToken, ".")
	cases := map[string]struct {
		token, secret string
		want          error
	}{
		"good":                     {vectorToken, vectorSecret, nil},
		"other secret":             {vectorToken, "test-secret-kex", errBadSignature},
		"no secret":                {forged(hs256, `{"iss":"a","exp":1700001800}`, ""), "", errBadSignature},
		"claims changed":           {part[0] + "." + encoding.EncodeToString([]byte(`{"iss":"test-access-key","exp":1700001801}`)) + "." + part[2], vectorSecret, errBadSignature},
		"mac empty":                {part[0] + "." + part[1] + ".", vectorSecret, errBadSignature},
		"mac cut":                  {part[0] + "." + part[1] + "." + encoding.EncodeToString(macOf(part[0]+"."+part[1], vectorSecret)[:31]), vectorSecret, errBadSignature},
		"expired a minute ago":     {at(-60, -1800), vectorSecret, nil},
		"expired":                  {at(-61, -1800), vectorSecret, errTokenExpired},
		"without exp":              {forged(hs256, `{"iss":"a"}`, vectorSecret), vectorSecret, errTokenExpired},
		"valid in a minute":        {at(1800, 60), vectorSecret, nil},
		"valid later":              {at(1800, 61), vectorSecret, errTokenEarly},
		"valid for a day":          {at(86400, 0), vectorSecret, nil},
		"valid for more":           {at(86461, 0), vectorSecret, errTokenForever},
		"valid for ever":           {forged(hs256, `{"iss":"a","exp":1e300}`, vectorSecret), vectorSecret, errTokenForever},
		"wrong secret and expired": {at(-999, -1800), "x", errBadSignature},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ok := surface{}.Signature(signedRequest("Bearer "+c.token), nil)
			if !ok {
				t.Fatal("no signature")
			}
			if err := s.Verify(c.secret, vectorTime); !errors.Is(err, c.want) {
				t.Errorf("Verify = %v, want %v", err, c.want)
			}
		})
	}
}

// TestSignerAndVerifierAgree checks that the surface accepts the client's signature.
func TestSignerAndVerifierAgree(t *testing.T) {
	t.Parallel()
	now := time.Now()
	req := signedRequest("")
	if err := NewJWT("ключ \"1\"", "s").Authorize(req, nil); err != nil {
		t.Fatal(err)
	}
	s, ok := surface{}.Signature(req, nil)
	if !ok || s.AccessKey != "ключ \"1\"" || s.Verify("s", now) != nil || s.Verify("t", now) == nil {
		t.Errorf("Signature = %+v, %v", s, ok)
	}
}

// FuzzSignature checks that only tokens signed with the secret pass.
func FuzzSignature(f *testing.F) {
	f.Add("Bearer " + vectorToken)
	f.Add("Bearer " + forged(`{"alg":"none"}`, `{"iss":"a"}`, ""))
	f.Add("Bearer " + forged(hs256, `{"iss":"a","exp":1700001800,"nbf":-1e400}`, "other"))
	f.Add("bearer ..")
	f.Add("Bearer e30.e30.")
	f.Fuzz(func(t *testing.T, authorization string) {
		r := &http.Request{Header: http.Header{"Authorization": {authorization}}}
		s, ok := surface{}.Signature(r, nil)
		if !ok {
			return
		}
		if s.AccessKey == "" || s.Verify == nil {
			t.Errorf("Signature = %+v", s)
		}
		if err := s.Verify("a secret that the fuzzer cannot guess", vectorTime); err == nil {
			t.Errorf("%q passed", authorization)
		}
		if err := s.Verify("", vectorTime); err == nil {
			t.Errorf("%q passed without a secret", authorization)
		}
	})
}
