package sandbox

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	signatureScheme = "HMAC-SHA256"
	signatureDate   = "20060102T150405Z"
	signatureScope  = "cn-north-1/cv/request" // region and service are fixed
	signatureSkew   = 15 * time.Minute
)

// signature is a Volcengine Authorization header.
type signature struct {
	accessKey string
	date      string   // such as 20260101
	scope     string   // after the date
	headers   []string // names, in lower case
	sum       string
}

// parseSignature reads a header and proves nothing.
func parseSignature(header string) (sig signature, ok bool) {
	scheme, rest, _ := strings.Cut(header, " ")
	if scheme != signatureScheme {
		return sig, false
	}
	fields := map[string]string{}
	for field := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	credential := strings.SplitN(fields["Credential"], "/", 3)
	if len(credential) != 3 || fields["SignedHeaders"] == "" || fields["Signature"] == "" {
		return sig, false
	}
	return signature{
		accessKey: credential[0], date: credential[1], scope: credential[2],
		headers: strings.Split(fields["SignedHeaders"], ";"), sum: fields["Signature"],
	}, credential[0] != ""
}

// volcProblem is an error of the vendor's front door; the zero value is none.
type volcProblem struct {
	status  int
	number  int
	code    string
	message string
}

// Problems of the front door.
var (
	noSignature    = volcProblem{http.StatusBadRequest, 100024, "InvalidAuthorization", "Invalid 'Authorization' header, Pls check your authorization header."}
	wrongKey       = volcProblem{http.StatusUnauthorized, 100009, "InvalidAccessKey", "The access key is not known."}
	wrongTime      = volcProblem{http.StatusForbidden, 100006, "InvalidTimestamp", "The signing time is not within 15 minutes of now."}
	wrongSignature = volcProblem{http.StatusForbidden, 100010, "SignatureDoesNotMatch", "The request signature does not match the one that was calculated."}
)

// verify checks the signature of a request whose body was read, with the secret
// keys of pairs.
func (sig signature) verify(r *http.Request, body []byte, pairs map[string]string, now time.Time) volcProblem {
	secret, known := pairs[sig.accessKey]
	if !known {
		return wrongKey
	}
	stamp := r.Header.Get("X-Date")
	at, err := time.Parse(signatureDate, stamp)
	if err != nil || at.Sub(now).Abs() > signatureSkew {
		return wrongTime
	}
	bodySum := hashOf(body)
	if sig.scope != signatureScope || !strings.HasPrefix(stamp, sig.date+"T") ||
		!slices.Contains(sig.headers, "host") || !slices.Contains(sig.headers, "x-date") ||
		cmp.Or(r.Header.Get("X-Content-Sha256"), bodySum) != bodySum {
		return wrongSignature
	}
	scope := sig.date + "/" + sig.scope
	text := strings.Join([]string{signatureScheme, stamp, scope, hashOf(sig.canonical(r, bodySum))}, "\n")
	key := []byte(secret)
	for step := range strings.SplitSeq(scope, "/") {
		key = macOf(key, step)
	}
	if !hmac.Equal([]byte(hex.EncodeToString(macOf(key, text))), []byte(sig.sum)) {
		return wrongSignature
	}
	return volcProblem{}
}

// canonical is the request as it was signed.
func (sig signature) canonical(r *http.Request, bodySum string) []byte {
	var b bytes.Buffer
	b.WriteString(r.Method + "\n" + cmp.Or(r.URL.EscapedPath(), "/") + "\n" + canonicalQuery(r.URL.Query()) + "\n")
	for _, name := range sig.headers {
		value := strings.Join(r.Header.Values(name), ",")
		if name == "host" {
			value = strings.TrimSuffix(strings.TrimSuffix(r.Host, ":80"), ":443")
		}
		b.WriteString(name + ":" + strings.TrimSpace(value) + "\n")
	}
	b.WriteString("\n" + strings.Join(sig.headers, ";") + "\n" + bodySum)
	return b.Bytes()
}

// canonicalQuery is sorted and escaped as RFC 3986 says: url.Values writes a space
// as "+".
func canonicalQuery(query url.Values) string {
	for _, values := range query {
		slices.Sort(values)
	}
	return strings.ReplaceAll(query.Encode(), "+", "%20")
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func macOf(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
