package hostile

import (
	"fmt"
	"strings"
)

// Form returns a multipart/form-data body for POST /v1/videos and its Content-Type.
func Form(s *Source, t Target) (in Input, contentType string) {
	form := One(s, forms)
	for form.large && !s.Chance(8) {
		form = One(s, forms)
	}
	parts := []string{field("model", "sandbox-videos"), field("prompt", "a cat "+t.Marker)}
	contentType = "multipart/form-data; boundary=" + boundary
	body := form.make(s, parts, &contentType)
	return Input{Name: "form: " + form.name, Bytes: []byte(body)}, contentType
}

const boundary = "XXhostileXX"

// formOf makes a hostile body from the parts of a valid form. It may change the Content-Type.
type formOf struct {
	name  string
	large bool
	make  func(s *Source, parts []string, contentType *string) string
}

func field(name, value string) string {
	return part(`form-data; name="`+name+`"`, "", value)
}

func part(disposition, headers, content string) string {
	return "Content-Disposition: " + disposition + "\r\n" + headers + "\r\n" + content
}

// joined returns a valid body of these parts.
func joined(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		_, _ = b.WriteString("--" + boundary + "\r\n" + p + "\r\n")
	}
	return b.String() + "--" + boundary + "--\r\n"
}

// with returns a maker that adds parts.
func with(more ...string) func(*Source, []string, *string) string {
	return func(_ *Source, parts []string, _ *string) string { return joined(append(parts, more...)...) }
}

// typed returns a maker that changes only the Content-Type.
func typed(contentType string) func(*Source, []string, *string) string {
	return func(_ *Source, parts []string, as *string) string {
		*as = contentType
		return joined(parts...)
	}
}

var forms = []formOf{
	{"without a boundary", false, typed("multipart/form-data")},
	{"an empty boundary", false, typed("multipart/form-data; boundary=")},
	{"another boundary", false, typed("multipart/form-data; boundary=other")},
	{"a long boundary", false, typed("multipart/form-data; boundary=" + strings.Repeat("b", 300))},
	{"a boundary of odd characters", false, typed(`multipart/form-data; boundary="--\"\\;,= "`)},
	{"two boundaries", false, typed("multipart/form-data; boundary=a; boundary=" + boundary)},
	{"multipart/mixed", false, typed("multipart/mixed; boundary=" + boundary)},
	{"a broken media type", false, typed("multipart/form-data;;;=; boundary")},
	{"no parts", false, func(*Source, []string, *string) string { return "--" + boundary + "--\r\n" }},
	{"nothing", false, func(*Source, []string, *string) string { return "" }},
	{"a preamble", false, func(_ *Source, p []string, _ *string) string {
		return strings.Repeat("preamble\r\n", 20_000) + joined(p...)
	}},
	{"an epilogue", false, func(_ *Source, p []string, _ *string) string {
		return joined(p...) + strings.Repeat("epilogue\r\n", 20_000)
	}},
	{"line feeds alone", false, func(_ *Source, p []string, _ *string) string { return strings.ReplaceAll(joined(p...), "\r\n", "\n") }},
	{"cut short", false, func(s *Source, p []string, _ *string) string { b := joined(p...); return b[:s.N(len(b))] }},
	{"without the last boundary", false, func(_ *Source, p []string, _ *string) string {
		return strings.TrimSuffix(joined(p...), "--"+boundary+"--\r\n")
	}},
	{"nested", false, with("Content-Type: multipart/mixed; boundary=" + boundary + "\r\nContent-Disposition: form-data; name=\"metadata\"\r\n\r\n" + joined(field("a", "b")))},
	{"boundaries in boundaries", false, with(field("seconds", strings.Repeat("--"+boundary+"\r\n", 500)))},
	{"a part without a header", false, with("\r\nx")},
	{"a part without a name", false, with(part("form-data", "", "x"), part(`attachment; name="a"`, "", "x"))},
	{"a name twice", false, with(field("model", "other"))},
	{"a name twice in one part", false, with(part(`form-data; name="a"; name="model"`, "", "x"))},
	{"quotes in a name", false, with(part(`form-data; name="a\"; filename=\"x"`, "", "x"), part(`form-data; name="a"b"; x="`, "", "x"))},
	{"an extended name", false, with(part(`form-data; name*=UTF-8''%0d%0aX-Injected%3a1; filename*=UTF-8''%00%2e%2e%2f`, "", "x"))},
	{"brackets in names", false, func(s *Source, p []string, _ *string) string {
		return joined(append(p, field(One(s, []string{"a[", "a]", "a[]", "a[b][c]", "[a]", "metadata[model]", "input_reference[image_url]", "a[b]x", "a[b", "a[" + strings.Repeat("b", 200) + "]"}), "x"))...)
	}},
	{"a hostile name", false, func(s *Source, p []string, _ *string) string {
		return joined(append(p, part(fmt.Sprintf("form-data; name=%q", Text(s)), "", Text(s)))...)
	}},
	{"a hostile file name", false, func(s *Source, p []string, _ *string) string {
		return joined(append(p, part(fmt.Sprintf("form-data; name=\"input_reference\"; filename=%q", Text(s)), "Content-Type: image/png\r\n", "\x89PNG\r\n\x1a\n"))...)
	}},
	{"a hostile media type", false, func(s *Source, p []string, _ *string) string {
		return joined(append(p, part(`form-data; name="input_reference"; filename="a"`, "Content-Type: image/png; name=\""+HeaderText(s)+"\"\r\n", "x"))...)
	}},
	{"a hostile value", false, func(s *Source, p []string, _ *string) string {
		return joined(append(p, field(One(s, Videos.members()), Text(s)))...)
	}},
	{"a wrong value", false, func(s *Source, p []string, _ *string) string {
		return joined(append(p, field(One(s, Videos.members()), One(s, wrongValues)))...)
	}},
	{"a file where there is none", false, with(part(`form-data; name="prompt"; filename="x"`, "", "x"))},
	{"an empty file", false, with(part(`form-data; name="input_reference"; filename="x"`, "", ""))},
	{"an encoding", false, with(part(`form-data; name="seconds"`, "Content-Transfer-Encoding: base64\r\n", "NA=="), part(`form-data; name="size"`, "Content-Transfer-Encoding: quoted-printable\r\n", "=31"))},
	{"headers that are none", false, with(part(`form-data; name="a"`, "no colon\r\n: empty\r\n folded\r\nBad Name: x\r\n", "x"))},
	{"many headers", false, with(part(`form-data; name="a"`, strings.Repeat("X-A: b\r\n", 12_000), "x"))},

	{"5,000 parts", true, func(_ *Source, p []string, _ *string) string {
		return strings.TrimSuffix(joined(p...), "--"+boundary+"--\r\n") + joined(strings.Split(strings.Repeat(field("a", "b")+"\x00", 5000), "\x00")...)
	}},
	{"a header of 2 MB", true, func(_ *Source, p []string, _ *string) string {
		return joined(append(p, part(`form-data; name="a"`, "X-Long: "+strings.Repeat("a", 2<<20)+"\r\n", "x"))...)
	}},
	{"a text of 1 MB", true, func(_ *Source, p []string, _ *string) string {
		return joined(append(p, field("seconds", strings.Repeat("4", 1<<20)))...)
	}},
	{"a file of 4 MB", true, func(_ *Source, p []string, _ *string) string {
		return joined(append(p, part(`form-data; name="input_reference"; filename="x.png"`, "Content-Type: image/png\r\n", strings.Repeat("\x89PNG", 1<<20)))...)
	}},
}
