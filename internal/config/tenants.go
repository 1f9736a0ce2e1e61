package config

import (
	"math"
	"reflect"
)

// Tenants holds the tenants whose limits differ from limits.tenant, by name.
type Tenants map[string]TenantOverride

// TenantLimits bounds the usage of one tenant.
type TenantLimits struct {
	// Requests a second of one tenant, reads too, in each replica, by HTTP, gRPC and NATS together; 0 for no limit. Beyond
	// it they are refused with rate_limited, and wait in the NATS inbox. Default: 0.
	RequestsPerSecond float64 `yaml:"requests_per_second"`
	// Requests that may come at once; 0 for those of one second. Default: 0.
	Burst int `yaml:"burst"`
	// Accepted, unfinished jobs of one tenant over all replicas, inline chats in each; 0 for no limit. Beyond it new ones
	// are refused with tenant_full, and wait in the NATS inbox. Default: 0.
	MaxJobs int `yaml:"max_jobs"`
	// Dead letters that one tenant's jobs may have. At this number none of its videos is submitted until an operator resolves
	// some: new ones are refused with dead_letters_full, those in the backlog wait, ready ones fail. 0: no limit. Default: 1000.
	MaxDeadLetters int `yaml:"max_dead_letters"`
	// Longest request body of one tenant, where http.max_body_bytes allows more; 0 for no other limit. Default: 0.
	MaxBodyBytes Size `yaml:"max_body_bytes"`
}

// TenantOverride holds the limits of one tenant. It has the same fields as TenantLimits. Load fills
// in the missing ones.
type TenantOverride struct {
	// Requests a second of this tenant, in each replica; 0 for no limit. Default: that of limits.tenant.
	RequestsPerSecond float64 `yaml:"requests_per_second"`
	// Requests of this tenant that may come at once; 0 for those of one second. Default: that of limits.tenant.
	Burst int `yaml:"burst"`
	// Accepted, unfinished jobs of this tenant; 0 for no limit. Default: that of limits.tenant.
	MaxJobs int `yaml:"max_jobs"`
	// Dead letters of this tenant's jobs from which on none of its videos is submitted; 0 for no limit. Default: that of
	// limits.tenant.
	MaxDeadLetters int `yaml:"max_dead_letters"`
	// Longest request body of this tenant; 0 for no other limit. Default: that of limits.tenant.
	MaxBodyBytes Size `yaml:"max_body_bytes"`
}

// LimitsOf returns the effective limits of a tenant. Burst is 0 only if RequestsPerSecond is 0, and
// MaxBodyBytes is never 0.
func (c *Config) LimitsOf(tenant string) TenantLimits {
	l := c.Limits.Tenant
	if own, ok := c.Tenants[tenant]; ok {
		l = TenantLimits(own)
	}
	switch {
	case l.RequestsPerSecond == 0:
		l.Burst = 0
	case l.Burst == 0:
		l.Burst = max(int(math.Ceil(l.RequestsPerSecond)), 1)
	}
	if l.MaxBodyBytes == 0 || l.MaxBodyBytes > c.HTTP.MaxBodyBytes {
		l.MaxBodyBytes = c.HTTP.MaxBodyBytes
	}
	return l
}

// inherit copies the limits that the file omits for a tenant from limits.tenant.
func (l *loader) inherit() {
	all := reflect.ValueOf(l.Limits.Tenant)
	for name, override := range l.Tenants {
		v := reflect.ValueOf(&override).Elem()
		for i := range v.NumField() {
			key := join(join("tenants", name), v.Type().Field(i).Tag.Get("yaml"))
			if _, written := l.lines[key]; !written {
				v.Field(i).Set(all.Field(i))
			}
		}
		l.Tenants[name] = override
	}
}

func (c *Config) checkTenants(r *report) {
	c.Limits.Tenant.check(r, "limits.tenant")
	for _, name := range sortedKeys(c.Tenants) {
		path := join("tenants", name)
		if !tokenPattern.MatchString(name) {
			r.say(path, "is not a usable name; want "+wantToken)
		}
		TenantLimits(c.Tenants[name]).check(r, path)
	}
}

func (l TenantLimits) check(r *report, path string) {
	within(r, path+".requests_per_second", l.RequestsPerSecond, 0, 100_000)
	within(r, path+".burst", l.Burst, 0, 1_000_000)
	within(r, path+".max_jobs", l.MaxJobs, 0, 1_000_000_000)
	within(r, path+".max_dead_letters", l.MaxDeadLetters, 0, 1_000_000_000)
	if l.MaxBodyBytes != 0 {
		within(r, path+".max_body_bytes", l.MaxBodyBytes, KiB, GiB)
	}
}
