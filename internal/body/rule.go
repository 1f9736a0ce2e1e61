package body

// Rule judges one top-level member of a body. The rules of a protocol are a list
// of them: members that no rule names are legal, and so is null for one that may
// be absent.
type Rule struct {
	// Name is the member's name.
	Name string
	// Required is true when the body needs the member.
	Required bool
	// Wrong says what is wrong with the member's JSON text, or "".
	Wrong func(value []byte) string
}

// IsModel wants a model's id: a string of 1 to 256 bytes.
func IsModel(value []byte) string { return modelID(value) }

// IsText wants a string that is not empty.
func IsText(value []byte) string { return someText(value) }

// IsString wants a string.
func IsString(value []byte) string { return anyString(value) }

// IsNumber wants a number.
func IsNumber(value []byte) string { return number(value) }

// IsSeconds wants a number above 0, or a string that holds one.
func IsSeconds(value []byte) string { return seconds(value) }

// IsInteger wants an integer of any size.
func IsInteger(value []byte) string { return anyInteger(value) }

// IsPositive wants an integer above 0.
func IsPositive(value []byte) string { return positive(value) }

// IsArray wants an array.
func IsArray(value []byte) string {
	if value[0] != '[' {
		return is(value, "an array")
	}
	return ""
}

// IsObjectOrText wants an object, or a string for gateways that read JSON in it.
func IsObjectOrText(value []byte) string { return objectOrText(value) }

// Errorf says what is wrong with a field of a request. The description goes on
// after the field's name, such as "is missing"; an empty field is the whole body.
func Errorf(field, format string, args ...any) *FieldError { return fieldError(field, format, args...) }

// Check says what is wrong with a body by the rules of its protocol; nil when
// nothing is. It stops after 20.
func (d Document) Check(rules []Rule) []Violation {
	list := make([]rule, 0, len(rules))
	for _, r := range rules {
		list = append(list, rule{r.Name, r.Required, scalar(r.Wrong)})
	}
	return d.check(list)
}
