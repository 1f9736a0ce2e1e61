package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// typos returns name with one letter dropped, swapped, replaced or inserted, at every position.
func typos(name string) []string {
	var out []string
	for i := range len(name) {
		out = append(out, name[:i]+name[i+1:], name[:i]+"x"+name[i+1:], name[:i]+"x"+name[i:])
		if i > 0 && name[i-1] != name[i] {
			out = append(out, name[:i-1]+name[i:i+1]+name[i-1:i]+name[i+1:])
		}
	}
	return out
}

// eachSection visits the keys of every struct of the configuration.
func eachSection(t reflect.Type, visit func(names []string)) {
	visit(sortedKeys(yamlFields(t)))
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key == "" || key == "-" {
			continue
		}
		if element, _ := structOf(t.Field(i).Type); element != nil {
			eachSection(element, visit)
		}
	}
}

// TestEveryTypingErrorIsUnderstood checks that every single typing error in a key or variable
// suggests the right name.
func TestEveryTypingErrorIsUnderstood(t *testing.T) {
	t.Parallel()
	understood := func(names []string) {
		for _, name := range names {
			for _, typed := range typos(name) {
				if got := nearest(typed, names); !slices.Contains(names, typed) && !slices.Contains(got, name) {
					t.Errorf("%q is taken for %q; want %s among %v", typed, got, name, names)
				}
			}
		}
	}
	eachSection(reflect.TypeFor[Config](), understood)
	understood(variables())
}

func TestNoGuess(t *testing.T) {
	t.Parallel()
	for _, typed := range []string{"zebra", "x", "", strings.Repeat("a", maxGuess+1)} {
		if got := nearest(typed, []string{"addr", "tls", "url"}); got != nil {
			t.Errorf("%.10q is taken for %v", typed, got)
		}
	}
}

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"url", "url", 0},
		{"", "url", 3},
		{"ulr", "url", 1},
		{"rul", "url", 1},
		{"ur", "url", 1},
		{"urll", "url", 1},
		{"uxl", "url", 1},
		{"data_dri", "data_dir", 1},
		{"kitten", "sitting", 3},
	} {
		if got := editDistance(tc.a, tc.b); got != tc.want {
			t.Errorf("%q and %q: %d, want %d", tc.a, tc.b, got, tc.want)
		}
		if got := editDistance(tc.b, tc.a); got != tc.want {
			t.Errorf("%q and %q: %d, want %d", tc.b, tc.a, got, tc.want)
		}
	}
}
