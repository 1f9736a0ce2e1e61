package jimeng

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Constants of the vendor's signature scheme, and the scope of this API.
const (
	algorithm  = "HMAC-SHA256"
	terminator = "request"
	region     = "cn-north-1"
	service    = "cv"

	dayLayout  = "20060102"
	timeLayout = "20060102T150405Z" // X-Date, always UTC

	headerDate = "X-Date"
	headerHash = "X-Content-Sha256"
)

// scope limits a signature to a day, region and service.
type scope struct{ day, region, service string }

func (s scope) String() string { return s.day + "/" + s.region + "/" + s.service + "/" + terminator }

// key derives the signing key. The secret is used verbatim: it gets no prefix and is not decoded,
// although it looks like Base64.
func (s scope) key(secret string) []byte {
	key := []byte(secret)
	for _, part := range []string{s.day, s.region, s.service, terminator} {
		key = keyed(key, part)
	}
	return key
}

// signature returns the signature of a canonical request in hexadecimal. date is the request's
// X-Date.
func (s scope) signature(secret, date, canonical string) string {
	toSign := algorithm + "\n" + date + "\n" + s.String() + "\n" + hash([]byte(canonical))
	return hex.EncodeToString(keyed(s.key(secret), toSign))
}

func keyed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// canonicalRequest returns the canonical form of a request. The signature covers its hash. names
// lists the signed headers in lower case, in the order of SignedHeaders.
func canonicalRequest(r *http.Request, names []string, bodyHash string) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", errors.New("invalid query string")
	}
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	var b strings.Builder
	b.WriteString(r.Method + "\n" + path + "\n")
	// Encode sorts by name and escapes as in RFC 3986, except for spaces.
	b.WriteString(strings.ReplaceAll(query.Encode(), "+", "%20") + "\n")
	for _, name := range names {
		b.WriteString(name + ":" + headerValue(r, name) + "\n")
	}
	b.WriteString("\n" + strings.Join(names, ";") + "\n" + bodyHash)
	return b.String(), nil
}

// headerValue returns all values of a header joined by commas, so that an added value invalidates
// the signature.
func headerValue(r *http.Request, name string) string {
	if name == "host" {
		return signedHost(r)
	}
	values := r.Header.Values(name)
	trimmed := make([]string, 0, len(values))
	for _, v := range values {
		trimmed = append(trimmed, strings.TrimSpace(v))
	}
	return strings.Join(trimmed, ",")
}

// signedHost returns the host without a default port, as the vendor's clients sign it.
func signedHost(r *http.Request) string {
	host := r.Host
	if host == "" && r.URL != nil {
		host = r.URL.Host
	}
	return strings.TrimSuffix(strings.TrimSuffix(host, ":80"), ":443")
}
