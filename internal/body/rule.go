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

// What a Rule may want of a member.
var (
	// IsModel wants a model's id: a string of 1 to 256 bytes.
	IsModel = modelID
	// IsText wants a string that is not empty.
	IsText = someText
	// IsString wants a string.
	IsString = anyString
	// IsBoolean wants true or false.
	IsBoolean = boolean
	// IsNumber wants a number.
	IsNumber = number
	// IsSeconds wants a number above 0, or a string that holds one.
	IsSeconds = seconds
	// IsInteger wants an integer of any size.
	IsInteger = anyInteger
	// IsPositive wants an integer above 0.
	IsPositive = positive
	// IsObject wants an object.
	IsObject = func(value []byte) string { return ofKind(value, '{', "an object") }
	// IsArray wants an array.
	IsArray = func(value []byte) string { return ofKind(value, '[', "an array") }
	// IsObjectOrText wants an object, or a string for gateways that read JSON in it.
	IsObjectOrText = objectOrText
)

func ofKind(value []byte, kind byte, wanted string) string {
	if value[0] != kind {
		return is(value, wanted)
	}
	return ""
}

// Check says what is wrong with a body by the rules of its protocol; nil when
// nothing is. It stops after 20.
func Check(body []byte, rules []Rule) []Violation {
	list := make([]rule, 0, len(rules))
	for _, r := range rules {
		list = append(list, rule{r.Name, r.Required, scalar(r.Wrong)})
	}
	return check(body, list)
}
