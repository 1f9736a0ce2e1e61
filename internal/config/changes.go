package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Changes are what a reload changes, in words for a log: names and keys, never a value, and never a secret.
type Changes struct {
	// Added, Removed and Changed name routes, upstreams, keys and tenants, and of those that changed the keys that did,
	// such as "upstream studio (base_url, keys)". Sections without names stand as their keys, such as "chat.max_attempts".
	Added, Removed, Changed []string
	// Restart are the keys that differ from what the process runs with, and that it cannot take before a restart.
	Restart []string
}

// None reports whether nothing changes.
func (c Changes) None() bool { return len(c.Added)+len(c.Removed)+len(c.Changed) == 0 }

// compare says what changes from c to next, and what of the fresh configuration next does not have.
func compare(c, next, fresh *Config) Changes {
	changes := Changes{Restart: c.needRestart(fresh)}
	changes.named("upstream", named(c.Upstreams), named(next.Upstreams))
	changes.named("route", routesByName(c.Routes), routesByName(next.Routes))
	changes.named("tenant", named(c.Tenants), named(next.Tenants))
	changes.named("API key of tenant", apiKeysByName(c.APIKeys), apiKeysByName(next.APIKeys))
	changes.named("key of operator", operatorKeysByName(c.OperatorKeys), operatorKeysByName(next.OperatorKeys))
	differences("", reflect.ValueOf(c).Elem(), reflect.ValueOf(next).Elem(), &changes.Changed)
	return changes
}

// named compares two sets of entries by what they are called.
func (c *Changes) named(what string, old, next map[string]reflect.Value) {
	for _, name := range sortedKeys(next) {
		was, known := old[name]
		switch {
		case !known:
			c.Added = append(c.Added, what+" "+name)
		case !reflect.DeepEqual(was.Interface(), next[name].Interface()):
			c.Changed = append(c.Changed, what+" "+name+" ("+strings.Join(fieldsThatDiffer(was, next[name]), ", ")+")")
		}
	}
	for _, name := range sortedKeys(old) {
		if _, stays := next[name]; !stays {
			c.Removed = append(c.Removed, what+" "+name)
		}
	}
}

// fieldsThatDiffer are the keys of two values of one struct that differ. A key of a caller is kept as a hash.
func fieldsThatDiffer(a, b reflect.Value) []string {
	var keys []string
	for i := range a.NumField() {
		field := a.Type().Field(i)
		switch {
		case !field.IsExported():
			if !a.Field(i).Equal(b.Field(i)) {
				keys = append(keys, "key")
			}
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			keys = append(keys, keyOf(field))
		}
	}
	return slices.Compact(keys)
}

// keyOf is the key of a field; of a loaded secret, what it is the secret of.
func keyOf(field reflect.StructField) string {
	if key := field.Tag.Get("yaml"); key != "-" {
		return key
	}
	return strings.TrimPrefix(strings.ToLower(strings.ReplaceAll(field.Name, "Key", "_Key")), "_")
}

func named[M ~map[string]V, V any](entries M) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for name, entry := range entries {
		out[name] = reflect.ValueOf(entry)
	}
	return out
}

// routesByName calls a route by what it is in the broker: one of another kind is another route.
func routesByName(routes []Route) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for _, r := range routes {
		out[r.Name+" ("+r.Kind+")"] = reflect.ValueOf(r)
	}
	return out
}

// apiKeysByName calls a key by its tenant and by the place that it comes from.
func apiKeysByName(keys []APIKey) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for _, k := range keys {
		out[unlike(out, k.Tenant+holds(k.KeyEnv, k.KeyFile, k.KeySHA256, k.AccessKey))] = reflect.ValueOf(k)
	}
	return out
}

func operatorKeysByName(keys []OperatorKey) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for _, k := range keys {
		out[unlike(out, k.Name+holds(k.KeyEnv, k.KeyFile, k.KeySHA256, ""))] = reflect.ValueOf(k)
	}
	return out
}

// holds says where a key comes from, and nothing of a hash but that there is one.
func holds(env, file, hash, accessKey string) string {
	switch place := placeOf(env, file); {
	case place != "":
		return place
	case hash != "":
		return " (a hash)"
	case accessKey != "":
		return " (access key " + accessKey + ")"
	default:
		return ""
	}
}

// unlike numbers a name that is taken: entries of one name are told apart by their order.
func unlike(taken map[string]reflect.Value, name string) string {
	for i, first := 2, name; ; i++ {
		if _, used := taken[name]; !used {
			return name
		}
		name = fmt.Sprintf("%s, number %d", first, i)
	}
}
