package body

// Head holds the members of a request's body that routing needs.
type Head struct {
	// Model is the model ID that the client sent. It is empty if the member is missing or not a
	// string.
	Model string
	// Stream is the value of stream.
	Stream bool
	// StreamSet is true if stream is true or false.
	StreamSet bool
	// IncludeUsage is the value of stream_options.include_usage.
	IncludeUsage bool
}

// Head returns the head of a request's body.
func (d Document) Head() Head {
	var h Head
	c := newCursor(d.object())
	for quoted := range c.Members() {
		h.read(c, MemberName(quoted))
	}
	return h
}

// read reads the value if Head needs the member.
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
