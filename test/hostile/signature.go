package hostile

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"strings"
	"time"
)

// Signature returns the header lines of a vendor signature that is either broken or correct but
// with absurd content.
func Signature(s *Source, t Target) []string {
	if s.Chance(50) {
		return []string{"Authorization: Bearer " + token(s, t)}
	}
	return hmacLines(s, t)
}

func token(s *Source, t Target) string {
	head := One(s, []string{
		`{"alg":"HS256","typ":"JWT"}`, `{"alg":"HS256","typ":"JWT"}`, `{"alg":"none"}`, `{"alg":"RS256"}`, `{"alg":"hs256"}`, `{"alg":["HS256"]}`, `{"alg":"HS256","alg":"none"}`, `{"alg":"HS256","crit":["x"]}`,
		`{"alg":"HS256","jku":"http://127.0.0.1/"}`, `{}`, `[]`, `null`, "{", "",
	})
	now := time.Now().Unix()
	claims := One(s, []string{
		`{"iss":"ACCESS","exp":` + fmt.Sprint(now+1000) + `,"nbf":0,"nbf":1}`, `{"iss":"ACCESS","exp":1e308}`, `{"iss":"ACCESS","exp":1e999}`, `{"iss":"ACCESS","exp":-1}`, `{"iss":"ACCESS","exp":"soon"}`, `{"iss":"ACCESS","exp":null}`,
		`{"iss":"ACCESS","exp":` + fmt.Sprint(now+1000) + `,"nbf":1e308}`, `{"iss":["ACCESS"],"exp":9e9}`, `{"iss":"ACCESS\u0000","exp":9e9}`, `{"iss":"","exp":9e9}`, `{"iss":"nobody","exp":` + fmt.Sprint(now+1000) + `}`,
		`{"exp":9e9}`, `{"iss":"ACCESS","exp":` + fmt.Sprint(now+1000) + `,"x":` + deep(3000) + `}`, "{", "", "\xff",
	})
	claims = strings.ReplaceAll(claims, "ACCESS", t.AccessKey)
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(head)) + "." + encode([]byte(claims))
	mac := hmac.New(sha256.New, []byte(One(s, []string{t.SecretKey, t.SecretKey, "", "wrong"})))
	_, _ = io.WriteString(mac, signed) // never fails
	whole := signed + "." + encode(mac.Sum(nil))
	switch s.N(10) {
	case 0:
		return whole + "="
	case 1:
		return signed + "."
	case 2:
		return strings.Replace(whole, ".", "..", 1)
	case 3:
		return strings.Repeat(whole, 200)
	default:
		return whole
	}
}

// hmacLines returns the header lines of an HMAC signature.
func hmacLines(s *Source, t Target) []string {
	date := time.Now().UTC().Format("20060102T150405Z")
	credential := t.AccessKey + "/" + date[:8] + "/cn-north-1/cv/request"
	signature := strings.Repeat("0", 64)
	authorization := One(s, []string{
		"HMAC-SHA256 Credential=" + credential + ", SignedHeaders=host;x-date, Signature=" + signature,
		"HMAC-SHA256 Credential=" + credential + ", SignedHeaders=host;x-date, Signature=" + strings.Repeat("f", 5000),
		"HMAC-SHA256 Credential=" + credential + ", SignedHeaders=" + strings.Repeat("a;", 4000) + "host;x-date, Signature=" + signature,
		"HMAC-SHA256 Credential=" + credential + ", SignedHeaders=host;x-date;host, Signature=" + signature,
		"HMAC-SHA256 Credential=" + credential + ", SignedHeaders=Host;X-Date, Signature=" + signature,
		"HMAC-SHA256 Credential=" + credential + ", SignedHeaders=, Signature=",
		"HMAC-SHA256 Credential=" + credential + ", Credential=x, SignedHeaders=host;x-date, Signature=" + signature,
		"HMAC-SHA256 Credential=" + strings.Repeat("/", 5000) + ", SignedHeaders=host;x-date, Signature=" + signature,
		"HMAC-SHA256 Credential=" + t.AccessKey + "/99999999/r/s/request, SignedHeaders=host;x-date, Signature=" + signature,
		"HMAC-SHA256 " + strings.Repeat("a=b, ", 4000), "HMAC-SHA256", "HMAC-SHA256 ", "HMAC-SHA256 ,,,", "HMAC-SHA256 Signature", "HMAC-SHA512 Credential=" + credential,
		"HMAC-SHA256 Credential=nobody/" + date[:8] + "/r/s/request, SignedHeaders=host;x-date, Signature=" + signature,
	})
	lines := []string{"Authorization: " + authorization}
	if s.Chance(80) {
		lines = append(lines, "X-Date: "+One(s, []string{date, date, date, "", "20260102T150405Z", "x", date + ", " + date}))
	}
	if s.Chance(30) {
		lines = append(lines, "X-Date: "+date, "X-Content-Sha256: "+One(s, []string{"", signature, "zz", HeaderText(s)}))
	}
	return lines
}
