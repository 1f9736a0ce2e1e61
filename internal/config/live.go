package config

import "sync/atomic"

// Live holds the configuration of a running process. A reload replaces it as a whole, so code that
// handles a request or a job should call Now once and keep the result. It is safe for concurrent
// use.
type Live struct{ now atomic.Pointer[Config] }

// NewLive returns a Live that holds c, which must be prepared.
func NewLive(c *Config) *Live {
	l := &Live{}
	l.Set(c)
	return l
}

// Now returns the configuration in force, which is read-only.
func (l *Live) Now() *Config { return l.now.Load() }

// Set makes c the configuration in force. c must be prepared and must not change afterwards.
func (l *Live) Set(c *Config) { l.now.Store(c) }

// LimitsOf returns the limits in force for a tenant.
func (l *Live) LimitsOf(tenant string) TenantLimits { return l.Now().LimitsOf(tenant) }
