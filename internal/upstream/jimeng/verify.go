package jimeng

import (
	"crypto/hmac"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// maxSkew is the tolerated difference between a request's date and now.
const maxSkew = 15 * time.Minute

// Errors that reject a signature. None reveals the correct signature.
var (
	errMalformed = errors.New("the Authorization header is not \"HMAC-SHA256 Credential=<access key>/<date>/<region>/<service>/request, " +
		"SignedHeaders=<names>, Signature=<hex>\"")
	errUnsigned = errors.New("the signature must cover at least the headers host and x-date")
	errDate     = errors.New("X-Date must be a time such as 20260102T150405Z, on the day in the credential")
	errSkew     = errors.New("X-Date is more than 15 minutes away from now; set the clock")
	errBody     = errors.New("X-Content-Sha256 is not the hash of the body")
	errMismatch = errors.New("the signature does not match; check the secret key, and that the host, path and query " +
		"that were signed are the ones that were called")
)

type authorization struct {
	accessKey string
	scope     scope
	names     []string
	signature string
}

// parseAuthorization parses "HMAC-SHA256 Credential=..., SignedHeaders=..., Signature=...". Each
// part must appear once, in any order. After an error the result holds the parts read so far.
func parseAuthorization(header string) (authorization, error) {
	var a authorization
	rest, ok := strings.CutPrefix(header, algorithm+" ")
	if !ok {
		return a, errMalformed
	}
	parts := make(map[string]string)
	for part := range strings.SplitSeq(rest, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if _, twice := parts[name]; !ok || twice {
			return a, errMalformed
		}
		parts[name] = value
	}
	credential := strings.Split(parts["Credential"], "/")
	if len(credential) != 5 || credential[4] != terminator || slices.Contains(credential, "") || len(parts) != 3 {
		return a, errMalformed
	}
	a.accessKey = credential[0]
	a.scope = scope{day: credential[1], region: credential[2], service: credential[3]}
	a.names, a.signature = strings.Split(parts["SignedHeaders"], ";"), parts["Signature"]
	if a.signature == "" || !distinct(a.names) {
		return a, errMalformed
	}
	if !slices.Contains(a.names, "host") || !slices.Contains(a.names, "x-date") {
		return a, errUnsigned
	}
	return a, nil
}

// distinct reports whether the names are lower case and unique.
func distinct(names []string) bool {
	seen := make(map[string]bool, len(names)) // a map, because unauthenticated callers choose the number of names
	for _, name := range names {
		if name == "" || name != strings.ToLower(name) || seen[name] {
			return false
		}
		seen[name] = true
	}
	return true
}

// Signature reads the vendor's signature. A malformed one still counts as a signature, but never
// verifies.
func (surface) Signature(r *http.Request, raw []byte) (upstream.Signature, bool) {
	header := r.Header.Get("Authorization")
	if !strings.HasPrefix(header, algorithm) {
		return upstream.Signature{}, false
	}
	a, err := parseAuthorization(header)
	return upstream.Signature{
		AccessKey:  a.accessKey,
		CoversBody: true,
		Verify: func(secret string, now time.Time) error {
			if err != nil {
				return err
			}
			return a.verify(r, raw, secret, now)
		},
	}, true
}

// verify recomputes the signature of the received request and compares it with the one in the
// header. It accepts any region and service, because this server is not the vendor's.
func (a authorization) verify(r *http.Request, raw []byte, secret string, now time.Time) error {
	date := headerValue(r, headerDate)
	at, err := time.Parse(timeLayout, date)
	if err != nil || at.Format(timeLayout) != date || at.Format(dayLayout) != a.scope.day {
		return errDate
	}
	if skew := now.Sub(at); skew > maxSkew || skew < -maxSkew {
		return errSkew
	}
	bodyHash := hash(raw)
	if slices.Contains(a.names, "x-content-sha256") && !strings.EqualFold(headerValue(r, headerHash), bodyHash) {
		return errBody
	}
	canonical, err := canonicalRequest(r, a.names, bodyHash)
	if err != nil {
		return err
	}
	want := a.scope.signature(secret, date, canonical)
	if secret == "" || !hmac.Equal([]byte(want), []byte(a.signature)) {
		return errMismatch
	}
	return nil
}
