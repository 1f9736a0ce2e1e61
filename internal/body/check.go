package body

var chatRules = []Rule{
	{Name: "model", Required: true, Wrong: IsModel},
	{Name: "messages", Required: true, parts: (*checker).messages},
	{Name: "stream", Wrong: isBoolean},
	{Name: "temperature", Wrong: IsNumber},
	{Name: "top_p", Wrong: IsNumber},
	{Name: "max_tokens", Wrong: IsPositive},
	{Name: "n", Wrong: IsChoices},
	{Name: "stop", parts: (*checker).stop},
	{Name: "tools", parts: (*checker).tools},
}

// CheckChat returns the violations in the body of a chat request, or nil. It checks the members
// that the API documentation defines. Checks that depend on the model are left to the upstream.
func (d Document) CheckChat() []Violation { return d.Check(chatRules) }

func isBoolean(value []byte) string {
	if value[0] != 't' && value[0] != 'f' {
		return is(value, "true or false")
	}
	return ""
}

type checker struct {
	violations []Violation
	// at is the path of the value being checked.
	at path
}

func (k *checker) full() bool { return len(k.violations) >= maxViolations }

// add adds a violation for a member of the value, or for the value itself if field is "".
func (k *checker) add(field, description string) {
	if !k.full() {
		k.violations = append(k.violations, Violation{Field: k.at.to(field), Description: description})
	}
}

func (k *checker) in(name string, value []byte, check func(*checker, []byte)) {
	k.at = append(k.at, step{name, single})
	check(k, value)
	k.at = k.at[:len(k.at)-1]
}

// need reports whether the value is of this kind. If not, it adds a violation.
func (k *checker) need(value []byte, kind byte, wanted string) bool {
	if value[0] == kind {
		return true
	}
	k.add("", is(value, wanted))
	return false
}

// scalar makes a check from a function that describes a problem or returns "".
func scalar(describe func(value []byte) string) func(*checker, []byte) {
	return func(k *checker, value []byte) {
		if wrong := describe(value); wrong != "" {
			k.add("", wrong)
		}
	}
}

func (k *checker) messages(value []byte) {
	if !k.need(value, '[', "an array of messages") {
		return
	}
	if n := k.each(value, (*checker).message); n == 0 {
		k.add("", "is empty; at least one message is required")
	}
}

// each checks the elements of an array until there are enough violations, and returns how many it
// checked.
func (k *checker) each(value []byte, check func(*checker, []byte)) int {
	last := len(k.at) - 1
	of := k.at[last]
	c, n := NewCursor(value), 0
	for i := range c.Elements() {
		n++
		k.at[last].index = i
		if check(k, c.Value()); k.full() {
			break
		}
	}
	k.at[last] = of
	return n
}

func (k *checker) message(value []byte) {
	if !k.need(value, '{', "an object with role and content") {
		return
	}
	c, role := NewCursor(value), false
	for quoted := range c.Members() {
		switch string(MemberName(quoted)) {
		case "role":
			role = true
			k.in("role", c.Value(), checkRole)
		case "content":
			k.in("content", c.Value(), (*checker).content)
		}
	}
	if !role {
		k.add("role", `is required, such as "user"`)
	}
}

var checkRole = scalar(IsText)

func (k *checker) content(value []byte) {
	switch value[0] {
	case '"', 'n':
	case '[':
		k.each(value, (*checker).object)
	default:
		k.add("", is(value, "a string, an array of parts, or null"))
	}
}

func (k *checker) object(value []byte) { k.need(value, '{', "an object") }

func (k *checker) string(value []byte) { k.need(value, '"', "a string") }

func (k *checker) tools(value []byte) {
	if k.need(value, '[', "an array of tools") {
		k.each(value, (*checker).object)
	}
}

func (k *checker) stop(value []byte) {
	switch value[0] {
	case '"':
	case '[':
		k.each(value, (*checker).string)
	default:
		k.add("", is(value, "a string or an array of strings"))
	}
}
