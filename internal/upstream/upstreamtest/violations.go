package upstreamtest

import (
	"errors"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// Violations returns the violations that admission reports for a body. If the body is not a valid
// document, this is the parse error. Otherwise these are the protocol's violations.
func Violations(b upstream.Bodies, raw []byte) []body.Violation {
	d := body.Parse(raw)
	if field, ok := errors.AsType[*body.FieldError](d.Err()); ok {
		return []body.Violation{field.Violation}
	}
	return b.Check(d)
}
