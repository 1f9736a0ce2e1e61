package kling

import (
	"crypto/hmac"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/genbus/genbus/internal/upstream"
)

// Limits on tokens from clients.
const (
	maxToken     = 8 << 10        // bytes
	maxTokenLife = 24 * time.Hour // from now; a longer-lived token amounts to a permanent key
	clockSkew    = time.Minute
)

// tokenError holds the reason a token is refused, and the vendor's code for that reason.
type tokenError struct {
	code   int
	reason string
}

func (e *tokenError) Error() string { return e.reason }

var (
	errBadSignature = &tokenError{1002, "the token is not signed with the secret key of its access key"}
	errTokenEarly   = &tokenError{1003, "the token is not valid yet; set the clock of the machine that signs"}
	errTokenExpired = &tokenError{1004, "the token has expired, or has no exp; sign a new one"}
	errTokenForever = &tokenError{1002, "the token is valid for more than a day; set exp to half an hour from now"}
)

// token is a parsed but unverified token.
type token struct {
	// signed holds the first two parts as received.
	signed string
	mac    []byte
	claims claims
}

type claims struct {
	Issuer    string   `json:"iss"`
	Expires   *float64 `json:"exp"`
	NotBefore *float64 `json:"nbf"`
}

// Signature reads the token in the Authorization header. The bool is false for a bearer key that is
// not a token, and for a token without an issuer or with an algorithm other than HS256.
func (surface) Signature(r *http.Request, _ []byte) (upstream.Signature, bool) {
	t, ok := readToken(r.Header.Get("Authorization"))
	if !ok {
		return upstream.Signature{}, false
	}
	return upstream.Signature{AccessKey: t.claims.Issuer, Verify: t.verify}, true
}

func readToken(authorization string) (token, bool) {
	const scheme = "Bearer "
	if len(authorization) < len(scheme) || len(authorization) > maxToken || !strings.EqualFold(authorization[:len(scheme)], scheme) {
		return token{}, false
	}
	parts := strings.Split(strings.TrimSpace(authorization[len(scheme):]), ".")
	if len(parts) != 3 {
		return token{}, false
	}
	var header struct {
		Algorithm string `json:"alg"`
	}
	t := token{signed: parts[0] + "." + parts[1]}
	if !decodePart(parts[0], &header) || header.Algorithm != "HS256" || !decodePart(parts[1], &t.claims) || t.claims.Issuer == "" {
		return token{}, false
	}
	mac, err := encoding.DecodeString(parts[2])
	t.mac = mac
	return t, err == nil
}

// decodePart decodes a part of a token, which is a JSON object. Unknown members are ignored.
func decodePart(part string, v any) bool {
	text, err := encoding.DecodeString(part)
	return err == nil && json.Unmarshal(text, v) == nil
}

// verify checks the signature and the times, allowing the client's clock to be off by a minute. The
// error is a *tokenError.
func (t token) verify(secretKey string, now time.Time) error {
	if secretKey == "" || !hmac.Equal(t.mac, macOf(t.signed, secretKey)) {
		return errBadSignature
	}
	seconds := func(at time.Time) float64 { return float64(at.Unix()) }
	switch c := t.claims; {
	case c.Expires == nil || *c.Expires < seconds(now.Add(-clockSkew)):
		return errTokenExpired
	case *c.Expires > seconds(now.Add(maxTokenLife+clockSkew)):
		return errTokenForever
	case c.NotBefore != nil && *c.NotBefore > seconds(now.Add(clockSkew)):
		return errTokenEarly
	}
	return nil
}
