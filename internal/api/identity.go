package api

import (
	"strings"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/protocol"
	"github.com/genbus/genbus/internal/upstream"
)

// tenantOf finds the tenant of an Authorization value. Without configured keys
// the value does not matter. Only the holder of a valid operator's key is told that
// the key exists: to other callers all refused keys are alike.
func tenantOf(cfg *config.Config, authorization string) (string, error) {
	key := bearer(authorization)
	if tenant, ok := cfg.Tenant(key); ok {
		return tenant, nil
	}
	if _, ok := cfg.Operator(key); ok {
		return "", fault.New(fault.InvalidAPIKey, "the key is an operator's, which opens the operator's methods only; send a tenant's key")
	}
	return "", fault.New(fault.InvalidAPIKey, "the API key is missing, unknown or no longer valid; send Authorization: Bearer <key>")
}

// bearer is the key in an Authorization value, or empty.
func bearer(authorization string) string {
	if scheme, rest, ok := strings.Cut(authorization, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest)
	}
	return ""
}

// byKey finds the tenant by an API key.
func (x *exchange) byKey() (string, error) {
	return tenantOf(x.web.cfg.Now(), x.r.Header.Get("Authorization"))
}

// byKeyOrSignature is byKey, but takes a vendor's signature of a request without
// a body too: a tenant may have only a key pair.
func (x *exchange) byKeyOrSignature() (string, error) {
	tenant, err := x.byKey()
	if err == nil {
		return tenant, nil
	}
	for _, p := range protocol.All() {
		if p.Surface == nil {
			continue
		}
		if signature, signed := p.Surface.Signature(x.r, nil); signed {
			if tenant, err = signer(x.web.cfg.Now(), signature); err == nil {
				return tenant, nil
			}
		}
	}
	return "", err
}

// signer finds the tenant whose key pair made a signature.
func signer(cfg *config.Config, s upstream.Signature) (string, error) {
	tenant, secret, known := cfg.Pair(s.AccessKey)
	// An unknown access key takes as long as a wrong signature.
	err := s.Verify(secret.Reveal(), time.Now())
	switch {
	case known && err == nil:
		return tenant, nil
	case !known && s.AccessKey != "":
		return "", fault.New(fault.InvalidAPIKey, "the access key of the signature is unknown")
	default: // a signature that cannot be read names no access key
		return "", fault.New(fault.InvalidAPIKey, "the signature does not fit: %w", err)
	}
}
