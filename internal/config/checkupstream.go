package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/protocol"
)

// ownHeaders are set by genbus or the HTTP client. Configuring them would send them twice or break
// the request.
var ownHeaders = []string{"accept", "accept-encoding", "connection", "content-length", "content-type", "expect", "host", "idempotency-key", "te", "trailer", "transfer-encoding", "upgrade"}

func (c *Config) checkUpstreams(r *report) {
	for _, name := range sortedKeys(c.Upstreams) {
		u, path := c.Upstreams[name], join("upstreams", name)
		if !tokenPattern.MatchString(name) {
			r.add(path, "is not a usable name; want "+wantToken)
		}
		checkBaseURL(r, path+".base_url", u)
		within(r, path+".max_idle_conns", u.MaxIdleConns, 0, 100_000)
		if u.ReuseConnectionsForCreates && u.MaxIdleConns == 0 {
			r.add(path+".reuse_connections_for_creates", "reuses nothing while max_idle_conns is 0; want max_idle_conns above 0, or this one left out")
		}
		within(r, path+".max_concurrent", u.MaxConcurrent, 0, 1_000_000)
		within(r, path+".rate_per_second", u.RatePerSecond, 0, 1_000_000)
		within(r, path+".key_cooldown", u.KeyCooldown, 0, 24*time.Hour)
		within(r, path+".breaker.failures", u.Breaker.Failures, 0, 1_000_000)
		within(r, path+".breaker.open_for", u.Breaker.OpenFor, 10*time.Millisecond, time.Hour)
		checkPath(r, path+".vendor_path", u.VendorPath, "/kling")
		checkVersionPath(r, path+".version_path", u)
		checkCredentials(r, path, u)
		for _, header := range sortedKeys(u.Headers) {
			checkHeader(r, join(path+".headers", header), header, u.Headers[header])
		}
	}
}

// resource matches the paths that genbus, or another client, adds to a base URL.
var resource = regexp.MustCompile(`(?:(/v[0-9][a-z0-9.]*)/(?:completions|embeddings|messages|models|responses|videos)|/chat/completions|/video/generations|/videos/(?:text2video|image2video))$`)

// checkBaseURL checks the address of an upstream. It rejects addresses that vendors show in their
// examples and below which there are no paths.
func checkBaseURL(r *report, key string, u Upstream) {
	address := u.BaseURL
	if !checkAddress(r, key, address) {
		return
	}
	if strings.Contains(address, "/openai/deployments") && u.VersionPath == "" {
		r.bad(key, address, "Azure's address that ends in /openai/v1; paths below this one need a query")
		return
	}
	found := resource.FindStringSubmatchIndex(address)
	if found == nil {
		return
	}
	end := max(found[0], found[3]) // after the version, if it was matched
	want := shown(address[:end])
	if !protocol.HasVersion(address[:end]) {
		want += " and version_path: /"
	}
	r.bad(key, address, want+"; genbus adds "+address[end:]+" itself")
}

// checkAddress reports whether an address is usable. It does not show one that may contain
// credentials.
func checkAddress(r *report, key, address string) bool {
	const want = "http:// or https:// with a host, without query, such as https://api.example.com"
	if address == "" {
		r.missing(key, want)
		return false
	}
	u, err := url.Parse(address)
	switch {
	case strings.Contains(address, "@"):
		r.add(key, "holds credentials or an @; want the address alone, and the key in key_env or key_file")
	case strings.ContainsAny(address, "?#"): // often contains a key
		r.add(key, "holds a query or a fragment; want the address alone, and the key in key_env or key_file")
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		r.bad(key, address, want)
	default:
		return true
	}
	return false
}

// checkPath checks a path to put before others. example is a good one.
func checkPath(r *report, key, path, example string) {
	if path != "" && (!strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#% ")) {
		r.bad(key, path, `a path such as "`+example+`", or "/" for none`)
	}
}

// checkVersionPath rejects a path that repeats what base_url has or what genbus adds.
func checkVersionPath(r *report, key string, u Upstream) {
	checkPath(r, key, u.VersionPath, "/v2")
	path := strings.TrimRight(u.VersionPath, "/")
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	base := strings.TrimRight(u.BaseURL, "/")
	switch {
	case u.VersionPath == "":
	case u.Auth == AuthSigned:
		r.add(key, "changes nothing with auth: signed; want vendor_path, or this one left out")
	case !resource.MatchString(base) && resource.MatchString(base+path):
		r.bad(key, u.VersionPath, "the path before that, or \"/\" for none; genbus adds paths such as /chat/completions itself")
	case protocol.IsVersion(first) && protocol.IsVersion(base[strings.LastIndex(base, "/")+1:]) && protocol.HasVersion(base):
		r.bad(key, u.VersionPath, "no version, because base_url ends with one")
	}
}

// checkCredentials requires the credentials that auth needs, either on the upstream or in keys.
func checkCredentials(r *report, path string, u Upstream) {
	oneOf(r, path+".auth", u.Auth, AuthBearer, AuthSigned)
	single := u.KeyEnv + u.KeyFile + u.AccessKeyEnv + u.AccessKeyFile + u.SecretKeyEnv + u.SecretKeyFile
	if len(u.Keys) > 0 && single != "" {
		r.add(path+".keys", "are set together with a key of the upstream itself; want only one of the two")
	}
	names := map[string]int{}
	for i, k := range u.Keys {
		at := fmt.Sprintf("%s.keys[%d]", path, i)
		checkToken(r, at+".name", k.Name)
		if other, taken := names[k.Name]; taken {
			r.bad(at+".name", k.Name, fmt.Sprintf("a unique name; keys[%d] has this one", other))
		}
		names[k.Name] = i
		if u.Auth == AuthBearer && k == (UpstreamKey{Name: k.Name}) {
			r.missing(at+".key_env", "key_env: NAME or key_file: PATH")
		}
		checkCredential(r, at, u.Auth, k)
	}
	if len(u.Keys) == 0 {
		checkCredential(r, path, u.Auth, UpstreamKey{
			KeyEnv: u.KeyEnv, KeyFile: u.KeyFile, AccessKeyEnv: u.AccessKeyEnv, AccessKeyFile: u.AccessKeyFile,
			SecretKeyEnv: u.SecretKeyEnv, SecretKeyFile: u.SecretKeyFile, AccessKey: u.AccessKey, SecretKey: u.SecretKey, Key: u.Key,
		})
	}
}

// checkCredential requires the credentials for one value of auth and rejects those for the other,
// which would go unused. With bearer, the upstream's own key is optional.
func checkCredential(r *report, at, auth string, k UpstreamKey) {
	bearer := k.KeyEnv+k.KeyFile != "" || !k.Key.Empty()
	access := k.AccessKeyEnv+k.AccessKeyFile != "" || !k.AccessKey.Empty()
	secret := k.SecretKeyEnv+k.SecretKeyFile != "" || !k.SecretKey.Empty()
	switch {
	case auth == AuthBearer && (access || secret):
		r.add(at+".access_key_env", "is for auth: signed; want auth: signed, or key_env or key_file alone")
	case auth == AuthSigned && bearer:
		r.add(at+".key_env", "is for auth: bearer; want access_key_env and secret_key_env with auth: signed")
	case auth == AuthSigned && (!access || !secret):
		r.missing(at+".access_key_env", "access_key_env and secret_key_env (or _file) with auth: signed")
	}
}

// checkHeader checks a configured header. It never shows the value, which may be a secret.
func checkHeader(r *report, key, name, value string) {
	lower := strings.ToLower(name)
	isSecret := func(word string) bool { return strings.Contains(lower, word) }
	switch {
	case slices.Contains(ownHeaders, lower):
		r.add(key, "is set by genbus itself; want it left out")
	case slices.ContainsFunc([]string{"auth", "cookie", "key", "token", "secret", "password"}, isSecret):
		r.add(key, "looks like a secret; want the key in key_env or key_file, to keep it out of the file")
	case !tokenPattern.MatchString(name):
		r.add(key, "is not a header name; want "+wantToken)
	case len(value) > 4096 || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }):
		r.add(key, "has a value that cannot be sent; want at most 4096 characters of printable ASCII")
	}
}
