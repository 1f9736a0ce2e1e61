package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLimitsOfATenant(t *testing.T) {
	t.Parallel()
	c := mustLoad(t, `
http: {max_body_bytes: 4MiB}
limits: {tenant: {requests_per_second: 2.5, burst: 7, max_jobs: 100}}
tenants:
  acme: {requests_per_second: 50, max_body_bytes: 1MiB}
  free: {requests_per_second: 0, burst: ~, max_jobs: 0, max_body_bytes: 8MiB}
  slow: &slow {requests_per_second: 0.1, burst: 0}
  also: *slow
  null:
`)
	for tenant, want := range map[string]TenantLimits{
		"nobody": {RequestsPerSecond: 2.5, Burst: 7, MaxJobs: 100, MaxDeadLetters: 1000, MaxBodyBytes: 4 * MiB},
		"acme":   {RequestsPerSecond: 50, Burst: 7, MaxJobs: 100, MaxDeadLetters: 1000, MaxBodyBytes: MiB},
		"free":   {MaxDeadLetters: 1000, MaxBodyBytes: 4 * MiB},
		"slow":   {RequestsPerSecond: 0.1, Burst: 1, MaxJobs: 100, MaxDeadLetters: 1000, MaxBodyBytes: 4 * MiB},
		"also":   {RequestsPerSecond: 0.1, Burst: 1, MaxJobs: 100, MaxDeadLetters: 1000, MaxBodyBytes: 4 * MiB},
		"null":   {RequestsPerSecond: 2.5, Burst: 7, MaxJobs: 100, MaxDeadLetters: 1000, MaxBodyBytes: 4 * MiB},
	} {
		if d := cmp.Diff(want, c.LimitsOf(tenant)); d != "" {
			t.Errorf("%s: %s", tenant, d)
		}
	}
	text, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(c, mustLoad(t, string(text))); d != "" {
		t.Errorf("%s\n%s", d, text)
	}
}

func TestWithoutLimitsThereAreNone(t *testing.T) {
	t.Parallel()
	if d := cmp.Diff(TenantLimits{MaxDeadLetters: 1000, MaxBodyBytes: 32 * MiB}, mustLoad(t, "").LimitsOf("acme")); d != "" {
		t.Error(d)
	}
	// The default burst is one second's requests.
	if burst := mustLoad(t, "limits: {tenant: {requests_per_second: 10.5}}").LimitsOf("acme").Burst; burst != 11 {
		t.Errorf("burst %d", burst)
	}
}
