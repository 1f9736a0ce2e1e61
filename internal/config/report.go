package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	maxProblems   = 50
	maxShownValue = 100 // bytes of a bad value that an error shows
)

// report collects problems, one line each, and tracks where each value came from.
type report struct {
	file     string
	lines    map[string]int    // YAML path to line
	vars     map[string]string // YAML path to the environment variable that set it
	reported map[string]bool   // keys with a problem; further problems with the same key are consequences
	lost     map[string]bool   // keys whose value was rejected as a whole, so missing values there are consequences
	problems []problem
}

type problem struct {
	line int // in the file; 0 for a variable or a default
	text string
}

func newReport(file string) *report {
	return &report{file: file, lines: map[string]int{}, vars: map[string]string{}, reported: map[string]bool{}, lost: map[string]bool{}}
}

// bad reports a wrong value and the valid ones.
func (r *report) bad(key string, value any, want string) {
	r.add(key, fmt.Sprintf("is %s; want %s", shown(value), want))
}

func (r *report) missing(key, want string) {
	r.add(key, "is missing; want "+want)
}

// add reports a problem. text continues a sentence that begins with the key, and must not contain a
// secret.
func (r *report) add(key, text string) {
	if r.reported[key] || r.follows(key) {
		return
	}
	r.reported[key] = true
	line, where := r.where(key)
	r.problems = append(r.problems, problem{line, where + strings.TrimLeft(key+" "+text, " ")})
}

// lose is like add, but for a value that is rejected as a whole.
func (r *report) lose(key, text string) {
	r.add(key, text)
	r.lost[key] = true
}

// follows reports whether a problem with key would be a consequence of one already reported,
// because key or one of its parents was rejected as a whole.
func (r *report) follows(key string) bool {
	for path := key; path != ""; path = parent(path) {
		if r.lost[path] {
			return true
		}
	}
	return false
}

func (r *report) reportedBelow(key string) bool {
	for other := range r.reported {
		if strings.HasPrefix(other, key+".") {
			return true
		}
	}
	return false
}

// where returns the origin of key: the variable that set it, or the file and line of key or its
// nearest parent in the file. text is empty for a default. line is 0 unless the origin is a line in
// the file.
func (r *report) where(key string) (line int, text string) {
	if name, ok := r.vars[key]; ok && name != key {
		return 0, name + ": "
	}
	for path := key; path != ""; path = parent(path) {
		if line, ok := r.lines[path]; ok {
			return line, fmt.Sprintf("%s:%d: ", r.file, line)
		}
	}
	return 0, ""
}

// err joins the problems. Problems outside the file come first, followed by the others in the order
// of the file.
func (r *report) err() error {
	slices.SortStableFunc(r.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	var all []error
	for _, p := range r.problems[:min(len(r.problems), maxProblems)] {
		all = append(all, errors.New(p.text))
	}
	if dropped := len(r.problems) - len(all); dropped > 0 {
		all = append(all, fmt.Errorf("and %d more problems", dropped))
	}
	return errors.Join(all...)
}

// parent removes the last step of a path. The parent of routes[0].name is routes[0], and its parent
// is routes.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// shown formats a value for an error. It quotes and truncates text, and formats anything else with
// formatScalar.
func shown(value any) string {
	text, ok := value.(string)
	if !ok {
		return formatScalar(reflect.ValueOf(value))
	}
	if len(text) > maxShownValue {
		return strconv.Quote(text[:maxShownValue]) + "..."
	}
	return strconv.Quote(text)
}
