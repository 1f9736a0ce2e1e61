package kling

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// Times of a token, from the vendor's documentation.
const (
	tokenLife    = 30 * time.Minute
	tokenBackset = 5 * time.Second // in case the vendor's clock is slow
	tokenSpare   = 5 * time.Minute // a token with less time left is renewed
)

var encoding = base64.RawURLEncoding.Strict()

// tokenHeader is the first part of every token, with members in the order of the vendor's samples.
var tokenHeader = encoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))

// signer adds a token to requests. It reuses the token until shortly before it expires.
type signer struct {
	accessKey string
	secretKey upstream.Secret
	now       func() time.Time

	mu    sync.Mutex
	token upstream.Secret
	// from and until bound the validity of token.
	from, until time.Time
}

// NewJWT returns an Authorizer that sends a bearer token (JWT, HS256). The token contains the
// access key and is signed with the bytes of the secret key. It is reused for 25 minutes. Requests
// fail if either key is empty.
func NewJWT(accessKey, secretKey string) upstream.Authorizer {
	return &signer{accessKey: accessKey, secretKey: upstream.Secret(secretKey), now: time.Now}
}

// Authorize sets the Authorization header.
func (s *signer) Authorize(req *http.Request, _ []byte) error {
	if s.accessKey == "" || s.secretKey == "" {
		return errors.New("the access key or the secret key is missing; set both")
	}
	req.Header.Set("Authorization", "Bearer "+string(s.current()))
	return nil
}

// Secrets returns the secret key and the current token, which servers may echo.
func (s *signer) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []string{string(s.secretKey), string(s.token)}
}

// Format never prints a key, whatever the verb.
func (s *signer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "kling signer") }

// current returns a token that is valid for at least five minutes. It also renews the token if the
// clock was set back, because the old token would not be valid yet.
func (s *signer) current() upstream.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.token == "" || now.Before(s.from) || s.until.Sub(now) < tokenSpare {
		s.from, s.until = now.Add(-tokenBackset), now.Add(tokenLife)
		s.token = upstream.Secret(newToken(s.accessKey, string(s.secretKey), now))
	}
	return s.token
}

// dropToken drops the token, so that the next request uses a new one.
func (s *signer) dropToken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
}

// newToken returns a new token, with claims in the order of the vendor's samples.
func newToken(accessKey, secretKey string, now time.Time) string {
	var claims body.Object
	claims.SetText("iss", accessKey)
	claims.SetInt("exp", now.Add(tokenLife).Unix())
	claims.SetInt("nbf", now.Add(-tokenBackset).Unix())
	signed := tokenHeader + "." + encoding.EncodeToString(claims.JSON())
	return signed + "." + encoding.EncodeToString(macOf(signed, secretKey))
}

func macOf(signed, secretKey string) []byte {
	mac := hmac.New(sha256.New, []byte(secretKey))
	_, _ = io.WriteString(mac, signed) // a hash never fails
	return mac.Sum(nil)
}
