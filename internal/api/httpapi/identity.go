package httpapi

import "github.com/genbus/genbus/internal/upstream/registry"

func (x *exchange) byKey() (string, error) {
	return x.h.core.Callers.Tenant(x.r.Header.Get("Authorization"))
}

func (x *exchange) byOperatorKey() (string, error) {
	return x.h.core.Callers.Operator(x.r.Header.Get("Authorization"), false) // the gRPC interceptor checks the method
}

// byKeyOrSignature identifies the tenant by an API key or by a vendor's signature, because a tenant
// may have only a key pair. It is for requests without a body.
func (x *exchange) byKeyOrSignature() (string, error) {
	tenant, err := x.byKey()
	if err == nil {
		return tenant, nil
	}
	for _, p := range registry.All() {
		if p.Surface == nil {
			continue
		}
		if signature, signed := p.Surface.Signature(x.r, nil); signed {
			if tenant, err = x.h.core.Callers.Signer(signature); err == nil {
				return tenant, nil
			}
		}
	}
	return "", err
}
