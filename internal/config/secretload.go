package config

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

const maxSecretBytes = 64 << 10

// loadSecrets fills every Secret from the variable or file named next to it.
func (l *loader) loadSecrets() {
	for _, name := range sortedKeys(l.Upstreams) {
		u, path := l.Upstreams[name], join("upstreams", name)
		u.Key = l.secret(path, "key", u.KeyEnv, u.KeyFile)
		u.AccessKey = l.secret(path, "access_key", u.AccessKeyEnv, u.AccessKeyFile)
		u.SecretKey = l.secret(path, "secret_key", u.SecretKeyEnv, u.SecretKeyFile)
		for i := range u.Keys {
			k, path := &u.Keys[i], fmt.Sprintf("%s.keys[%d]", path, i)
			k.Key = l.secret(path, "key", k.KeyEnv, k.KeyFile)
			k.AccessKey = l.secret(path, "access_key", k.AccessKeyEnv, k.AccessKeyFile)
			k.SecretKey = l.secret(path, "secret_key", k.SecretKeyEnv, k.SecretKeyFile)
		}
		l.Upstreams[name] = u
	}
	for i := range l.APIKeys {
		k, path := &l.APIKeys[i], fmt.Sprintf("api_keys[%d]", i)
		k.Key = l.secret(path, "key", k.KeyEnv, k.KeyFile)
		k.SecretKey = l.secret(path, "secret_key", k.SecretKeyEnv, k.SecretKeyFile)
	}
	for i := range l.OperatorKeys {
		k := &l.OperatorKeys[i]
		k.Key = l.secret(fmt.Sprintf("operator_keys[%d]", i), "key", k.KeyEnv, k.KeyFile)
	}
	if l.NATS.PasswordEnv != "" || l.NATS.PasswordFile != "" {
		if !l.NATS.Password.Empty() {
			l.add("nats.password_env", "is set and nats.url holds a password too; want one of them")
			return
		}
		l.NATS.Password = l.secret("nats", "password", l.NATS.PasswordEnv, l.NATS.PasswordFile)
	}
}

// secret loads one secret, which is empty if neither env nor file is set.
func (l *loader) secret(path, name, env, file string) Secret {
	keyEnv, keyFile := join(path, name+"_env"), join(path, name+"_file")
	switch {
	case env != "" && file != "":
		l.add(keyEnv, "and "+keyFile+" are both set; want one of them")
	case env != "":
		l.used[env] = true
		text, ok := l.env[env]
		if !ok {
			l.badPlace(keyEnv, env, "the name of an environment variable; this one is not set")
			return Secret{}
		}
		return l.checkSecret(keyEnv, env, text)
	case file != "":
		content, err := l.read(file)
		if err != nil {
			l.badPlace(keyFile, file, "a readable file: "+reason(err))
			return Secret{}
		}
		return l.checkSecret(keyFile, file, strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r"))
	}
	return Secret{}
}

// checkSecret accepts one line of text. Keys must be valid in an HTTP header. Errors name the
// place, never the text.
func (l *loader) checkSecret(key, place, text string) Secret {
	switch {
	case len(text) > maxSecretBytes:
		l.badPlace(key, place, fmt.Sprintf("a secret of at most %s", Size(maxSecretBytes)))
	case strings.TrimSpace(text) == "":
		l.badPlace(key, place, "a secret; this one is empty")
	case strings.ContainsFunc(text, unicode.IsControl):
		l.badPlace(key, place, "a secret of one line; this one contains control characters")
	case !strings.Contains(key, "password") && strings.ContainsFunc(text, func(c rune) bool { return c == ' ' || c > '~' }):
		l.badPlace(key, place, "a secret of printable ASCII without spaces; this one contains other characters")
	default:
		return NewSecret(text)
	}
	return Secret{}
}

// secretPlace matches names of variables and paths. Anything else could be the secret itself in the
// wrong field.
var secretPlace = regexp.MustCompile(`^([A-Z_][A-Z0-9_]*|\.{0,2}/.*)$`)

// placeOf describes where a key comes from, as in " (variable A)". It returns "" if the place must
// not be shown.
func placeOf(env, file string) string {
	switch {
	case env != "" && secretPlace.MatchString(env):
		return " (variable " + env + ")"
	case env == "" && secretPlace.MatchString(file):
		return " (file " + file + ")"
	default:
		return ""
	}
}

func (l *loader) badPlace(key, place, want string) {
	if !secretPlace.MatchString(place) {
		l.add(key, "is hidden, because it may be the secret itself; want "+want)
		return
	}
	l.bad(key, place, want)
}
