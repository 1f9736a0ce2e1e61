package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Reload loads the configuration again for a process that runs with c, which stays as it is. What it returns is c with
// everything that a running process can take from it: upstreams, routes, keys, what operators read, tenants, the limits of tenants, chat,
// retry, the level of the log, and the bounds of bodies, archives and streams in limits. The rest is that of c, and so is ack_wait
// of a route that c has; where it was changed, Changes say so.
//
// Routes and upstreams, and which upstreams a route has, are those of c: the replicas that are restarted one after the
// other take others, and lose nothing. A file that has others is refused whole.
//
// Both must be right, the configuration as it would start a process, and what this one would go on with: an error
// joins all problems as Load does.
func (c *Config) Reload(source Source) (next *Config, changes Changes, err error) {
	source.ReadFile = onceEach(source.ReadFile) // so that both times say the same
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

// otherRoutes says which routes and upstreams another configuration has or lacks, and which routes have other upstreams.
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

// upstreamsOf names the upstreams of a route.
func upstreamsOf(r Route) []string {
	names := make([]string, len(r.Upstreams))
	for i, t := range r.Upstreams {
		names[i] = t.Name
	}
	slices.Sort(names)
	return names
}

// again loads, with the sandbox where the process has one.
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

// taking returns c with what a running process can take from another configuration.
func (c *Config) taking(from *Config) *Config {
	next := *c
	next.Upstreams, next.Routes = from.Upstreams, slices.Clone(from.Routes)
	next.APIKeys, next.OperatorKeys, next.OperatorsReadBodies = from.APIKeys, from.OperatorKeys, from.OperatorsReadBodies
	next.Tenants, next.Limits.Tenant = from.Tenants, from.Limits.Tenant
	next.Limits.ClaimCheckBytes, next.Limits.ArchiveBytes, next.Limits.StreamTime = from.Limits.ClaimCheckBytes, from.Limits.ArchiveBytes, from.Limits.StreamTime
	next.Chat, next.Retry = from.Chat, from.Retry
	next.Log.Level = from.Log.Level
	for i, r := range next.Routes {
		// What is held was extended for the old one.
		if old, ok := c.RouteNamed(r.Kind, r.Name); ok {
			next.Routes[i].AckWait = old.AckWait
		}
	}
	return &next
}

// RouteNamed finds a route by what it is in the broker.
func (c *Config) RouteNamed(kind, name string) (Route, bool) {
	for _, r := range c.Routes {
		if r.Kind == kind && r.Name == name {
			return r, true
		}
	}
	return Route{}, false
}

// needRestart are the keys of a fresh configuration that a process which runs with c cannot take: all that taking would
// change back.
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

// differences adds the paths of the values that differ. Lists and maps of structs are left out: they are taken.
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
