package chat

import (
	"errors"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/body"
)

// maxChoices limits the choices of a reply. The protocol allows 128.
const maxChoices = 1024

var (
	errBadBlock       = errors.New("a block that is not a chat completion's JSON object")
	errTooManyChoices = errors.New("more than 1024 choices")
)

// progress tracks which choices of a reply have started and finished.
type progress struct {
	choices []choiceProgress
	// answered is true once a choice has a finish_reason, or a message or delta with more than a
	// role. A reply without such a choice is empty.
	answered bool
	failure  []byte // the body of the error, after anError
	shape    shape
}

type choiceProgress struct {
	index    int
	finished bool
}

func (p *progress) complete() bool {
	for _, c := range p.choices {
		if !c.finished {
			return false
		}
	}
	return len(p.choices) > 0
}

func (p *progress) mark(index int, finished bool) error {
	for i := range p.choices {
		if p.choices[i].index == index {
			p.choices[i].finished = p.choices[i].finished || finished
			return nil
		}
	}
	if len(p.choices) == maxChoices {
		return errTooManyChoices
	}
	p.choices = append(p.choices, choiceProgress{index, finished})
	return nil
}

// look inspects a chunk or a whole reply. After a complete reply it returns another for errors and
// damaged blocks, because they do not change the reply.
func (p *progress) look(block []byte) (finding, error) {
	if p.shape.fits(block) {
		return aChunk, nil
	}
	over := p.complete()
	p.shape.reset()
	f, err := p.walk(block)
	found := f.kind()
	if err != nil || found != aChunk || f.finished || !p.answered {
		p.shape.reset()
	} else {
		p.shape.keep(block)
	}
	if over && (err != nil || found == anError) {
		found, err = another, nil
	}
	p.failure = f.errorIn(block)
	return found, err
}

func (p *progress) walk(block []byte) (f findings, err error) {
	c := body.NewCursor(block)
	for name := range c.Members() {
		f.members++
		if err := p.lookAtMember(c, body.MemberName(name), &f); err != nil {
			return findings{}, err
		}
	}
	if !c.AtEnd() {
		return findings{}, errBadBlock
	}
	return f, nil
}

func (p *progress) lookAtMember(c *body.Cursor, name []byte, f *findings) error {
	switch string(name) {
	case "choices":
		return p.lookAtChoices(c, f)
	case "error":
		f.failed = !isNothing(c.Value()) || f.failed
	case "object":
		f.named = true
		f.failed = string(c.Value()) == `"error"` || f.failed
	case "id", "usage":
		f.named = true
	case "type":
		f.typed = true
	case "message", "detail", "msg":
		f.message = !isNothing(c.Value()) || f.message
	case "base_resp": // MiniMax
		code := body.FindMember(c.Value(), "status_code")
		f.failed = !isNothing(code) && string(code) != `"0"` || f.failed
	case "obfuscation":
		p.shape.hole(c, c.Value())
	}
	return nil
}

func (p *progress) lookAtChoices(c *body.Cursor, f *findings) error {
	if c.Peek() == 'n' {
		return nil
	}
	for n := range c.Elements() {
		f.choice = true
		index, finished := p.lookAtChoice(c, n, f)
		if c.Bad {
			break
		}
		f.finished = f.finished || finished
		if err := p.mark(index, finished); err != nil {
			return err
		}
	}
	if c.Bad {
		return errBadBlock
	}
	return nil
}

func (p *progress) lookAtChoice(c *body.Cursor, n int, f *findings) (index int, finished bool) {
	index = n
	for name := range c.Members() {
		switch string(body.MemberName(name)) {
		case "index":
			index = number(c.Value(), n)
		case "finish_reason":
			finished = f.lookAtReason(c.Value())
			p.answered = p.answered || finished
		case "delta", "message":
			p.lookAtDelta(c)
		case "error":
			f.failed = !isNothing(c.Value()) || f.failed // OpenRouter
		}
	}
	return index, finished
}

func (p *progress) lookAtDelta(c *body.Cursor) {
	if c.Peek() != '{' {
		return
	}
	for name := range c.Members() {
		v := c.Value()
		p.shape.hole(c, v)
		p.answered = p.answered || !isNothing(v) && string(body.MemberName(name)) != "role"
	}
}

func isNull(v []byte) bool { return string(v) == "null" }

func isString(v []byte) bool { return len(v) >= 2 && v[0] == '"' }

// validJSON allows duplicate names and invalid UTF-8, which genbus passes on unchanged.
func validJSON(v []byte) bool {
	return jsontext.Value(v).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// isNothing reports whether a value means that the member is not set, for example that there is no
// error.
func isNothing(v []byte) bool {
	switch string(v) {
	case "", "null", `""`, "{}", "[]", "false", "0":
		return true
	}
	return false
}

// number parses a non-negative integer. If that fails, it returns otherwise.
func number(v []byte, otherwise int) int {
	if len(v) == 1 && v[0] >= '0' && v[0] <= '9' {
		return int(v[0] - '0')
	}
	n, err := strconv.Atoi(string(v))
	if err != nil || n < 0 {
		return otherwise
	}
	return n
}
