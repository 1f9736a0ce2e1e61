package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// Fingerprint is how Stats name a bearer key or an access key: the first twelve
// digits of its SHA-256.
func Fingerprint(credential string) string {
	sum := sha256.Sum256([]byte(credential))
	return hex.EncodeToString(sum[:6])
}

// accountOf is the fingerprint of the caller, authenticated or not; empty without credentials.
func accountOf(r *http.Request) string {
	credential := credentialOf(r.Header.Get("Authorization"))
	if credential == "" {
		return ""
	}
	return Fingerprint(credential)
}

// credentialOf is what stays the same in all requests of one account: the access
// key of a signature or of a token, or the bearer key itself.
func credentialOf(header string) string {
	if token, ok := strings.CutPrefix(header, bearer); ok {
		if t, ok := parseToken(token); ok {
			return t.Issuer
		}
		return token
	}
	if sig, ok := parseSignature(header); ok {
		return sig.accessKey
	}
	return header
}
