package jimeng

import (
	"net/http"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// signer signs requests with a key pair, each with a fresh date.
type signer struct {
	accessKey string
	secretKey upstream.Secret
	now       func() time.Time
}

var _ upstream.Authorizer = (*signer)(nil)

// NewSigner returns an Authorizer that signs with the vendor's scheme for region cn-north-1 and
// service cv. Both keys are used verbatim.
func NewSigner(accessKey, secretKey string) upstream.Authorizer {
	return &signer{accessKey: accessKey, secretKey: upstream.Secret(secretKey), now: time.Now}
}

// Authorize sets X-Date, X-Content-Sha256 and Authorization. The signature also covers the host,
// the body and the content type.
func (s *signer) Authorize(req *http.Request, body []byte) error {
	now, bodyHash := s.now().UTC(), hash(body)
	date := now.Format(timeLayout)
	req.Header.Set(headerDate, date)
	req.Header.Set(headerHash, bodyHash)
	names := []string{"host", "x-content-sha256", "x-date"}
	if req.Header.Get("Content-Type") != "" {
		names = append([]string{"content-type"}, names...)
	}
	canonical, err := canonicalRequest(req, names, bodyHash)
	if err != nil {
		return err
	}
	sc := scope{day: now.Format(dayLayout), region: region, service: service}
	req.Header.Set("Authorization", algorithm+" Credential="+s.accessKey+"/"+sc.String()+
		", SignedHeaders="+strings.Join(names, ";")+
		", Signature="+sc.signature(string(s.secretKey), date, canonical))
	return nil
}

// Secrets returns the secret key. The access key is public.
func (s *signer) Secrets() []string { return []string{string(s.secretKey)} }
