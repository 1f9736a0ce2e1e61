package upstreamtest

import (
	"errors"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// Violations returns what admission reports for a body: that it is not a document, or the
// protocol's violations.
func Violations(b upstream.Bodies, raw []byte) []body.Violation {
	d := body.Parse(raw)
	if field, ok := errors.AsType[*body.FieldError](d.Err()); ok {
		return []body.Violation{field.Violation}
	}
	return b.Check(d)
}
