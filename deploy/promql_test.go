package deploy_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// query holds the selectors and labels of a PromQL expression.
type query struct {
	selectors []selector
	// labels are the labels that the result can have. Scraping adds instance and job.
	labels map[string]bool
}

// selector is a metric selector in an expression.
type selector struct {
	metric   string
	matchers []matcher
	window   string // such as "5m"; empty for an instant vector
	function string // the innermost function applied to it; empty for none
}

// matcher is label="value" with one of = != =~ !~.
type matcher struct {
	label, op, value string
}

// parseQuery parses the subset of PromQL that deploy uses: selectors with ranges, operators with
// matching and grouping, aggregations, and the functions in the table below. Other syntax is an
// error.
func parseQuery(text string) (q query, err error) {
	tokens, err := scan(text)
	if err != nil {
		return query{}, err
	}
	p := &queryParser{tokens: tokens}
	defer func() {
		if r := recover(); r != nil {
			problem, ok := r.(syntaxError)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("%s before %q", problem, strings.Join(p.tokens[p.at:], " "))
		}
	}()
	kind, labels := p.expression(0)
	if p.at < len(p.tokens) {
		p.fail("unexpected input after the expression")
	}
	if kind != vector {
		p.fail("the result is a %s, not a vector", kind)
	}
	return query{p.selectors, labels}, nil
}

var tokenPattern = regexp.MustCompile(`^(?:` +
	`"(?:[^"\\]|\\.)*"|` + // strings
	`[0-9]+(?:ms|[smhdwy])(?:[0-9]+(?:ms|[smhdwy]))*|[0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?|` + // durations and numbers
	`[a-zA-Z_:][a-zA-Z0-9_:]*|=~|!~|==|!=|<=|>=|[-+*/%^<>=(){}\[\],])`)

func scan(text string) (tokens []string, err error) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		t := tokenPattern.FindString(text)
		if t == "" {
			return nil, fmt.Errorf("cannot parse %q", text)
		}
		tokens, text = append(tokens, t), text[len(t):]
	}
	return tokens, nil
}

type valueKind string

const (
	scalar valueKind = "scalar"
	vector valueKind = "vector"
	ranged valueKind = "range"
)

// functions maps functions to their argument types. All return vectors.
var functions = map[string][]valueKind{
	"rate": {ranged}, "increase": {ranged}, "histogram_quantile": {scalar, vector},
	"absent": {vector}, "abs": {vector}, "clamp_min": {vector, scalar}, "time": {},
}

var aggregations = []string{"sum", "max", "min", "avg", "count"}

// precedences orders the operators, weakest first.
var precedences = map[string]int{
	"or": 1, "and": 2, "unless": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5, "^": 6,
}

type syntaxError string

type queryParser struct {
	tokens    []string
	at        int
	selectors []selector
}

func (p *queryParser) fail(format string, args ...any) {
	panic(syntaxError(fmt.Sprintf(format, args...)))
}

func (p *queryParser) peek() string {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return ""
}

func (p *queryParser) next() string {
	t := p.peek()
	if t == "" {
		p.fail("unexpected end")
	}
	p.at++
	return t
}

func (p *queryParser) accept(token string) bool {
	if p.peek() != token {
		return false
	}
	p.at++
	return true
}

func (p *queryParser) expect(token string) {
	if !p.accept(token) {
		p.fail("%s is missing", token)
	}
}

// expression parses operands joined by operators whose precedence is least or higher.
func (p *queryParser) expression(least int) (valueKind, map[string]bool) {
	kind, labels := p.operand()
	for {
		strength := precedences[p.peek()]
		if strength == 0 || strength < least {
			return kind, labels
		}
		op := p.next()
		p.accept("bool")
		more := p.matching()
		right, rightLabels := p.expression(strength + 1)
		if kind == ranged || right == ranged {
			p.fail("%s applied to a range", op)
		}
		switch {
		case kind == scalar:
			kind, labels = right, rightLabels
		case right == vector && op == "or":
			labels = union(labels, rightLabels)
		}
		labels = union(labels, more)
	}
}

// matching parses on, ignoring and grouping. It returns the labels that the grouping adds.
func (p *queryParser) matching() map[string]bool {
	if !p.accept("on") && !p.accept("ignoring") {
		return nil
	}
	p.names()
	if (p.accept("group_left") || p.accept("group_right")) && p.peek() == "(" {
		return p.names()
	}
	return nil
}

func (p *queryParser) names() map[string]bool {
	out := map[string]bool{}
	p.expect("(")
	for !p.accept(")") {
		out[p.name()] = true
		if p.peek() != ")" {
			p.expect(",")
		}
	}
	return out
}

var namePattern = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)

func (p *queryParser) name() string {
	t := p.next()
	if !namePattern.MatchString(t) {
		p.fail("%s is not a name", t)
	}
	return t
}

func (p *queryParser) operand() (valueKind, map[string]bool) {
	switch t := p.next(); {
	case t == "(":
		kind, labels := p.expression(0)
		p.expect(")")
		return kind, labels
	case t == "-":
		return p.operand()
	case t[0] >= '0' && t[0] <= '9':
		return scalar, nil
	case slices.Contains(aggregations, t):
		return vector, p.aggregation()
	case p.peek() == "(":
		return p.call(t)
	case namePattern.MatchString(t):
		return p.selector(t)
	default:
		p.fail("unexpected %s", t)
		return "", nil
	}
}

// aggregation parses an aggregation with by before or after its operand.
func (p *queryParser) aggregation() map[string]bool {
	kept, grouped := p.grouping()
	p.expect("(")
	kind, labels := p.expression(0)
	p.expect(")")
	if kind != vector {
		p.fail("aggregation of a %s", kind)
	}
	if !grouped {
		kept, _ = p.grouping()
	}
	for name := range kept {
		if !labels[name] {
			p.fail("grouped by %s, a label that no series here has", name)
		}
	}
	return kept
}

func (p *queryParser) grouping() (kept map[string]bool, grouped bool) {
	if p.accept("by") {
		return p.names(), true
	}
	return map[string]bool{}, false
}

func (p *queryParser) call(name string) (valueKind, map[string]bool) {
	want, known := functions[name]
	if !known {
		p.fail("unknown function %s", name)
	}
	p.expect("(")
	first := len(p.selectors)
	labels := map[string]bool{}
	for i, kind := range want {
		if i > 0 {
			p.expect(",")
		}
		got, l := p.expression(0)
		if got != kind {
			p.fail("%s takes a %s, not a %s", name, kind, got)
		}
		labels = union(labels, l)
	}
	p.expect(")")
	for i := range p.selectors[first:] {
		if s := &p.selectors[first+i]; s.function == "" {
			s.function = name
		}
	}
	return vector, labels
}

func (p *queryParser) selector(metric string) (valueKind, map[string]bool) {
	s := selector{metric: metric}
	if p.accept("{") {
		for !p.accept("}") {
			s.matchers = append(s.matchers, p.matcher())
			if p.peek() != "}" {
				p.expect(",")
			}
		}
	}
	kind := vector
	if p.accept("[") {
		if s.window = p.next(); !strings.ContainsAny(s.window[len(s.window)-1:], "smhdwy") {
			p.fail("%s is not a duration", s.window)
		}
		p.expect("]")
		kind = ranged
	}
	p.selectors = append(p.selectors, s)
	labels := map[string]bool{"instance": true, "job": true}
	for _, l := range metrics()[family(metric)].labels {
		labels[l] = true
	}
	if strings.HasSuffix(metric, "_bucket") {
		labels["le"] = true
	}
	return kind, labels
}

func (p *queryParser) matcher() matcher {
	m := matcher{label: p.name(), op: p.next(), value: p.next()}
	if !slices.Contains([]string{"=", "!=", "=~", "!~"}, m.op) || m.value[0] != '"' {
		p.fail("%s%s%s is not a matcher", m.label, m.op, m.value)
	}
	m.value = strings.Trim(m.value, `"`)
	if m.op[len(m.op)-1] == '~' {
		if _, err := regexp.Compile("^(?:" + m.value + ")$"); err != nil {
			p.fail("%v", err)
		}
	}
	return m
}

func union(a, b map[string]bool) map[string]bool {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]bool{}
	}
	maps.Copy(out, b)
	return out
}
