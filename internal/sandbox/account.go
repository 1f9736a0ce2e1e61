package sandbox

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
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
		if accessKey, ok := issuerOf(token); ok {
			return accessKey
		}
		return token
	}
	if accessKey, ok := signerOf(header); ok {
		return accessKey
	}
	return header
}

const bearer = "Bearer "

// signerOf is the access key of a Volcengine Authorization header, which proves nothing.
func signerOf(header string) (accessKey string, ok bool) {
	scheme, rest, _ := strings.Cut(header, " ")
	if scheme != "HMAC-SHA256" {
		return "", false
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	credential := strings.SplitN(fields["Credential"], "/", 3)
	if len(credential) != 3 || fields["SignedHeaders"] == "" || fields["Signature"] == "" {
		return "", false
	}
	return credential[0], credential[0] != ""
}

// issuerOf is the access key of a JSON Web Token as Kling wants it, HS256 with an issuer and
// an end. It proves nothing.
func issuerOf(token string) (accessKey string, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", false
	}
	var header struct {
		Alg string `json:"alg"`
	}
	var claims struct {
		Issuer  string   `json:"iss"`
		Expires *float64 `json:"exp"`
	}
	if !decodePart(parts[0], &header) || header.Alg != "HS256" || !decodePart(parts[1], &claims) {
		return "", false
	}
	_, err := base64.RawURLEncoding.DecodeString(parts[2])
	return claims.Issuer, err == nil && claims.Issuer != "" && claims.Expires != nil
}

func decodePart(part string, into any) bool {
	raw, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(raw, into) == nil
}
