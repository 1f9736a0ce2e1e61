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
	maxShownValue = 100 // bytes of a bad value that an error repeats
)

// report collects everything that is wrong, one line each, and knows where each value came from.
type report struct {
	file     string
	lines    map[string]int    // YAML path to line
	vars     map[string]string // YAML path to the environment variable that set it
	reported map[string]bool   // keys with a problem: a second one would only follow from the first
	lost     map[string]bool   // keys whose value was written, and could not be taken: what is missing there is no problem of its own
	problems []problem
}

// problem is one line of the error.
type problem struct {
	line int // in the file; 0 for what is not there: a variable, or a default
	text string
}

func newReport(file string) *report {
	return &report{file: file, lines: map[string]int{}, vars: map[string]string{}, reported: map[string]bool{}, lost: map[string]bool{}}
}

// bad says that the value of key is wrong, and what would be right.
func (r *report) bad(key string, value any, want string) {
	r.say(key, fmt.Sprintf("is %s; want %s", shown(value), want))
}

// missing says that key must be set, and to what.
func (r *report) missing(key, want string) {
	r.say(key, "is missing; want "+want)
}

// say reports a problem in a sentence that goes on from the key. The text must not hold a secret.
func (r *report) say(key, text string) {
	if r.reported[key] || r.follows(key) {
		return
	}
	r.reported[key] = true
	line, where := r.where(key)
	r.problems = append(r.problems, problem{line, where + strings.TrimLeft(key+" "+text, " ")})
}

// lose is say for a value that cannot be taken as a whole.
func (r *report) lose(key, text string) {
	r.say(key, text)
	r.lost[key] = true
}

// follows reports whether a problem of key would vanish with one that was reported: its value, or one that contains it,
// was lost.
func (r *report) follows(key string) bool {
	for path := key; path != ""; path = parent(path) {
		if r.lost[path] {
			return true
		}
	}
	return false
}

// reportedBelow reports whether a value below key has a problem.
func (r *report) reportedBelow(key string) bool {
	for other := range r.reported {
		if strings.HasPrefix(other, key+".") {
			return true
		}
	}
	return false
}

// where names the variable that set key, or else the file and the line of key or of the nearest parent that is
// in it. It is empty for a default. The line is 0 where none is named.
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

// err joins the problems in the order of the file, so that it is corrected from its top to its end. What is not in the
// file comes first.
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

// parent cuts the last step of a path: routes[0].name, routes[0], routes.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// shown quotes text and writes everything else as an operator would; long values are cut.
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
