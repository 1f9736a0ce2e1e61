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

// The times of a token, as the vendor's documentation has them.
const (
	tokenLife    = 30 * time.Minute
	tokenBackset = 5 * time.Second // for the vendor's clock being behind
	tokenSpare   = 5 * time.Minute // a token with less left is renewed
)

// encoding is that of each part of a token.
var encoding = base64.RawURLEncoding.Strict()

// tokenHeader is the first part of every token that genbus makes; the vendor's
// samples have its members in this order.
var tokenHeader = encoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))

// signer puts a token into requests, and keeps it until it is about to expire.
type signer struct {
	accessKey string
	secretKey upstream.Secret
	now       func() time.Time

	mu    sync.Mutex
	token upstream.Secret
	// from and until are when token is fit for use.
	from, until time.Time
}

// NewJWT gives the vendor's way to sign: a bearer token (JWT, HS256) that names
// the access key and is signed with the bytes of the secret key. A token is used
// for 25 minutes. Requests fail when one of the keys is empty.
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

// Secrets are the secret key and the token in use, which servers may echo.
func (s *signer) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []string{string(s.secretKey), string(s.token)}
}

// Format writes no key, whatever the verb.
func (s *signer) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "kling signer") }

// current gives a token that is good for five minutes at least. A clock that was
// set back makes a new one too, as the old one would not be valid yet.
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

// forget drops the token, so that the next request has a new one.
func (s *signer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
}

// newToken makes a token. The claims are in the order of the vendor's samples.
func newToken(accessKey, secretKey string, now time.Time) string {
	var claims body.Object
	claims.SetText("iss", accessKey)
	claims.SetInt("exp", now.Add(tokenLife).Unix())
	claims.SetInt("nbf", now.Add(-tokenBackset).Unix())
	signed := tokenHeader + "." + encoding.EncodeToString(claims.JSON())
	return signed + "." + encoding.EncodeToString(macOf(signed, secretKey))
}

// macOf gives the HS256 signature of the first two parts of a token.
func macOf(signed, secretKey string) []byte {
	mac := hmac.New(sha256.New, []byte(secretKey))
	_, _ = io.WriteString(mac, signed) // a hash takes everything
	return mac.Sum(nil)
}
