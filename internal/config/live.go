package config

import "sync/atomic"

// Live is the configuration of a running process. A reload replaces it as a whole, so the code that works on a request or a
// job reads it once at the beginning and keeps it. It is safe for concurrent use.
type Live struct{ now atomic.Pointer[Config] }

// NewLive begins with c, which is prepared.
func NewLive(c *Config) *Live {
	l := &Live{}
	l.Set(c)
	return l
}

// Now is the configuration that is in force. It is read-only.
func (l *Live) Now() *Config { return l.now.Load() }

// Set puts another one in force, which is prepared and of which nothing is changed any more.
func (l *Live) Set(c *Config) { l.now.Store(c) }

// LimitsOf are the limits that are in force for a tenant.
func (l *Live) LimitsOf(tenant string) TenantLimits { return l.Now().LimitsOf(tenant) }
