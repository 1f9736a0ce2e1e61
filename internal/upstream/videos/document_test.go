package videos

import (
	"errors"

	"github.com/genbus/genbus/internal/body"
)

// document gives the body of a request; one that cannot be parsed has nothing in it.
func document(raw []byte) body.Document {
	d, _ := body.Parse(raw)
	return d
}

// violations are what admission says of a body: that it is no document, or what the
// protocol says.
func violations(raw []byte) []body.Violation {
	d, err := body.Parse(raw)
	if field, ok := errors.AsType[*body.FieldError](err); ok {
		return []body.Violation{field.Violation}
	}
	return bodies{}.Check(d)
}
