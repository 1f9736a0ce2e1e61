package config

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func routesFor(t *testing.T, routes ...Route) *Config {
	t.Helper()
	c := Default()
	c.Upstreams = Upstreams{"u": NewUpstream("http://h")}
	c.Routes = routes
	if err := c.Prepare(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestMostSpecificPatternWins(t *testing.T) {
	t.Parallel()
	c := routesFor(t,
		NewRoute("all", KindVideo, "u", "*"),
		NewRoute("wan", KindVideo, "u", "wan-*", "other"),
		NewRoute("wan2", KindVideo, "u", "wan-2*"),
		NewRoute("exact", KindVideo, "u", "wan-2.1", "wan-"),
		NewRoute("chat", KindChat, "u", "gpt-*"))
	for _, tc := range []struct{ kind, model, want string }{
		{KindVideo, "wan-2.1", "exact"},
		{KindVideo, "wan-2.2", "wan2"},
		{KindVideo, "wan-2", "wan2"},
		{KindVideo, "wan-1", "wan"},
		{KindVideo, "wan-", "exact"},
		{KindVideo, "other", "wan"},
		{KindVideo, "others", "all"},
		{KindVideo, "w", "all"},
		{KindVideo, "", "all"},
		{KindVideo, "Wan-2.1", "all"},
		{KindVideo, "*", "all"},
		{KindChat, "gpt-5", "chat"},
		{KindChat, "gpt", ""},
		{KindChat, "wan-1", ""},
		{"audio", "wan-1", ""},
	} {
		route, ok := c.Route(tc.kind, tc.model)
		if route.Name != tc.want || ok != (tc.want != "") {
			t.Errorf("Route(%s, %q) = %q, %v; want %q", tc.kind, tc.model, route.Name, ok, tc.want)
		}
	}
}

// TestDrainingRouteGivesWay checks that a draining route yields to any other route that serves the
// model, and may share its successor's patterns.
func TestDrainingRouteGivesWay(t *testing.T) {
	t.Parallel()
	old := NewRoute("old", KindVideo, "u", "wan-2.1", "only")
	old.Draining = true
	c := routesFor(t, old, NewRoute("new", KindVideo, "u", "wan-2.1"), NewRoute("wide", KindVideo, "u", "wan-*"))
	for model, want := range map[string]string{"wan-2.1": "new", "wan-2.2": "wide", "only": "old"} {
		if route, ok := c.Route(KindVideo, model); route.Name != want || !ok {
			t.Errorf("Route(%q) = %q, %v; want %q", model, route.Name, ok, want)
		}
	}
}

// TestRouteAgreesWithASearch compares the index with a search through all patterns.
func TestRouteAgreesWithASearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		patterns := rapid.SliceOfNDistinct(rapid.StringMatching(`([ab]{1,3}\*?|\*)`), 1, 12, rapid.ID[string]).Draw(t, "patterns")
		model := rapid.StringMatching(`[abc]{0,4}`).Draw(t, "model")
		c := Default()
		c.Upstreams = Upstreams{"u": NewUpstream("http://h")}
		best, score := "", -1
		for i, pattern := range patterns {
			name := "r" + string(rune('a'+i))
			c.Routes = append(c.Routes, NewRoute(name, KindVideo, "u", pattern))
			prefix, open := strings.CutSuffix(pattern, "*")
			s := -1
			switch {
			case !open && pattern == model:
				s = 1000
			case open && strings.HasPrefix(model, prefix):
				s = len(prefix)
			}
			if s > score {
				best, score = name, s
			}
		}
		if err := c.Prepare(); err != nil {
			t.Fatal(err)
		}
		if route, ok := c.Route(KindVideo, model); route.Name != best || ok != (best != "") {
			t.Fatalf("Route(%q) = %q, %v; want %q", model, route.Name, ok, best)
		}
	})
}

func TestOnePatternMayServeBothKinds(t *testing.T) {
	t.Parallel()
	c := routesFor(t, NewRoute("v", KindVideo, "u", "m"), NewRoute("c", KindChat, "u", "m"))
	if route, _ := c.Route(KindChat, "m"); route.Name != "c" {
		t.Errorf("chat goes to %q", route.Name)
	}
}

func TestModelFor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		route Route
		want  string
	}{
		{Route{}, "m"},
		{Route{UpstreamModel: "x"}, "x"},
		{Route{ModelMap: map[string]string{"m": "y"}}, "y"},
		{Route{ModelMap: map[string]string{"n": "y"}}, "m"},
	} {
		if got := tc.route.ModelFor(tc.route.Upstream, "m"); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.route, got, tc.want)
		}
	}
}

func BenchmarkRoute(b *testing.B) {
	c := Default()
	c.Upstreams = Upstreams{"u": NewUpstream("http://h")}
	c.Routes = []Route{NewRoute("a", KindVideo, "u", "*"), NewRoute("b", KindVideo, "u", "wan-*"), NewRoute("c", KindVideo, "u", "wan-2.1-turbo")}
	if err := c.Prepare(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Route(KindVideo, "wan-2.2-turbo"); !ok {
			b.Fatal("no route")
		}
	}
}
