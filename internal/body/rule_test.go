package body

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckByRules(t *testing.T) {
	t.Parallel()
	rules := []Rule{
		{Name: "model_name", Required: true, Wrong: IsModel},
		{Name: "seconds", Wrong: IsSeconds},
	}
	for body, want := range map[string][]Violation{
		`{"model_name":"m"}`:                         nil,
		`{"model_name":"m","seconds":null,"x":[1]}`:  nil,
		`{"model_name":"m","seconds":"4"}`:           nil,
		`{"seconds":4}`:                              {{Field: "model_name", Description: "is required"}},
		`{"model_name":null}`:                        {{Field: "model_name", Description: "is null; it must be a string"}},
		`{"model_name":"","seconds":0}`:              {{Field: "model_name", Description: "is empty; it is required"}, {Field: "seconds", Description: "must be a number above 0, in seconds"}},
		`{"model_name":"m","seconds":"1","model":1}`: nil, // model has no rule
		`[]`: {{Field: "", Description: "is an array; it must be a JSON object"}},
		``:   {{Field: "", Description: "is empty; it must be JSON"}},
	} {
		if diff := cmp.Diff(want, checkRules([]byte(body), rules)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", body, diff)
		}
	}
}

func TestEveryRule(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		wrong      func([]byte) string
		good, evil []string
	}{
		"IsModel":        {IsModel, []string{`"m"`, `"a b/c:1"`}, []string{`""`, `1`, `"` + strings.Repeat("m", 257) + `"`, `"a\u0000"`}},
		"IsText":         {IsText, []string{`" "`}, []string{`""`, `null`, `1`}},
		"IsString":       {IsString, []string{`""`, `"x"`}, []string{`1`, `null`, `{}`}},
		"IsNumber":       {IsNumber, []string{`0`, `-1.5e9`}, []string{`"0"`, `true`}},
		"IsSeconds":      {IsSeconds, []string{`5`, `0.5`, `"5"`, `"5.5"`}, []string{`0`, `-1`, `"0"`, `"x"`, `""`, `"5s"`, `null`, `[]`}},
		"IsInteger":      {IsInteger, []string{`0`, `-1`, `5.0`, `123456789012345678901234567890`}, []string{`1.5`, `"1"`, `true`}},
		"IsPositive":     {IsPositive, []string{`1`, `9223372036854775807`}, []string{`0`, `-1`, `1.5`, `"1"`}},
		"IsChoices":      {IsChoices, []string{`1`, `128`}, []string{`0`, `129`, `"1"`}},
		"IsArray":        {IsArray, []string{`[]`, `[1]`}, []string{`{}`, `"[]"`}},
		"IsObjectOrText": {IsObjectOrText, []string{`{}`, `"{}"`, `""`}, []string{`[]`, `1`, `true`}},
	} {
		for _, value := range row.good {
			if wrong := row.wrong([]byte(value)); wrong != "" {
				t.Errorf("%s: %s %s", name, value, wrong)
			}
		}
		for _, value := range row.evil {
			if row.wrong([]byte(value)) == "" {
				t.Errorf("%s takes %s", name, value)
			}
		}
	}
}
