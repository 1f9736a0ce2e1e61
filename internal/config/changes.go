package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Changes describes a reload for the log. It contains names and keys, but no values and no secrets.
type Changes struct {
	// Added, Removed and Changed name routes, upstreams, keys and tenants. Changed also lists the
	// changed keys, as in "upstream studio (base_url, keys)". Sections without names appear as
	// their keys, such as "chat.max_attempts".
	Added, Removed, Changed []string
	// Restart lists the changed keys that take effect only after a restart.
	Restart []string
}

// None reports whether nothing changed.
func (c Changes) None() bool { return len(c.Added)+len(c.Removed)+len(c.Changed) == 0 }

// compare returns the changes from c to next, and the changes in fresh that next could not adopt.
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

// fieldsThatDiffer returns the keys whose values differ between two structs of the same type. An
// unexported field is the hash of a caller's key, reported as "key".
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

// keyOf returns the YAML key of a field. A loaded secret has no YAML key, so keyOf derives one from
// the field's name.
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

// routesByName includes the kind in the name, as the broker does, because a route whose kind
// changes counts as another route.
func routesByName(routes []Route) map[string]reflect.Value {
	out := map[string]reflect.Value{}
	for _, r := range routes {
		out[r.Name+" ("+r.Kind+")"] = reflect.ValueOf(r)
	}
	return out
}

// apiKeysByName names a key by its tenant and its source.
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

// holds describes where a key comes from, without revealing any of its hash.
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

// unlike makes a name unique by numbering entries of the same name in their order.
func unlike(taken map[string]reflect.Value, name string) string {
	for i, first := 2, name; ; i++ {
		if _, used := taken[name]; !used {
			return name
		}
		name = fmt.Sprintf("%s, number %d", first, i)
	}
}
