package config

import (
	"math"
	"reflect"
)

// Tenants holds the tenants whose limits differ from limits.tenant, by name.
type Tenants map[string]TenantOverride

// TenantLimits bounds the usage of one tenant.
type TenantLimits struct {
	// Maximum requests per second in each replica, over HTTP, gRPC and NATS together, including reads.
	// genbus refuses further ones with rate_limited, but those in the NATS inbox wait. 0: no limit.
	// Default: 0.
	RequestsPerSecond float64 `yaml:"requests_per_second"`
	// Maximum burst of requests; 0 for one second's worth. Default: 0.
	Burst int `yaml:"burst"`
	// Maximum unfinished jobs over all replicas; inline chats count per replica. genbus refuses
	// further ones with tenant_full, but those in the NATS inbox wait. 0: no limit. Default: 0.
	MaxJobs int `yaml:"max_jobs"`
	// Number of dead letters of a tenant's jobs at which genbus stops submitting its videos, and
	// refuses new ones with dead_letters_full. Videos in the backlog wait, and ready ones fail. 0: no
	// limit. Default: 1000.
	MaxDeadLetters int `yaml:"max_dead_letters"`
	// Maximum size of a request body; 0 for only http.max_body_bytes. Default: 0.
	MaxBodyBytes Size `yaml:"max_body_bytes"`
}

// TenantOverride holds the limits of one tenant. It has the same fields as TenantLimits. Load fills
// in the missing ones.
type TenantOverride struct {
	// Maximum requests per second in each replica. Default: same as limits.tenant.
	RequestsPerSecond float64 `yaml:"requests_per_second"`
	// Maximum burst of requests. Default: same as limits.tenant.
	Burst int `yaml:"burst"`
	// Maximum unfinished jobs. Default: same as limits.tenant.
	MaxJobs int `yaml:"max_jobs"`
	// Maximum dead letters. Default: same as limits.tenant.
	MaxDeadLetters int `yaml:"max_dead_letters"`
	// Maximum size of a request body. Default: same as limits.tenant.
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
			r.add(path, "is not a usable name; want "+wantToken)
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
