package jimeng

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// surface serves the vendor's own clients.
type surface struct{}

var _ upstream.Surface = surface{}

// Patterns returns a single path, because the query selects the operation.
func (surface) Patterns() []string { return []string{"POST /{$}"} }

// queryRules applies to the body of a query. req_key is required because the vendor requires it,
// although genbus needs only the ID.
var queryRules = []body.Rule{
	{Name: "req_key", Required: true, Wrong: body.IsModel},
	{Name: "task_id", Required: true, Wrong: body.IsText},
}

// Read returns the operation selected by Action. The body of a create is checked later, by Bodies.
func (surface) Read(r *http.Request, raw []byte) (upstream.Call, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return upstream.Call{}, errcode.Invalid([]errcode.Violation{{Field: "query", Description: "is not a valid query string"}})
	}
	action, wrongAction := oneOf(query, "Action", actionSubmit, actionQuery)
	_, wrongVersion := oneOf(query, "Version", version)
	if wrong := append(wrongAction, wrongVersion...); len(wrong) > 0 {
		return upstream.Call{}, errcode.Invalid(wrong)
	}
	if action == actionSubmit {
		return upstream.Call{Op: upstream.CreateTask, Body: body.Parse(raw)}, nil
	}
	return readQuery(raw)
}

// oneOf returns the value of a parameter that must appear exactly once, with an accepted value.
func oneOf(query url.Values, name string, accepted ...string) (string, []errcode.Violation) {
	values := query[name]
	wrong := "is missing"
	switch {
	case len(values) > 1:
		wrong = "is given more than once"
	case len(values) == 1:
		for _, a := range accepted {
			if values[0] == a {
				return a, nil
			}
		}
		wrong = "is not supported"
	}
	return "", []errcode.Violation{{Field: name, Description: wrong + "; it must be " + strings.Join(accepted, " or ")}}
}

func readQuery(raw []byte) (upstream.Call, error) {
	d := body.Parse(raw)
	if err := d.Err(); err != nil {
		return upstream.Call{}, body.Fault(err)
	}
	if found := d.Check(queryRules); len(found) > 0 {
		return upstream.Call{}, errcode.Invalid(found)
	}
	return upstream.Call{Op: upstream.GetTask, ID: d.Text("task_id")}, nil
}
