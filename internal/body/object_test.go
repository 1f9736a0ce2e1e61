package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
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
	o.SetText("a", "again") // keeps its position
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

func TestObjectRepairsTextThatIsNotUnicode(t *testing.T) {
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
	o.Merge(Parse([]byte(` { "b" : 3.0 , "c" : {"d":[ ]}, "\u0061":12345678901234567890 } `)))
	if got, want := string(o.JSON()), `{"a":12345678901234567890,"b":3.0,"c":{"d":[ ]}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, bad := range []string{``, `null`, `[]`, `{"a":1`, `{"a":1,"a":2}`, `{"a":"` + "\xff" + `"}`} {
		before := string(o.JSON())
		if o.Merge(Parse([]byte(bad))); string(o.JSON()) != before {
			t.Errorf("Merge(%q): it is %s", bad, o.JSON())
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
		`{"c":1,"\u0062":2}`: `extra_json contains "b", which is also set elsewhere in the request; set it once`,
		`{"` + long + `":1}`: `extra_json contains "` + strings.Repeat("é", 32) + `...", which is also set elsewhere in the request; set it once`,
		`[]`:                 `extra_json is an array; it must be a JSON object`,
		`{"c":1,"c":2}`:      `extra_json has a duplicate member in an object, before byte 6`,
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

// FuzzObject checks that merging into an empty object yields the same object, with every member
// found.
func FuzzObject(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		var o Object
		d := Parse(raw)
		if d.Err() != nil {
			return
		}
		o.Merge(d)
		out := Trusted(o.JSON())
		// Not cmp.Equal, whose time doubles with each level of depth.
		if !loses(raw) && !reflect.DeepEqual(jsonValue(t, raw), jsonValue(t, out.Bytes())) {
			t.Errorf("%q became %q", raw, out.Bytes())
		}
		for _, name := range o.names {
			if got := d.Member(name); !utf8.ValidString(name) || !bytes.Equal(got, out.Member(name)) {
				t.Errorf("member %q is %q in %q and %q in %q", name, got, raw, out.Member(name), out.Bytes())
			}
			if number := d.Number(name); number != "" && !json.Valid([]byte(number)) {
				t.Errorf("number %q of %q", number, raw)
			}
			_ = d.Text(name)
		}
	})
}
