package console

import (
	"maps"
	"slices"
	"strings"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
)

// names are the configured names, sorted. Jobs may have others, for example of a removed route.
type names struct{ Tenants, Routes, Models, Upstreams []string }

func namesIn(cfg *config.Config) names {
	tenants, routes, models := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, k := range cfg.APIKeys {
		tenants[k.Tenant] = true
	}
	for name := range cfg.Tenants {
		tenants[name] = true
	}
	if len(tenants) == 0 {
		tenants[config.DefaultTenant] = true
	}
	for _, r := range cfg.Routes {
		routes[r.Name] = true
		for _, m := range r.Models {
			if !strings.HasSuffix(m, "*") { // a pattern, which no job has as its model
				models[m] = true
			}
		}
	}
	return names{slices.Sorted(maps.Keys(tenants)), slices.Sorted(maps.Keys(routes)), slices.Sorted(maps.Keys(models)), slices.Sorted(maps.Keys(cfg.Upstreams))}
}

// field is a filter with the values that it offers.
type field struct {
	Label, Name, Value string
	Options            []string
}

// Field returns a filter of the page. It offers the page's own value too.
func (p page) Field(label, name string, options []string) field {
	f := field{Label: label, Name: name, Value: p.Query(name), Options: options}
	if f.Value != "" && !slices.Contains(options, f.Value) {
		f.Options = append(slices.Clip(options), f.Value)
	}
	return f
}

// errorCodes returns all error codes, sorted.
func errorCodes() (codes []string) {
	for _, m := range errcode.Table() {
		codes = append(codes, string(m.Code))
	}
	slices.Sort(codes)
	return codes
}
