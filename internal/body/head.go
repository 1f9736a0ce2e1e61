package body

// Head is what routing needs to know of a request's body.
type Head struct {
	// Model is the model's id as the client names it; empty when the body names
	// none, or not as a string.
	Model string
	// Stream is the member stream.
	Stream bool
	// StreamSet is true when stream is given as true or false.
	StreamSet bool
	// IncludeUsage is the member stream_options.include_usage.
	IncludeUsage bool
}

// Head reads the head of a request's body, whatever else is in it.
func (d Document) Head() Head {
	var h Head
	c := newCursor(d.object())
	for quoted := range c.Members() {
		h.read(c, MemberName(quoted))
	}
	return h
}

// read steps over the value of a member that it knows.
func (h *Head) read(c *cursor, name []byte) {
	switch string(name) {
	case "model":
		c.text(&h.Model)
	case "stream":
		var stream *bool
		h.StreamSet = c.optBool(&stream)
		h.Stream = h.StreamSet && *stream
	case "stream_options":
		if c.Peek() == '{' {
			h.IncludeUsage = string(FindMember(c.Value(), "include_usage")) == "true"
		}
	}
}
