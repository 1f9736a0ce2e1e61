package sandbox

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
)

// Fingerprint returns the first twelve hex digits of the SHA-256 of a bearer key or access key.
// Stats identifies credentials by it.
func Fingerprint(credential string) string {
	sum := sha256.Sum256([]byte(credential))
	return hex.EncodeToString(sum[:6])
}

// accountOf returns the fingerprint of the caller's credential, or "" if the request has none. It
// does not verify the credential.
func accountOf(r *http.Request) string {
	credential := credentialOf(r.Header.Get("Authorization"))
	if credential == "" {
		return ""
	}
	return Fingerprint(credential)
}

// credentialOf returns the part of an Authorization header that identifies the account: the access
// key of a signature or token, or the bearer key.
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

// signerOf returns the access key in a Volcengine Authorization header. It does not verify the
// signature.
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

// issuerOf returns the access key in a Kling token, which is an HS256 JSON Web Token with an issuer
// and an expiry. It does not verify the signature.
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
