package sandbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

const bearer = "Bearer "

// token is a JSON Web Token as Kling wants it: HS256 over these claims.
type token struct {
	Issuer    string   `json:"iss"` // the access key
	Expires   *float64 `json:"exp"`
	NotBefore *float64 `json:"nbf"`

	signed []byte // what the signature is of
	sum    []byte
}

// parseToken reads a token and proves nothing.
func parseToken(text string) (t token, ok bool) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return t, false
	}
	var header struct {
		Alg string `json:"alg"`
	}
	if !decodePart(parts[0], &header) || header.Alg != "HS256" || !decodePart(parts[1], &t) {
		return t, false
	}
	sum, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || t.Issuer == "" || t.Expires == nil {
		return t, false
	}
	t.signed, t.sum = []byte(parts[0]+"."+parts[1]), sum
	return t, true
}

func decodePart(part string, into any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(raw, into) == nil
}

// signedWith says whether the signature is of this secret key.
func (t token) signedWith(secret string) bool {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(t.signed)
	return hmac.Equal(mac.Sum(nil), t.sum)
}

// klingAuthorised lets a token of one of Options.Pairs pass, and Options.Key.
func (s *Sandbox) klingAuthorised(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if code, message := s.klingProblem(r.Header.Get("Authorization"), time.Now()); code != "" {
			refuseKling(w, http.StatusUnauthorized, code, message)
			return
		}
		next(w, r)
	}
}

// klingProblem is what the vendor has against an Authorization header; no code is
// none.
func (s *Sandbox) klingProblem(header string, now time.Time) (code, message string) {
	text, isBearer := strings.CutPrefix(header, bearer)
	t, isToken := parseToken(text)
	switch {
	case s.opts.Key == "" && len(s.opts.Pairs) == 0, isBearer && s.opts.Key != "" && text == s.opts.Key:
		return "", ""
	case header == "":
		return "1001", "Authorization is empty"
	case !isBearer || !isToken:
		return "1002", "Authorization is invalid"
	}
	secret, known := s.opts.Pairs[t.Issuer]
	unix := float64(now.UnixMilli()) / 1000
	switch {
	case !known || !t.signedWith(secret):
		return "1000", "authentication failed"
	case t.NotBefore != nil && *t.NotBefore > unix:
		return "1003", "Authorization is not yet valid"
	case *t.Expires <= unix:
		return "1004", "Authorization has expired"
	default:
		return "", ""
	}
}
