package hostile

import (
	"fmt"
	"strconv"
	"strings"
)

// JSON returns a body of this kind that is malformed, unusual or excessive.
func JSON(s *Source, k Kind, t Target) Input {
	form := One(s, jsonForms)
	// Large bodies are expensive for both sides, so most are skipped.
	for form.large && !s.Chance(8) {
		form = One(s, jsonForms)
	}
	return Input{Name: string(k) + ": " + form.name, Bytes: []byte(form.make(s, k.good(t)))}
}

// jsonForm makes a body from the members of a valid one.
type jsonForm struct {
	name  string
	large bool
	make  func(s *Source, good []member) string
}

var jsonForms = []jsonForm{
	{"nothing", false, func(*Source, []member) string { return "" }},
	{"white space", false, func(s *Source, _ []member) string { return strings.Repeat(" \t\r\n", 1+s.N(2000)) }},
	{"another value", false, func(s *Source, _ []member) string { return One(s, wrongValues) }},
	{"any bytes", false, func(s *Source, _ []member) string { return string(s.Bytes(1 + s.N(300))) }},
	{"cut short", false, func(s *Source, m []member) string { b := render(m); return b[:s.N(len(b))] }},
	{"a byte changed", false, changed},
	{"text behind it", false, func(s *Source, m []member) string {
		return render(m) + One(s, []string{"{}", ",", "}", "x", "\x00", "null"})
	}},
	{"a byte order mark", false, func(_ *Source, m []member) string { return "\ufeff" + render(m) }},
	{"UTF-16", false, utf16},
	{"comments", false, func(_ *Source, m []member) string { return "/* a */" + render(m) + "// b" }},
	{"NaN", false, value("NaN")},
	{"Infinity", false, value("-Infinity")},
	{"a leading zero", false, value("012")},
	{"a hexadecimal", false, value("0x10")},
	{"a long number", false, value(strings.Repeat("9", 100_000))},
	{"a long exponent", false, value("1e" + strings.Repeat("9", 100_000))},
	{"single quotes", false, func(_ *Source, m []member) string { return strings.ReplaceAll(render(m), `"`, `'`) }},
	{"a trailing comma", false, func(_ *Source, m []member) string { return strings.TrimSuffix(render(m), "}") + ",}" }},
	{"a member twice", false, func(s *Source, m []member) string { return render(append(m, One(s, m))) }},
	{"a member twice, escaped", false, func(_ *Source, m []member) string {
		return strings.TrimSuffix(render(m), "}") + `,"\u006dodel":"other","mode\u006c":"x"}`
	}},
	{"no UTF-8", false, func(s *Source, m []member) string { return strings.Replace(render(m), "a cat", "\xff\xfe"+Text(s), 1) }},
	{"half a surrogate pair", false, value(`"\ud83d"`)},
	{"a control character", false, value("\"a\x01\nb\"")},
	{"a hostile text", false, func(s *Source, m []member) string { return render(set(m, One(s, m).name, strconv.Quote(Text(s)))) }},
	{"a hostile name", false, func(s *Source, m []member) string { return render(append(m, member{Text(s), "1"})) }},
	{"no members", false, func(*Source, []member) string { return "{}" }},
	{"a member less", false, func(s *Source, m []member) string { i := s.N(len(m)); return render(append(m[:i:i], m[i+1:]...)) }},
	{"depth at the limit", false, func(s *Source, m []member) string { return render(append(m, member{"deep", deep(198 + s.N(4))})) }},
	{"objects in objects", false, func(_ *Source, m []member) string {
		return render(append(m, member{"deep", strings.Repeat(`{"a":`, 9_000) + "1" + strings.Repeat("}", 9_000)}))
	}},
	{"brackets that do not end", false, func(s *Source, _ []member) string {
		return strings.Repeat(One(s, []string{"[", `{"a":`, `[{"":`}), 20_000)
	}},
	{"brackets in a string", false, value(`"` + strings.Repeat(`[{\"`, 20_000) + `"`)},
	{"backslashes", false, value(`"` + strings.Repeat(`\\`, 50_000) + `\""`)},
	{"many of one name", false, func(_ *Source, m []member) string {
		return render(append(m, member{"x", "{" + strings.Repeat(`"a":1,`, 5000) + `"a":1}`}))
	}},
	{"many members", false, func(s *Source, m []member) string {
		return render(append(m, member{"x", manyMembers(2000 + s.N(2000))}))
	}},

	{"a depth bomb", true, func(_ *Source, m []member) string { return render(append(m, member{"deep", deep(500_000)})) }},
	{"a name of 1 MB", true, func(_ *Source, m []member) string { return render(append(m, member{strings.Repeat("k", 1<<20), "1"})) }},
	{"a text of 2 MB", true, func(s *Source, m []member) string {
		return render(set(m, One(s, m).name, `"`+strings.Repeat("x", 2<<20)+`"`))
	}},
	{"an array of 1,000,000", true, func(_ *Source, m []member) string {
		return render(append(m, member{"x", "[" + strings.Repeat("0,", 999_999) + "0]"}))
	}},
	{"100,000 members", true, func(_ *Source, m []member) string { return render(append(m, member{"x", manyMembers(100_000)})) }},
	{"100,000 members at the top", true, func(_ *Source, m []member) string {
		return strings.TrimSuffix(render(m), "}") + "," + manyMembers(100_000)[1:]
	}},
	{"a Base64 image of 3 MB", true, func(_ *Source, m []member) string {
		return render(append(m, member{"image", `"data:image/png;base64,` + strings.Repeat("iVBORw0K", 3<<17) + `"`}))
	}},
}

// value returns a form that replaces one value with text.
func value(text string) func(*Source, []member) string {
	return func(s *Source, m []member) string { return render(set(m, One(s, m).name, text)) }
}

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func manyMembers(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":0`, (i*7919)%n) // out of order, which makes sorting costly
	}
	return "{" + b.String()[1:] + "}"
}

func changed(s *Source, m []member) string {
	b := []byte(render(m))
	for range 1 + s.N(3) {
		b[s.N(len(b))] = byte(s.N(256))
	}
	return string(b)
}

func utf16(_ *Source, m []member) string {
	var b strings.Builder
	_, _ = b.WriteString("\xff\xfe")
	for _, c := range []byte(render(m)) {
		_, _ = b.Write([]byte{c, 0})
	}
	return b.String()
}
