package chat

import (
	"cmp"
	"errors"
	"slices"
	"strconv"

	"github.com/genbus/genbus/internal/body"
)

// The rules for merging chunks into one reply. Unlisted fields keep their last value. But arrays
// grow: in logprobs by their elements, and in a delta by fragments of elements.
var (
	chunkSchema = schema{fields: map[string]field{
		"id": {rule: ruleFirst}, "created": {rule: ruleFirst}, "model": {rule: ruleFirst},
		"object": {rule: ruleDrop}, "choices": {rule: ruleDrop},
	}}
	choiceSchema = schema{fields: map[string]field{
		"index": {rule: ruleDrop}, "delta": {ruleInto, &deltaSchema}, "logprobs": {ruleInto, &logprobsSchema},
		"message": {ruleInto, &schema{}},
	}}
	deltaSchema = schema{others: ruleList, fields: map[string]field{
		"content": {rule: ruleJoin}, "refusal": {rule: ruleJoin}, "reasoning": {rule: ruleJoin}, "reasoning_content": {rule: ruleJoin},
		"tool_calls": {rule: ruleCalls}, "function_call": {ruleInto, &functionSchema}, "audio": {ruleInto, &audioSchema},
	}}
	callSchema = schema{fields: map[string]field{
		"index": {rule: ruleDrop}, "function": {ruleInto, &functionSchema}, "custom": {ruleInto, &customSchema},
	}}
	functionSchema = schema{fields: map[string]field{"arguments": {rule: ruleJoin}}}
	customSchema   = schema{fields: map[string]field{"input": {rule: ruleJoin}}}
	audioSchema    = schema{fields: map[string]field{"data": {rule: ruleJoin}, "transcript": {rule: ruleJoin}}}
	logprobsSchema = schema{others: ruleMore}
)

// Assembler merges the chunks of a stream into one chat.completion. Values, including numbers, keep
// the form in which they were written. It is not safe for concurrent use.
type Assembler struct {
	budget  budget
	growth  growth
	blocks  int
	top     record
	choices []choice
}

type choice struct {
	index  int
	record record
}

// NewAssembler returns an assembler for a reply of at most maxReply bytes. If maxReply is 0 or
// less, the limit is 32 MiB.
func NewAssembler(maxReply int) *Assembler {
	if maxReply <= 0 {
		maxReply = Options{}.WithDefaults().MaxReply
	}
	return &Assembler{budget: budget{limit: maxReply}}
}

// Add merges the next chunk. It keeps no reference to block. It fails if the reply becomes too
// large or block is not structured like a chunk. After a failure, every call returns the same
// error.
func (a *Assembler) Add(block []byte) error {
	if a.budget.err == nil && a.growth.apply(block, &a.budget) {
		a.blocks++
		return a.budget.err
	}
	if err := a.walk(block); err != nil {
		return err
	}
	a.growth.learn(a, block)
	return nil
}

// Size returns the number of bytes that the assembler holds.
func (a *Assembler) Size() int { return a.budget.held }

// walk adds a chunk of any shape.
func (a *Assembler) walk(block []byte) error {
	c := body.NewCursor(block)
	if c.Peek() == '{' {
		a.blocks++
	}
	for quoted := range c.Members() {
		name := body.MemberName(quoted)
		if string(name) == "choices" && c.Peek() == '[' {
			a.addChoices(c)
		} else {
			a.top.add(name, c.Value(), chunkSchema.of(name), &a.budget)
		}
		if a.budget.err != nil {
			break
		}
	}
	if a.budget.err == nil && !c.AtEnd() {
		a.budget.err = errBadBlock
	}
	return a.budget.err
}

func (a *Assembler) addChoices(c *body.Cursor) {
	for n := range c.Elements() {
		o := body.NewCursor(c.Value())
		choice := a.at(number(body.FindMember(o.Text, "index"), n))
		if choice == nil {
			return
		}
		choice.record.addObject(o, &choiceSchema, &a.budget)
		if o.Bad {
			c.Fail()
		}
		if a.budget.err != nil {
			return
		}
	}
}

// at returns the choice with the given index and creates it if needed. It returns nil if a limit is
// reached.
func (a *Assembler) at(index int) *choice {
	for i := range a.choices {
		if a.choices[i].index == index {
			return &a.choices[i]
		}
	}
	if len(a.choices) == maxChoices {
		a.budget.err = errTooManyChoices
		return nil
	}
	if !a.budget.reserve(2 * partCost) {
		return nil
	}
	a.choices = append(a.choices, choice{index: index})
	return &a.choices[len(a.choices)-1]
}

// Reply returns the chat.completion assembled so far, whether or not the stream is complete. A
// choice without a finish_reason gets null.
func (a *Assembler) Reply() ([]byte, error) {
	if a.budget.err != nil {
		return nil, a.budget.err
	}
	if a.blocks == 0 {
		return nil, errors.New("no chunk arrived")
	}
	dst := []byte{'{'}
	if id := a.top.find("id"); id != nil {
		dst = append(id.appendValue(body.AppendName(dst, "id")), ',')
	}
	dst = append(dst, `"object":"chat.completion"`...)
	for _, name := range []string{"created", "model"} {
		if p := a.top.find(name); p != nil {
			dst = p.appendValue(body.AppendName(append(dst, ','), name))
		}
	}
	dst = a.appendChoices(append(dst, `,"choices":`...))
	dst = append(a.top.appendMembers(dst, false, "id", "created", "model"), '}')
	if !validJSON(dst) {
		return nil, errBadBlock
	}
	return dst, nil
}

func (a *Assembler) appendChoices(dst []byte) []byte {
	slices.SortFunc(a.choices, func(x, y choice) int { return cmp.Compare(x.index, y.index) })
	dst = append(dst, '[')
	for i := range a.choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = a.choices[i].append(dst)
	}
	return append(dst, ']')
}

func (c *choice) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"index":`...), int64(c.index), 10)
	dst = c.appendMessage(append(dst, `,"message":`...))
	dst = c.record.appendMembers(dst, false, "delta", "message", "finish_reason")
	dst = append(dst, `,"finish_reason":`...)
	if p := c.record.find("finish_reason"); p != nil {
		dst = p.appendValue(dst)
	} else {
		dst = append(dst, "null"...)
	}
	return append(dst, '}')
}

// appendMessage writes the assembled message. Some servers also send whole messages. Those fill in
// fields that the deltas lack.
func (c *choice) appendMessage(dst []byte) []byte {
	delta, whole := c.fields("delta"), c.fields("message")
	dst = append(dst, '{')
	for i, f := range []struct{ name, otherwise string }{{"role", `"assistant"`}, {"content", "null"}} {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = body.AppendName(dst, f.name)
		switch p, w := delta.find(f.name), whole.find(f.name); {
		case p.empty() && !w.empty():
			dst = w.appendValue(dst)
		case p != nil && (f.name == "content" || !p.empty()):
			dst = p.appendValue(dst)
		default:
			dst = append(dst, f.otherwise...)
		}
	}
	skip := []string{"role", "content"}
	for i := range whole.parts {
		if w := &whole.parts[i]; !slices.Contains(skip, w.name) && delta.find(w.name).empty() {
			dst = w.appendValue(body.AppendName(append(dst, ','), w.name))
			skip = append(skip, w.name)
		}
	}
	return append(delta.appendMembers(dst, false, skip...), '}')
}

// fields returns the object in the named field of the choice, or an empty record if there is none.
func (c *choice) fields(name string) *record {
	if p := c.record.find(name); p != nil && p.into != nil {
		return p.into
	}
	return new(record)
}
