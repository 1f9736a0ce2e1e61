package lax

import (
	"math"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestUnix(t *testing.T) {
	t.Parallel()
	for in, want := range map[float64]int64{
		1795216526: 1795216526, 1795216526066: 1795216526,
	} {
		if got := unix(in).Unix(); got != want {
			t.Errorf("unix(%v) = %d, want %d", in, got, want)
		}
	}
	for _, in := range []float64{0, -1, 1e300} {
		if !unix(in).IsZero() {
			t.Errorf("unix(%v) = %v, want the zero time", in, unix(in))
		}
	}
}

// TestReadings checks how each type reads the forms that servers send.
func TestReadings(t *testing.T) {
	t.Parallel()
	check(t, map[string]Text{`"a"`: "a", `""`: "", `7`: "", `null`: "", `{"a":1}`: ""})
	check(t, map[string]Status{`"a"`: {"a", true}, `""`: {"", true}, `null`: {}, `7`: {}})
	check(t, map[string]Word{`"a"`: "a", `1303`: "1303", `-1`: "-1", `0`: "", `1.5`: "", `1e3`: "", `null`: "", `12345678901234567890`: "12345678901234567890"})
	check(t, map[string]Number{`5`: 5, `5.1`: 5.1, `"5.1"`: 5.1, `" 5 "`: 5, `"5s"`: 0, `1e999`: 0, `"NaN"`: 0, `null`: 0, `[]`: 0})
	check(t, map[string]Percent{`37`: {37, true}, `"37%"`: {37, true}, `"37 %"`: {37, true}, `99.9`: {99, true}, `250`: {100, true}, `-1`: {0, true}, `""`: {}, `"half"`: {}, `null`: {}})
	check(t, map[string]ID{`"a"`: {"a", false}, `7`: {"7", true}, `0`: {"", true}, `null`: {}, `[]`: {}})
	check(t, map[string]RawObject{`{"a": 1.0}`: RawObject(`{"a": 1.0}`), `[]`: nil, `"{}"`: nil, `null`: nil})
	check(t, map[string]Object[struct{ A Word }]{`{"A":1}`: {struct{ A Word }{"1"}, true}, `{}`: {Set: true}, `[]`: {}, `null`: {}})
	check(t, map[string]List[Text]{`["a",7]`: {"a", ""}, `[]`: nil, `"a"`: nil, `{}`: nil})
	at := time.Unix(1795216526, 0).UTC()
	check(t, map[string]Moment{
		`1795216526`: {at}, `1795216526066`: {at.Add(66 * time.Millisecond)}, `"1795216526"`: {at},
		`"2026-11-20T22:35:26Z"`: {time.Date(2026, 11, 20, 22, 35, 26, 0, time.UTC)}, `"2026-11-21T06:35:26+08:00"`: {time.Date(2026, 11, 20, 22, 35, 26, 0, time.UTC)},
		`0`: {}, `"soon"`: {}, `null`: {},
	})
}

func check[T any](t *testing.T, readings map[string]T) {
	t.Helper()
	for text, want := range readings {
		var got T
		if err := json.Unmarshal([]byte(text), &got, Options); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%T of %s (-want +got)\n%s", got, text, diff)
		}
	}
}

func TestPicks(t *testing.T) {
	t.Parallel()
	if got := First[Word]("", " ", " a ", "b"); got != "a" {
		t.Errorf("First = %q", got)
	}
	if got := First[Text](); got != "" {
		t.Errorf("First of none = %q", got)
	}
	if a, b := Positive(0, -1, 2.5, 3), Positive(-1); a != 2.5 || b != 0 {
		t.Errorf("Positive = %v and %v", a, b)
	}
	for n, want := range map[Number]int{1280: 1280, 720.9: 720, 0.5: 0, -1: 0, math.MaxInt32: math.MaxInt32, 1e10: 0} {
		if got := Pixels(n); got != want {
			t.Errorf("Pixels(%v) = %d, want %d", n, got, want)
		}
	}
	if a, b := (ID{"7", true}).Text(), (ID{"a", false}).Text(); a != "" || b != "a" {
		t.Errorf("ID.Text = %q and %q", a, b)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	type answer struct {
		Last Text `json:"last"`
	}
	got, err := Decode[answer]([]byte(`{"last":1,"last":"\ud83d"}`))
	if err != nil || got.Last != "\ufffd" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{``, `[]`, `<html>`, `{"last":"a"`, `{} {}`} {
		if got, err := Decode[answer]([]byte(bad)); err == nil || got == nil {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

type everything struct {
	Text   Text                     `json:"text"`
	Word   Word                     `json:"word"`
	Number Number                   `json:"number"`
	Done   Percent                  `json:"done"`
	At     Moment                   `json:"at"`
	Raw    RawObject                `json:"raw"`
	Inner  Object[struct{ A Word }] `json:"inner"`
	List   List[Text]               `json:"list"`
	Status Status                   `json:"status"`
	ID     ID                       `json:"id"`
	Last   Text                     `json:"last"`
}

func everywhere(odd string) []byte {
	return []byte(`{"text":` + odd + `,"word":` + odd + `,"number":` + odd + `,"done":` + odd + `,"at":` + odd +
		`,"raw":` + odd + `,"inner":` + odd + `,"list":` + odd + `,"status":` + odd + `,"id":` + odd + `,"last":"ok"}`)
}

// TestOddFieldsAreSkipped checks that an odd value in any field does not prevent reading the rest.
func TestOddFieldsAreSkipped(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{`null`, `true`, `1e999`, `-0.5`, `"x"`, `[]`, `[1,[2]]`, `{}`, `{"a":{"b":[]}}`} {
		var a everything
		if err := json.Unmarshal(everywhere(odd), &a, Options); err != nil || a.Last != "ok" {
			t.Errorf("%s: %v, last %q", odd, err, a.Last)
		}
	}
}

// FuzzFields checks the same for any JSON value, and that each type stays within its bounds.
func FuzzFields(f *testing.F) {
	for _, odd := range []string{`null`, `"37%"`, `1795216526066`, `"2026-11-20T22:35:26Z"`, `{"A":1303}`, `["a",7,{}]`, `-0.5`, `1e999`, `"\ud83d"`} {
		f.Add(odd)
	}
	f.Fuzz(func(t *testing.T, odd string) {
		if !jsontext.Value(odd).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			return
		}
		var a everything
		if err := json.Unmarshal(everywhere(odd), &a, Options); err != nil || a.Last != "ok" {
			t.Fatalf("%s: %v, last %q", odd, err, a.Last)
		}
		if n := float64(a.Number); math.IsNaN(n) || math.IsInf(n, 0) {
			t.Errorf("number %v", n)
		}
		if a.Done.Value < 0 || a.Done.Value > 100 || len(a.List) > MaxItems || a.At.Year() > 9999 {
			t.Errorf("%+v", a)
		}
	})
}
