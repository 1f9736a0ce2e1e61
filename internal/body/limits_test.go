package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/errcode"
)

func TestCountValues(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]int{
		`1`: 1, `"a,b{[\"],"`: 1, `[]`: 1, ` [ ] `: 1, `{}`: 1, `[1]`: 2, `[1,"x",null]`: 4, `[[],{},[[]]]`: 5, `{"a":1,"b,":{"c":[1, 2]}}`: 6,
		``: 1, `"`: 1, `"\"`: 1, `,,`: 3, `]`: 2, "[\"\\\\\",\"\\\"\"\n]": 3,
	} {
		if got := valuesOf([]byte(raw)); got != want {
			t.Errorf("%s has %d, not %d", raw, got, want)
		}
	}
}

// manyMembers returns members that make an object of n values, including itself.
func manyMembers(n int) string {
	var b strings.Builder
	for i := range n - 1 {
		fmt.Fprintf(&b, `,"%x":0`, i)
	}
	return b.String()[1:]
}

// TestTooManyValues checks that every kind of body is refused for its number of values before it is
// parsed.
func TestTooManyValues(t *testing.T) {
	t.Parallel()
	most, more := []byte("{"+manyMembers(MaxValues)+"}"), []byte("{"+manyMembers(MaxValues+1)+"}")
	unread := []byte("{" + manyMembers(MaxValues+2)) // not terminated
	half := []byte("{" + manyMembers(MaxValues/2) + "}")
	ways := map[string]func(object []byte) error{
		"header": func(b []byte) error { _, err := header(b); return err },
		"raw":    func(b []byte) error { _, err := chatText(rawChat(string(b))); return err },
		"rules": func(b []byte) error {
			if v := checkRules(b, nil); len(v) > 0 {
				return limitError(v[0].Description)
			}
			return nil
		},
		"extra": func(b []byte) error {
			_, err := videoText(typedVideo(&genbusv1.VideoGeneration{ExtraJson: b}))
			return err
		},
	}
	for way, try := range ways {
		if err := try(most); err != nil {
			t.Errorf("%s, as many as may be: %v", way, err)
		}
		for _, bad := range [][]byte{more, unread} {
			if err := try(bad); err == nil || !strings.Contains(err.Error(), "has more than 250000 values") {
				t.Errorf("%s: %v", way, err)
			}
		}
	}
	if _, err := videoText(typedVideo(&genbusv1.VideoGeneration{Model: "m", ExtraJson: half, MetadataJson: half})); err == nil || err.Error() != "video makes more than 250000 values of JSON" {
		t.Errorf("extra_json and metadata_json together: %v", err)
	}
	if err := Trusted(more).WithText("model", "m").Err(); err != nil {
		t.Errorf("what was accepted and is written for an upstream: %v", err)
	}
}

// TestObjectDocument checks that the limits apply to all members of an object together.
func TestObjectDocument(t *testing.T) {
	t.Parallel()
	array := func(inner string) []byte { return []byte("[" + inner + "]") }
	deep := strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1)
	for _, row := range []struct {
		value []byte
		want  error
	}{
		{array(strings.Repeat("0,", MaxValues-3) + "0"), nil},
		{array(strings.Repeat("0,", MaxValues-2) + "0"), errTooMany},
		{[]byte(deep), nil},
		{array(deep), errTooDeep},
	} {
		var o Object
		o.Set("a", row.value)
		d, err := o.Document()
		if parsed := Parse(o.JSON()).Err(); (err == nil) != (row.want == nil) || fmt.Sprint(err) != fmt.Sprint(parsed) || fmt.Sprint(d.Err()) != fmt.Sprint(err) {
			t.Errorf("%.10s: %v, not %v; parsed: %v", row.value, err, row.want, parsed)
		}
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	for raw, code := range map[string]errcode.Code{
		`{`: errcode.InvalidJSON, `[]`: errcode.InvalidJSON, `{"a":1,"a":2}`: errcode.InvalidJSON,
		`{"a":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`: errcode.InvalidRequest,
		strings.Repeat(",", MaxValues): errcode.InvalidRequest,
	} {
		_, err := header([]byte(raw))
		if f := Fault(err); err == nil || f.Code != code || !errors.Is(f, err) {
			t.Errorf("%.20s: %v", raw, f)
		}
	}
}

// TestObjectOfAnySize checks that an object behaves the same with and without its index.
func TestObjectOfAnySize(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var o Object
		var names []string
		values := map[string]string{}
		for range 200 {
			name, value := fmt.Sprint(r.IntN(2*few)), fmt.Sprint(r.Int64())
			_, there := values[name]
			if o.Has(name) != there {
				t.Fatalf("seed %d: %s is there: %t", seed, name, there)
			}
			switch object := []byte(`{"` + name + `":` + value + `}`); r.IntN(5) {
			case 0:
				o.Drop(name)
				delete(values, name)
				names = without(names, name)
				continue
			case 1:
				if err := o.Add("x", object); (err != nil) != there {
					t.Fatalf("seed %d: Add says %v", seed, err)
				}
				if there {
					continue
				}
			case 2:
				o.Merge(Parse(object))
			default:
				o.Set(name, []byte(value))
			}
			if !there {
				names = append(names, name)
			}
			values[name] = value
		}
		if diff := cmp.Diff(names, o.names); diff != "" {
			t.Fatalf("seed %d: the order (-want +got)\n%s", seed, diff)
		}
		for i, name := range o.names {
			if string(o.values[i]) != values[name] {
				t.Fatalf("seed %d: %s is %s", seed, name, o.values[i])
			}
		}
	}
}

func without(names []string, name string) (out []string) {
	for _, n := range names {
		if n != name {
			out = append(out, n)
		}
	}
	return out
}

func FuzzCountValues(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := valuesOf(raw)
		if !json.Valid(raw) {
			return
		}
		if want := count(t, raw); n != want {
			t.Errorf("%q has %d values, not %d", raw, n, want)
		}
	})
}

func count(t *testing.T, raw []byte) int {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	type level struct {
		object bool
		seen   int
	}
	var open []level
	n := 0
	for {
		tok, err := d.Token()
		if err != nil {
			return n
		}
		delim, _ := tok.(json.Delim)
		if delim == '}' || delim == ']' {
			open = open[:len(open)-1]
			continue
		}
		name := false
		if last := len(open) - 1; last >= 0 {
			name = open[last].object && open[last].seen%2 == 0
			open[last].seen++
		}
		if !name {
			n++
		}
		if delim != 0 {
			open = append(open, level{object: delim == '{'})
		}
	}
}

// BenchmarkHeaderOfMany measures a body with MaxValues values. Nearly all of its cost is the check
// for duplicate names.
func BenchmarkHeaderOfMany(b *testing.B) {
	benchmark(b, []byte("{"+manyMembers(MaxValues)+"}"), func(body []byte) error { _, err := header(body); return err })
}
