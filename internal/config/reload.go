package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Reload loads the configuration again for a process that runs with c. It does not change c. next
// is c with the new values of the settings that a running process can adopt: upstreams, routes,
// keys, operators_read_bodies, tenants, chat, retry, log.level, limits.tenant,
// limits.claim_check_bytes, limits.archive_bytes and limits.stream_time. All other settings keep
// their values, and so does the ack_wait of existing routes. changes.Restart lists the settings
// that differ.
//
// The set of routes, the set of upstreams and the upstreams of each route cannot change. If they
// differ, Reload returns an error, because the change requires a rolling restart.
//
// Both the loaded configuration and next must be valid. The error joins all problems, as in Load.
func (c *Config) Reload(source Source) (next *Config, changes Changes, err error) {
	source.ReadFile = onceEach(source.ReadFile) // so that both loads see the same content
	fresh, err := c.again(source, nil)
	if err != nil {
		return nil, Changes{}, err
	}
	if next, err = c.again(source, c); err != nil {
		return nil, Changes{}, err
	}
	if other := c.otherRoutes(next); len(other) > 0 {
		return nil, Changes{}, fmt.Errorf("a reload cannot change routes or upstreams this way: %s; restart the replicas one by one instead", strings.Join(other, ", "))
	}
	return next, compare(c, next, fresh), nil
}

// otherRoutes describes added and removed routes and upstreams, and routes whose upstreams changed.
func (c *Config) otherRoutes(next *Config) []string {
	var found Changes
	found.named("upstream", named(c.Upstreams), named(next.Upstreams))
	found.named("route", routesByName(c.Routes), routesByName(next.Routes))
	var out []string
	for _, name := range found.Added {
		out = append(out, name+" is new")
	}
	for _, name := range found.Removed {
		out = append(out, name+" is gone")
	}
	for _, r := range next.Routes {
		if old, ok := c.RouteNamed(r.Kind, r.Name); ok && !slices.Equal(upstreamsOf(old), upstreamsOf(r)) {
			out = append(out, "route "+r.Name+" has other upstreams")
		}
	}
	return out
}

func upstreamsOf(r Route) []string {
	names := make([]string, len(r.Upstreams))
	for i, t := range r.Upstreams {
		names[i] = t.Name
	}
	slices.Sort(names)
	return names
}

// again loads the configuration and adds the sandbox if the process has one.
func (c *Config) again(source Source, running *Config) (*Config, error) {
	loaded, err := load(source, running)
	if err == nil && c.Sandbox.Enabled {
		err = loaded.AddSandbox(c.Upstreams[SandboxUpstream].BaseURL)
	}
	if err == nil && c.Sandbox.Trial {
		loaded.ShowAll()
	}
	return loaded, err
}

func onceEach(read func(path string) ([]byte, error)) func(path string) ([]byte, error) {
	if read == nil {
		read = readFile
	}
	type answer struct {
		content []byte
		err     error
	}
	known := map[string]answer{}
	return func(path string) ([]byte, error) {
		if _, ok := known[path]; !ok {
			content, err := read(path)
			known[path] = answer{content, err}
		}
		return known[path].content, known[path].err
	}
}

// taking returns a copy of c in which the settings that a running process can adopt have the values
// of the other configuration.
func (c *Config) taking(from *Config) *Config {
	next := *c
	next.Upstreams, next.Routes = from.Upstreams, slices.Clone(from.Routes)
	next.APIKeys, next.OperatorKeys, next.OperatorsReadBodies = from.APIKeys, from.OperatorKeys, from.OperatorsReadBodies
	next.Tenants, next.Limits.Tenant = from.Tenants, from.Limits.Tenant
	next.Limits.ClaimCheckBytes, next.Limits.ArchiveBytes, next.Limits.StreamTime = from.Limits.ClaimCheckBytes, from.Limits.ArchiveBytes, from.Limits.StreamTime
	next.Chat, next.Retry = from.Chat, from.Retry
	next.Log.Level = from.Log.Level
	for i, r := range next.Routes {
		// Held messages were extended according to the old value.
		if old, ok := c.RouteNamed(r.Kind, r.Name); ok {
			next.Routes[i].AckWait = old.AckWait
		}
	}
	return &next
}

// RouteNamed returns the route with this kind and name.
func (c *Config) RouteNamed(kind, name string) (Route, bool) {
	for _, r := range c.Routes {
		if r.Kind == kind && r.Name == name {
			return r, true
		}
	}
	return Route{}, false
}

// needRestart returns the keys of fresh that a process running with c cannot adopt.
func (c *Config) needRestart(fresh *Config) []string {
	var keys []string
	kept := c.taking(fresh)
	differences("", reflect.ValueOf(kept).Elem(), reflect.ValueOf(fresh).Elem(), &keys)
	for i, r := range kept.Routes {
		if r.AckWait != fresh.Routes[i].AckWait {
			keys = append(keys, "ack_wait of route "+r.Name)
		}
	}
	return keys
}

// differences appends the paths of differing values. It skips lists and maps of structs, because a
// reload adopts them.
func differences(path string, a, b reflect.Value, into *[]string) {
	for i := range a.NumField() {
		field := a.Type().Field(i)
		if !field.IsExported() || field.Tag.Get("yaml") == "" {
			continue
		}
		at := join(path, keyOf(field))
		switch element, step := structOf(field.Type); {
		case step != "":
		case element != nil && element != reflect.TypeFor[Secret]():
			differences(at, a.Field(i), b.Field(i), into)
		case !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()):
			*into = append(*into, at)
		}
	}
}
