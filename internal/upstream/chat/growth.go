package chat

import "github.com/genbus/genbus/internal/body"

// growth is the shape of a chunk that only adds text to parts that the assembler already holds. A
// later chunk of this shape need not be walked. Its strings go to the same parts, and the rest of
// the chunk adds nothing new.
type growth struct {
	shape  shape
	to     [maxHoles]*part // the part that each hole's text is added to; valid until a part is added
	unused int             // consecutive samples without a match
}

// maxUnused limits the samples taken from a stream whose chunks all differ.
const maxUnused = 8

// apply adds a chunk if it matches the shape, and returns false otherwise.
func (g *growth) apply(block []byte, b *budget) bool {
	texts, ok := g.shape.match(block)
	if !ok {
		return false
	}
	g.unused = 0
	for i, p := range g.to[:g.shape.n] {
		if text := texts[i]; p.form == formText {
			p.joinText(text[1:len(text)-1], b)
		} else {
			p.setLast(text, b)
		}
	}
	return true
}

// learn samples the chunk that was just added, if repeating the chunk would only add text.
func (g *growth) learn(a *Assembler, block []byte) {
	g.shape.reset()
	if g.unused++; g.unused > maxUnused {
		return
	}
	c, only := body.NewCursor(block), true
	for quoted := range c.Members() {
		switch name := body.MemberName(quoted); string(name) {
		case "choices":
			only = c.Peek() == '[' && g.learnChoices(a, c) && only
		case "obfuscation":
			only = g.hole(c, c.Value(), a.top.find(string(name))) && only
		default:
			c.Value() // a repeated value changes nothing
		}
	}
	if !only || c.Bad {
		g.shape.reset()
		return
	}
	g.shape.keep(block)
}

// hole records a value as a hole. It returns false if repeating the value would do more than add or
// replace text.
func (g *growth) hole(c *body.Cursor, v []byte, to *part) bool {
	if !isString(v) || to == nil || g.shape.n == maxHoles || to.form != formText && to.form != formRaw {
		return false
	}
	g.to[g.shape.n] = to
	g.shape.hole(c, v)
	return true
}

func (g *growth) learnChoices(a *Assembler, c *body.Cursor) (only bool) {
	only = true
	for n := range c.Elements() {
		if n > 0 || len(a.choices) != 1 { // several choices are rare
			only = false
		}
		only = only && c.Peek() == '{' && g.learnChoice(a, c)
	}
	return only
}

func (g *growth) learnChoice(a *Assembler, c *body.Cursor) (only bool) {
	only = true
	for quoted := range c.Members() {
		switch string(body.MemberName(quoted)) {
		case "delta":
			only = c.Peek() == '{' && g.learnDelta(&a.choices[0], c) && only
		case "logprobs", "message":
			only = isNull(c.Value()) && only
		default:
			c.Value()
		}
	}
	return only
}

func (g *growth) learnDelta(to *choice, c *body.Cursor) (only bool) {
	only = true
	fields := to.fields("delta")
	for quoted := range c.Members() {
		name := body.MemberName(quoted)
		switch v, f := c.Value(), deltaSchema.of(name); {
		case f.rule == ruleJoin && isString(v):
			p := fields.find(string(name))
			only = p != nil && p.form == formText && g.hole(c, v, p) && only
		case len(v) > 0 && (v[0] == '[' || v[0] == '{'):
			only = false
		}
	}
	return only
}
