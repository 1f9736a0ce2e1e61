package config

import (
	"fmt"
	"slices"
	"strings"
)

// patternIndex finds the route of a model by exact name or, failing that, by the longest prefix.
// "*" is the empty prefix.
type patternIndex struct {
	exact    map[string]int
	prefixes map[string]int
	lengths  []int // distinct lengths of the prefixes, longest first
}

// routingKey selects the routes that compete for a model.
type routingKey struct {
	kind     string
	draining bool
}

// Route returns the route with the most specific pattern for model: an exact name, then the longest
// prefix, then "*". It returns a draining route only if no other route serves the model. The bool
// is false if no route of that kind (KindVideo, KindChat) serves the model, or if Prepare has not
// been called.
func (c *Config) Route(kind, model string) (Route, bool) {
	for _, draining := range []bool{false, true} {
		if i, ok := c.routing[routingKey{kind, draining}].find(model); ok {
			return c.Routes[i], true
		}
	}
	return Route{}, false
}

func (x patternIndex) find(model string) (int, bool) {
	if i, ok := x.exact[model]; ok {
		return i, true
	}
	for _, n := range x.lengths {
		if n > len(model) {
			continue
		}
		if i, ok := x.prefixes[model[:n]]; ok {
			return i, true
		}
	}
	return 0, false
}

// indexRoutes builds the index for Route. Two routes of the same kind must not have the same
// pattern, because either could win. But a draining route may share patterns with its successor.
func (c *Config) indexRoutes(r *report) {
	c.routing = map[routingKey]patternIndex{}
	for i, route := range c.Routes {
		key := routingKey{route.Kind, route.Draining}
		index, ok := c.routing[key]
		if !ok {
			index = patternIndex{exact: map[string]int{}, prefixes: map[string]int{}}
		}
		for j, pattern := range route.Models {
			if other, taken := index.add(pattern, i); taken {
				r.bad(fmt.Sprintf("routes[%d].models[%d]", i, j), pattern,
					fmt.Sprintf("a pattern that no other %s route has; routes[%d] (%s) has it too", route.Kind, other, c.Routes[other].Name))
			}
		}
		c.routing[key] = index
	}
	for key, index := range c.routing {
		for prefix := range index.prefixes {
			index.lengths = append(index.lengths, len(prefix))
		}
		slices.Sort(index.lengths)
		index.lengths = slices.Compact(index.lengths)
		slices.Reverse(index.lengths)
		c.routing[key] = index
	}
}

// add records pattern for route i unless another route has it.
func (x patternIndex) add(pattern string, i int) (other int, taken bool) {
	table := x.exact
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		table, pattern = x.prefixes, prefix
	}
	if other, taken = table[pattern]; taken {
		return other, true
	}
	table[pattern] = i
	return 0, false
}
