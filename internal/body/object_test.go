package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
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
	o.Set("c", []byte(`0.1`))
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

func TestObjectAdd(t *testing.T) {
	t.Parallel()
	var o Object
	o.SetText("model", "m")
	if err := o.Add("extra_json", []byte(` { "b" : [ 1 ], "a":"\u0061" } `)); err != nil {
		t.Fatal(err)
	}
	if err := o.Add("extra_json", nil); err != nil {
		t.Errorf("nothing to add: %v", err)
	}
	const want = `{"model":"m","b":[ 1 ],"a":"\u0061"}`
	if got := string(o.JSON()); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	long := strings.Repeat("é", 100)
	o.SetInt(long, 1)
	before := string(o.JSON())
	for bad, wrong := range map[string]string{
		`{"c":1,"\u0062":2}`: `extra_json holds "b", which is also given elsewhere in the request; give it once`,
		`{"` + long + `":1}`: `extra_json holds "` + strings.Repeat("é", 32) + `...", which is also given elsewhere in the request; give it once`,
		`[]`:                 `extra_json is an array; a JSON object is needed`,
		`{"c":1,"c":2}`:      `extra_json has the same member twice in one object, before byte 6`,
		`{`:                  `extra_json is not valid JSON: it ends too early`,
	} {
		err := o.Add("extra_json", []byte(bad))
		if _, ok := errors.AsType[*FieldError](err); !ok || err.Error() != wrong {
			t.Errorf("%s: %v, want %s", bad, err, wrong)
		}
		if after := string(o.JSON()); after != before {
			t.Errorf("%s left %s", bad, after)
		}
	}
}

func TestEachMember(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	for object, want := range map[string]struct {
		seen string
		err  error
	}{
		`{ "a" : 1 , "\u0062":{"x":[ ]},"a":"y" }`: {`a=1 b={"x":[ ]} a="y" `, nil},
		`{"a":1,"stop":2,"b":3}`:                   {`a=1 stop=2 `, stop},
		`{}`:                                       {"", nil},
	} {
		var seen strings.Builder
		err := EachMember([]byte(object), func(name string, value []byte) error {
			_, _ = seen.WriteString(name + "=" + string(value) + " ")
			if name == "stop" {
				return stop
			}
			return nil
		})
		if seen.String() != want.seen || !errors.Is(err, want.err) {
			t.Errorf("%s: saw %q, error %v", object, seen.String(), err)
		}
	}
	for _, bad := range []string{``, `[]`, `null`, `{"a":1`, `{} {}`} {
		err := EachMember([]byte(bad), func(string, []byte) error { t.Errorf("%q has a member", bad); return nil })
		if _, ok := errors.AsType[*FieldError](err); !ok {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"a\u0062"`: "ab", `""`: "", `"`: "", ``: "", `1`: "", `null`: "", `["x"]`: "", `"\ud800"`: "\ufffd", "\"a\xff\"": "a\ufffd",
	} {
		if got := Text([]byte(value)); got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
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
		// Not cmp.Equal: its time doubles with each level of depth.
		if !loses(raw) && !reflect.DeepEqual(jsonValue(t, raw), jsonValue(t, out)) {
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
