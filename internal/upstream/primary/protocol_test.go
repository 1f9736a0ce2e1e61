package primary

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
)

// TestRules checks the rules for create bodies that are JSON objects.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body string
		want []body.Violation
	}{
		{`{"model":"m","prompt":"p"}`, nil},
		{`{"model":"m","prompt":"p","image":"","duration":5.5,"width":1280,"height":720.0,"fps":30,"seed":-1,"n":128,"metadata":{},"x":[]}`, nil},
		{`{"model":"m"}`, nil},
		{`{"model":"m","image":"https://example.com/a.png","prompt":""}`, nil},
		{`{"model":"m","image":"https://example.com/a.png","prompt":null}`, nil},
		{`{"model":"m","prompt":"p","image":null,"duration":null,"width":null,"seed":null,"n":null,"metadata":null}`, nil},
		{`{"model":"m","prompt":"p","duration":"5","seed":18446744073709551615,"metadata":"{}"}`, nil},
		{`{}`, []body.Violation{{Field: "model", Description: "is required"}}},
		{`{"model":"","prompt":["p"]}`, []body.Violation{{Field: "model", Description: "is empty; it is required"}, {Field: "prompt", Description: "is an array; it must be a string"}}},
		{`{"model":"a\u0007","prompt":" "}`, []body.Violation{{Field: "model", Description: "contains a control character, which a model ID must not"}}},
		{`{"model":"` + strings.Repeat("é", 129) + `","prompt":"p"}`, []body.Violation{{Field: "model", Description: "has 258 bytes; a model ID has at most 256"}}},
		{`{"model":"m","prompt":"p","image":["u"],"duration":0,"width":0,"height":"720","fps":29.97,"seed":1.5,"n":129,"metadata":[]}`, []body.Violation{
			{Field: "image", Description: "is an array; it must be a string"},
			{Field: "duration", Description: "must be a number above 0, in seconds"},
			{Field: "width", Description: "must be an integer above 0"},
			{Field: "height", Description: "is a string; it must be an integer above 0"},
			{Field: "fps", Description: "must be an integer above 0"},
			{Field: "seed", Description: "must be an integer"},
			{Field: "n", Description: "must be an integer from 1 to 128"},
			{Field: "metadata", Description: "is an array; it must be an object"},
		}},
		{`{"model":"m","prompt":"p","duration":"five","n":0,"seed":"7"}`, []body.Violation{
			{Field: "duration", Description: "is not a numeric string; it must be a number above 0, in seconds"},
			{Field: "seed", Description: "is a string; it must be an integer"},
			{Field: "n", Description: "must be an integer from 1 to 128"},
		}},
		{`{"model":"m","prompt":"p","duration":"-5"}`, []body.Violation{{Field: "duration", Description: "must be a number above 0, in seconds"}}},
		{`{"model":"m","prompt":"p","duration":""}`, []body.Violation{{Field: "duration", Description: "is not a numeric string; it must be a number above 0, in seconds"}}},
		{`{"model":"m","prompt":"p","duration":1e400}`, []body.Violation{{Field: "duration", Description: "must be a number above 0, in seconds"}}},
		{`{"model":"m","prompt":"p","duration":true}`, []body.Violation{{Field: "duration", Description: "is a boolean; it must be a number above 0, in seconds"}}},
	} {
		if diff := cmp.Diff(test.want, bodies{}.Check(body.Parse([]byte(test.body)))); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", test.body, diff)
		}
	}
}
