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

// Callers identifies callers and limits their rates.
type Callers struct {
	cfg     *config.Live
	local   string // key of LocalOperator, or empty
	tenants *admission.Tenants
	log     *joblog.Log
	drain   *drain
}

// Refusal returns shutting_down while the process drains, and nil before.
func (c *Callers) Refusal() error { return c.drain.refusal() }

// Watch registers a call that only watches, so that Drain ends its context. The call must call
// release at its end.
func (c *Callers) Watch(ctx context.Context) (_ context.Context, release func()) {
	return c.drain.watch(ctx)
}

// Work registers a call that another replica can continue. Drain ends its context, and AwaitWork
// waits for it. The call must call release once, at its end.
func (c *Callers) Work(ctx context.Context) (_ context.Context, release func()) {
	return c.drain.work(ctx)
}

// Identify returns the caller that find finds, unless the process drains.
func (c *Callers) Identify(find func() (string, error)) (caller string, err error) {
	if err := c.Refusal(); err != nil {
		return "", err
	}
	return find()
}

// Enter identifies a tenant and counts the request. It returns rate_limited if the tenant has sent
// too many.
func (c *Callers) Enter(find func() (string, error)) (tenant string, err error) {
	if tenant, err = c.Identify(find); err != nil {
		return "", err
	}
	return tenant, c.tenants.Request(tenant)
}

// CheckRateLimit counts a NATS request, whose subject names its tenant.
func (c *Callers) CheckRateLimit(r admission.Request) error { return c.tenants.CheckRateLimit(r) }

// Tenant returns the tenant of an Authorization value. If no keys are configured, it ignores the
// value. Only the holder of a valid operator key learns that the key exists; to others all refused
// keys look alike.
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

// bearer returns the key in an Authorization value, or an empty key.
func bearer(authorization string) string {
	if scheme, rest, ok := strings.Cut(authorization, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest)
	}
	return ""
}

// Signer returns the tenant whose key pair made a signature.
func (c *Callers) Signer(s upstream.Signature) (string, error) {
	tenant, secret, known := c.cfg.Now().Pair(s.AccessKey)
	// Verify even for an unknown access key, so that both refusals take the same time.
	err := s.Verify(secret.Reveal(), time.Now())
	switch {
	case known && err == nil:
		return tenant, nil
	case !known && s.AccessKey != "":
		return "", errcode.New(errcode.InvalidAPIKey, "the access key of the signature is unknown")
	default: // a malformed signature names no access key
		return "", errcode.New(errcode.InvalidAPIKey, "invalid signature: %w", err)
	}
}

// Operator returns the operator of an Authorization value. acts is set for calls that change
// something. Tenant keys are not accepted. Without operator keys, only LocalOperator is. Everything
// operators do needs JetStream: without it, the error is broker_unavailable.
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

// LocalOperator is the name of an operator on this machine, who needs no key while no operator key
// is configured.
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
	tenants = tenants && len(cfg.APIKeys) > 0 // without tenant keys, no key is a tenant's
	switch {
	case len(cfg.OperatorKeys) == 0:
		return config.Operator{}, errcode.New(errcode.OperatorRequired, "no operator key is configured; set GENBUS_OPERATOR_KEY (or operator_keys) and restart genbus")
	case tenants:
		return config.Operator{}, errcode.New(errcode.OperatorRequired, "this method needs an operator key, not a tenant key")
	default:
		return config.Operator{}, errcode.New(errcode.InvalidAPIKey, "the operator key is missing or unknown; send Authorization: Bearer <key>")
	}
}
