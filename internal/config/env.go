package config

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Variables that do not correspond to a single field.
const (
	envConfig          = "GENBUS_CONFIG"
	envNATSURL         = "GENBUS_NATS_URL"
	envUpstreamURL     = "GENBUS_UPSTREAM_URL"
	envUpstreamKey     = "GENBUS_UPSTREAM_KEY"
	envUpstreamKeyFile = "GENBUS_UPSTREAM_KEY_FILE"
	envAPIKey          = "GENBUS_API_KEY"
	envAPIKeyFile      = "GENBUS_API_KEY_FILE"
	envOperatorKey     = "GENBUS_OPERATOR_KEY"
	envOperatorKeyFile = "GENBUS_OPERATOR_KEY_FILE"

	// envTest selects the test suite (docs/development.md). Load ignores it, because tests start
	// the service with their own environment.
	envTest = "GENBUS_TEST"

	envPrefix       = "GENBUS_"
	defaultUpstream = "default"
)

// environment describes the variables that have no key in the file.
var environment = []struct{ name, meaning string }{
	{envConfig, "Path of the YAML configuration file."},
	{envUpstreamURL, `Base address of the upstream "default". Without routes, it serves every video and chat model.`},
	{envUpstreamKey, `API key of the upstream "default".`},
	{envUpstreamKeyFile, `File that holds the API key of the upstream "default".`},
	{envAPIKey, `API key that callers must send. Their tenant is "default".`},
	{envAPIKeyFile, `File that holds the API key of the tenant "default".`},
	{envOperatorKey, `Key of the operator "operator", for operator methods.`},
	{envOperatorKeyFile, `File that holds the key of the operator "operator".`},
	{"GENBUS_SERVER", "Commands that call genbus, not the service: gRPC address, host or host:port."},
	{"GENBUS_CA", "Commands that call genbus, not the service: PEM file of certificates to trust."},
}

// kubernetesLink matches variables that Kubernetes injects for services called genbus or
// genbus-something. It does not match GENBUS_PORT and GENBUS_<something>_PORT, which might be
// typos. isKubernetesLink judges those by their value.
var kubernetesLink = regexp.MustCompile(`^GENBUS_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

func parseEnviron(environ []string) map[string]string {
	env := map[string]string{}
	for _, pair := range environ {
		if name, value, ok := strings.Cut(pair, "="); ok && value != "" {
			env[name] = value
		}
	}
	return env
}

// applyEnv overrides the file with the environment.
func (l *loader) applyEnv() {
	eachVariable(reflect.ValueOf(l.Config).Elem(), "", func(name, key string, v reflect.Value) {
		text, ok := l.env[name]
		if !ok {
			return
		}
		l.vars[key] = name
		delete(l.lost, key)
		if want := setScalar(v, text); want != "" {
			l.bad(key, text, want)
		}
	})
	l.splitCredentials()
	l.applyUpstreamEnv()
	l.applyAPIKeyEnv()
	l.applyOperatorKeyEnv()
}

// applyUpstreamEnv creates or changes the upstream "default".
func (l *loader) applyUpstreamEnv() {
	address, key, file := l.env[envUpstreamURL], l.env[envUpstreamKey], l.env[envUpstreamKeyFile]
	if address == "" && key == "" && file == "" {
		return
	}
	upstream, exists := l.Upstreams[defaultUpstream]
	if !exists && address == "" {
		if l.mistyped(envUpstreamURL) || l.follows("upstreams") {
			return
		}
		l.add(cmp.Or(present(key, envUpstreamKey), envUpstreamKeyFile), "is set, but no upstream uses it; want "+envUpstreamURL+" too")
		return
	}
	if !exists {
		upstream = NewUpstream(address)
	}
	const path = "upstreams." + defaultUpstream
	if address != "" {
		upstream.BaseURL = address
		l.vars[path+".base_url"] = envUpstreamURL
	}
	upstream.KeyEnv, upstream.KeyFile = l.overrideKey(path, upstream.KeyEnv, upstream.KeyFile, envUpstreamKey, envUpstreamKeyFile)
	if l.Upstreams == nil {
		l.Upstreams = Upstreams{}
	}
	l.Upstreams[defaultUpstream] = upstream
	l.requireUse(defaultUpstream)
}

// requireUse reports an upstream from the environment that no route in the file uses.
func (l *loader) requireUse(upstream string) {
	used := len(l.Routes) == 0
	for _, route := range l.Routes {
		used = used || route.Upstream == upstream || slices.ContainsFunc(route.Upstreams, func(t Target) bool { return t.Name == upstream })
	}
	if !used {
		l.add(envUpstreamURL, `has no effect: no route uses the upstream "`+upstream+`"; want a route with upstream: `+upstream+", or the variable unset")
	}
}

// applyAPIKeyEnv adds a key of DefaultTenant unless the file refers to the variable itself.
func (l *loader) applyAPIKeyEnv() {
	keyEnv, keyFile := l.overrideKey("api_keys", "", "", envAPIKey, envAPIKeyFile)
	if keyEnv == "" && keyFile == "" {
		return
	}
	for _, k := range l.APIKeys {
		if k.KeyEnv != "" && k.KeyEnv == keyEnv || k.KeyFile != "" && k.KeyFile == keyFile {
			return
		}
	}
	l.APIKeys, l.addedKey = append(l.APIKeys, APIKey{Tenant: DefaultTenant, KeyEnv: keyEnv, KeyFile: keyFile}), true
}

// applyOperatorKeyEnv adds a key of DefaultOperator unless the file refers to the variable itself.
func (l *loader) applyOperatorKeyEnv() {
	keyEnv, keyFile := l.overrideKey("operator_keys", "", "", envOperatorKey, envOperatorKeyFile)
	if keyEnv == "" && keyFile == "" {
		return
	}
	for _, k := range l.OperatorKeys {
		if k.KeyEnv != "" && k.KeyEnv == keyEnv || k.KeyFile != "" && k.KeyFile == keyFile {
			return
		}
	}
	l.OperatorKeys, l.addedOperator = append(l.OperatorKeys, OperatorKey{Name: DefaultOperator, KeyEnv: keyEnv, KeyFile: keyFile}), true
}

// dropTwice drops a key from the environment if the file has the same key. This is common, because
// the command line reads the operator key from the service's variable. A key shared by two tenants
// is still an error.
func (l *loader) dropTwice() {
	if last := len(l.APIKeys) - 1; l.addedKey {
		own := l.APIKeys[last]
		if slices.ContainsFunc(l.APIKeys[:last], func(k APIKey) bool { return k.Tenant == own.Tenant && sameKey(k.Key, k.KeySHA256, own.Key) }) {
			l.APIKeys = l.APIKeys[:last]
		}
	}
	if last := len(l.OperatorKeys) - 1; l.addedOperator {
		own := l.OperatorKeys[last]
		if slices.ContainsFunc(l.OperatorKeys[:last], func(k OperatorKey) bool { return sameKey(k.Key, k.KeySHA256, own.Key) }) {
			l.OperatorKeys = l.OperatorKeys[:last]
		}
	}
}

// overrideKey returns the variable or file that holds a key. The two variables override the
// configuration file. Only one of them may be set.
func (l *loader) overrideKey(path, keyEnv, keyFile, nameEnv, nameFile string) (newEnv, newFile string) {
	inline, file := l.env[nameEnv], l.env[nameFile]
	switch {
	case inline != "" && file != "":
		l.add(nameFile, "and "+nameEnv+" are both set; want one of them")
	case inline != "":
		return nameEnv, ""
	case file != "":
		l.vars[path+".key_file"] = nameFile
		return "", file
	}
	return keyEnv, keyFile
}

// unknownVariables reports GENBUS_ variables that nothing reads, which are usually typos.
func (l *loader) unknownVariables() {
	known := variables()
	for _, name := range sortedKeys(l.env) {
		if !strings.HasPrefix(name, envPrefix) || slices.Contains(known, name) || name == envTest || l.used[name] || isKubernetesLink(name, l.env[name]) {
			continue
		}
		if question, ok := guess(nearest(name, known)); ok {
			l.add(name, "is not a known variable; "+question)
			continue
		}
		l.add(name, "is not a known variable; want one of "+strings.Join(known, ", "))
	}
}

// mistyped reports whether an unknown variable looks like a misspelling of name.
func (l *loader) mistyped(name string) bool {
	known := variables()
	for other := range l.env {
		if strings.HasPrefix(other, envPrefix) && !slices.Contains(known, other) && slices.Contains(nearest(other, known), name) {
			return true
		}
	}
	return false
}

func isKubernetesLink(name, value string) bool {
	return kubernetesLink.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}

func variables() []string {
	var names []string
	for _, v := range environment {
		names = append(names, v.name)
	}
	eachVariable(reflect.ValueOf(Default()).Elem(), "", func(name, _ string, _ reflect.Value) { names = append(names, name) })
	slices.Sort(names)
	return names
}

// eachVariable visits every field with an environment variable.
func eachVariable(v reflect.Value, path string, visit func(name, key string, v reflect.Value)) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		key := field.Tag.Get("yaml")
		if key == "" || key == "-" {
			continue
		}
		if name := field.Tag.Get("env"); name != "" {
			visit(name, join(path, key), v.Field(i))
		}
		if v.Field(i).Kind() == reflect.Struct {
			eachVariable(v.Field(i), join(path, key), visit)
		}
	}
}

func present(value, name string) string {
	if value == "" {
		return ""
	}
	return name
}
