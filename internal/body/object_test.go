package body

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestObjectIsWrittenInTheOrderOfItsMembers(t *testing.T) {
	t.Parallel()
	var o Object
	if got := string(o.JSON()); got != `{}` {
		t.Errorf("the zero value is %s", got)
	}
	o.SetText("a", "<x> \"\n")
	o.SetInt("b", -7)
	o.SetNumber("c", 0.1)
	o.Set("d", []byte(`[1, 2]`))
	o.SetText("a", "again") // keeps its place
	o.Set("", []byte(`null`))
	o.Drop("b")
	o.Drop("none")
	if got, want := string(o.JSON()), `{"a":"again","c":0.1,"d":[1, 2],"":null}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !o.Has("d") || o.Has("b") {
		t.Error("Has is wrong about d or b")
	}
}

func TestObjectNumbersAreWrittenWithoutExponents(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0: `{"n":0}`, 5: `{"n":5}`, 1e21: `{"n":1000000000000000000000}`, -2.5e-7: `{"n":-0.00000025}`} {
		var o Object
		o.SetNumber("n", value)
		if got := string(o.JSON()); got != want {
			t.Errorf("%g is written as %s, want %s", value, got, want)
		}
	}
}

func TestObjectMendsTextThatIsNotUnicode(t *testing.T) {
	t.Parallel()
	var o Object
	o.SetText("a\xff", "b\xff")
	if raw := o.JSON(); !json.Valid(raw) || !utf8.Valid(raw) || string(raw) != "{\"a\ufffd\":\"b\ufffd\"}" {
		t.Errorf("got %q", raw)
	}
}

func TestObjectMerge(t *testing.T) {
	t.Parallel()
	var o Object
	o.SetInt("a", 1)
	o.SetInt("b", 2)
	if err := o.Merge([]byte(` { "b" : 3.0 , "c" : {"d":[ ]}, "\u0061":12345678901234567890 } `)); err != nil {
		t.Fatal(err)
	}
	if got, want := string(o.JSON()), `{"a":12345678901234567890,"b":3.0,"c":{"d":[ ]}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, bad := range []string{``, `null`, `[]`, `{"a":1`, `{"a":1,"a":2}`, `{"a":"` + "\xff" + `"}`} {
		before := string(o.JSON())
		if err := o.Merge([]byte(bad)); err == nil || string(o.JSON()) != before {
			t.Errorf("Merge(%q): %v, and it is %s", bad, err, o.JSON())
		}
	}
}

func TestMember(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		body         string
		value        string // "" for none
		text, number string
	}{
		"text":             {`{"x":1,"m":"a\u0062"}`, `"a\u0062"`, "ab", ""},
		"an escaped name":  {`{"\u006d":"v"}`, `"v"`, "v", ""},
		"the last of two":  {`{"m":1,"m":2}`, `2`, "", "2"},
		"half a surrogate": {`{"m":"\ud800"}`, `"\ud800"`, "\ufffd", ""},
		"a number":         {`{"m": 5.0 }`, `5.0`, "", "5.0"},
		"a number as text": {`{"m":"12"}`, `"12"`, "12", "12"},
		"text of digits":   {`{"m":"12s"}`, `"12s"`, "12s", ""},
		"two numbers":      {`{"m":"1 2"}`, `"1 2"`, "1 2", ""},
		"empty text":       {`{"m":""}`, `""`, "", ""},
		"a long number":    {`{"m":` + strings.Repeat("1", 33) + `}`, strings.Repeat("1", 33), "", ""},
		"null":             {`{"m":null}`, `null`, "", ""},
		"an object":        {`{"m":{"m":1}}`, `{"m":1}`, "", ""},
		"deeper only":      {`{"x":{"m":1}}`, ``, "", ""},
		"none":             {`{}`, ``, "", ""},
		"no object":        {`["m"]`, ``, "", ""},
		"no JSON":          {`{"m":1`, ``, "", ""},
		"nothing":          {``, ``, "", ""},
	} {
		raw := []byte(row.body)
		got := []string{string(Member(raw, "m")), MemberText(raw, "m"), NumberText(raw, "m")}
		if diff := cmp.Diff([]string{row.value, row.text, row.number}, got); diff != "" {
			t.Errorf("%s: member, text and number (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzObject: what merges into an empty object is the same object, and each of
// its members is found.
func FuzzObject(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var o Object
		if o.Merge(raw) != nil {
			return
		}
		out := o.JSON()
		if !loses(raw) && !cmp.Equal(jsonValue(t, raw), jsonValue(t, out)) {
			t.Errorf("%q became %q", raw, out)
		}
		for _, name := range o.names {
			if got := Member(raw, name); !utf8.ValidString(name) || !bytes.Equal(got, Member(out, name)) {
				t.Errorf("member %q is %q in %q and %q in %q", name, got, raw, Member(out, name), out)
			}
			if number := NumberText(raw, name); number != "" && !json.Valid([]byte(number)) {
				t.Errorf("number %q of %q", number, raw)
			}
			_ = MemberText(raw, name)
		}
	})
}
