package upstreamtest

import (
	"errors"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
)

// Violations are what admission says of a body: that it is no document, or what the
// protocol says.
func Violations(b upstream.Bodies, raw []byte) []body.Violation {
	d := body.Parse(raw)
	if field, ok := errors.AsType[*body.FieldError](d.Err()); ok {
		return []body.Violation{field.Violation}
	}
	return b.Check(d)
}
