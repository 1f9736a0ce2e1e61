package core

import (
	"context"
	"crypto/subtle"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/upstream"
)

// Callers knows who may call, and how often.
type Callers struct {
	cfg     *config.Live
	local   string // the key of LocalOperator; empty for none
	tenants *admission.Tenants
	log     *joblog.Log
	drain   *drain
}

// Refusal is shutting_down while the process drains, and nil before that.
func (c *Callers) Refusal() error { return c.drain.refusal() }

// Watch joins a call that only watches: Drain ends its context. leave must be called when it
// is over.
func (c *Callers) Watch(ctx context.Context) (_ context.Context, leave func()) {
	return c.drain.watch(ctx)
}

// Work joins a call that another replica can continue: Drain ends its context, and AwaitWork waits
// for it. leave must be called once, when it is over.
func (c *Callers) Work(ctx context.Context) (_ context.Context, leave func()) {
	return c.drain.work(ctx)
}

// Identify refuses a call while the process drains, and gives the caller that find
// has found.
func (c *Callers) Identify(find func() (string, error)) (caller string, err error) {
	if err := c.Refusal(); err != nil {
		return "", err
	}
	return find()
}

// Enter is Identify of a tenant, and takes one from the requests that the tenant may
// send: rate_limited when there is none.
func (c *Callers) Enter(find func() (string, error)) (tenant string, err error) {
	if tenant, err = c.Identify(find); err != nil {
		return "", err
	}
	return tenant, c.tenants.Request(tenant)
}

// CheckRateLimit is the second half of Enter for a request by NATS, whose subject has
// named its tenant.
func (c *Callers) CheckRateLimit(r admission.Request) error { return c.tenants.CheckRateLimit(r) }

// Tenant finds the tenant of an Authorization value. Without configured keys
// the value does not matter. Only the holder of a valid operator's key is told that
// the key exists: to other callers all refused keys are alike.
func (c *Callers) Tenant(authorization string) (string, error) {
	cfg := c.cfg.Now()
	key := bearer(authorization)
	if tenant, ok := cfg.Tenant(key); ok {
		return tenant, nil
	}
	if _, ok := cfg.Operator(key); ok {
		return "", errcode.New(errcode.InvalidAPIKey, "this is an operator key, which works only for operator methods; send a tenant key")
	}
	return "", errcode.New(errcode.InvalidAPIKey, "the API key is missing, unknown or expired; send Authorization: Bearer <key>")
}

// bearer is the key in an Authorization value, or empty.
func bearer(authorization string) string {
	if scheme, rest, ok := strings.Cut(authorization, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest)
	}
	return ""
}

// Signer finds the tenant whose key pair made a signature.
func (c *Callers) Signer(s upstream.Signature) (string, error) {
	tenant, secret, known := c.cfg.Now().Pair(s.AccessKey)
	// An unknown access key takes as long as a wrong signature.
	err := s.Verify(secret.Reveal(), time.Now())
	switch {
	case known && err == nil:
		return tenant, nil
	case !known && s.AccessKey != "":
		return "", errcode.New(errcode.InvalidAPIKey, "the access key of the signature is unknown")
	default: // a signature that cannot be read names no access key
		return "", errcode.New(errcode.InvalidAPIKey, "invalid signature: %w", err)
	}
}

// Operator finds the operator of an Authorization value, for a call that acts or only
// reads. A tenant's key is no operator's, and without any operator's key no caller is one
// but LocalOperator. All that operators do needs JetStream: without it the error is broker_unavailable.
func (c *Callers) Operator(authorization string, acts bool) (string, error) {
	o, err := c.operator(authorization)
	if err != nil {
		return "", err
	}
	if acts && o.ReadOnly {
		return "", errcode.New(errcode.OperatorRequired, "operator key %q is read-only, so nothing was changed; use a key without read_only", o.Name)
	}
	if err := c.log.Trouble(); err != nil {
		return "", errcode.New(errcode.BrokerUnavailable, "nothing was read or changed: %s", broker.Reason(err)).Because(err).WithRetryAfter(time.Second)
	}
	return o.Name, nil
}

// LocalOperator is the name of the operator who needs no key: one at this machine, where no
// operator's key is configured.
const LocalOperator = "local"

func (c *Callers) operator(authorization string) (config.Operator, error) {
	cfg, key := c.cfg.Now(), bearer(authorization)
	if o, ok := cfg.Operator(key); ok {
		return o, nil
	}
	if c.local != "" && len(cfg.OperatorKeys) == 0 && subtle.ConstantTimeCompare([]byte(key), []byte(c.local)) == 1 {
		return config.Operator{Name: LocalOperator}, nil
	}
	_, tenants := cfg.Tenant(key)
	tenants = tenants && len(cfg.APIKeys) > 0 // without keys of tenants, none is a tenant's
	switch {
	case len(cfg.OperatorKeys) == 0:
		return config.Operator{}, errcode.New(errcode.OperatorRequired, "no operator key is configured; set GENBUS_OPERATOR_KEY (or operator_keys) and restart genbus")
	case tenants:
		return config.Operator{}, errcode.New(errcode.OperatorRequired, "this method needs an operator key, not a tenant key")
	default:
		return config.Operator{}, errcode.New(errcode.InvalidAPIKey, "the operator key is missing or unknown; send Authorization: Bearer <key>")
	}
}
