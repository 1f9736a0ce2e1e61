package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drawnChoice is a choice of a random reply, written whole or split into chunks the way servers do
// it.
type drawnChoice struct {
	content, reasoning *string
	calls              []drawnCall
	reason             string
}

type drawnCall struct{ id, name, arguments string }

func quote(s string) string {
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}

func drawText(t *rapid.T, name string) string {
	return rapid.StringOfN(rapid.RuneFrom([]rune("ab\"\\\n\t{}[]:,é漢😀\u0000\u2028 ")), 0, 40, -1).Draw(t, name)
}

func drawChoices(t *rapid.T) []drawnChoice {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) drawnChoice {
		var c drawnChoice
		if rapid.Bool().Draw(t, "has content") {
			s := drawText(t, "content")
			c.content = &s
		}
		if rapid.Bool().Draw(t, "has reasoning") {
			s := drawText(t, "reasoning")
			c.reasoning = &s
		}
		n := rapid.IntRange(0, 3).Draw(t, "calls")
		for i := range n {
			c.calls = append(c.calls, drawnCall{fmt.Sprintf("call_%d", i), "f" + drawText(t, "name"), drawText(t, "arguments")})
		}
		c.reason = rapid.SampledFrom([]string{"stop", "length", "tool_calls"}).Draw(t, "reason")
		return c
	}), 1, 3).Draw(t, "choices")
}

const (
	drawnHead  = `"id":"c1","created":1790000000,"model":"m"`
	drawnUsage = `{"prompt_tokens":12345678901234567890,"cost":1.0}`
)

func wholeReply(choices []drawnChoice) string {
	var all []string
	for i, c := range choices {
		m := `{"role":"assistant","content":null`
		if c.content != nil {
			m = `{"role":"assistant","content":` + quote(*c.content)
		}
		if c.reasoning != nil {
			m += `,"reasoning_content":` + quote(*c.reasoning)
		}
		if len(c.calls) > 0 {
			var calls []string
			for _, k := range c.calls {
				calls = append(calls, fmt.Sprintf(`{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, quote(k.id), quote(k.name), quote(k.arguments)))
			}
			m += `,"tool_calls":[` + strings.Join(calls, ",") + `]`
		}
		all = append(all, fmt.Sprintf(`{"index":%d,"message":%s},"logprobs":null,"x":[1.50],"finish_reason":%q}`, i, m, c.reason))
	}
	return `{` + drawnHead + `,"object":"chat.completion","y":{"z":1e3},"choices":[` + strings.Join(all, ",") + `],"usage":` + drawnUsage + `}`
}

func cutUp(t *rapid.T, s string) []string {
	runes := []rune(s)
	pieces := []string{}
	for len(runes) > 0 {
		n := rapid.IntRange(0, len(runes)).Draw(t, "piece")
		pieces = append(pieces, quote(string(runes[:n])))
		runes = runes[n:]
	}
	if len(pieces) == 0 {
		pieces = append(pieces, `""`)
	}
	return pieces
}

func deltasOf(t *rapid.T, c drawnChoice) []string {
	deltas := []string{`{"role":"assistant"}`}
	if c.content != nil {
		for _, p := range cutUp(t, *c.content) {
			deltas = append(deltas, `{"content":`+p+`}`)
		}
	}
	if c.reasoning != nil {
		for _, p := range cutUp(t, *c.reasoning) {
			deltas = append(deltas, `{"reasoning_content":`+p+`}`)
		}
	}
	withIndex := rapid.Bool().Draw(t, "calls have an index")
	for i, k := range c.calls {
		index := ""
		if withIndex {
			index = fmt.Sprintf(`"index":%d,`, i)
		}
		for n, p := range cutUp(t, k.arguments) {
			if n == 0 {
				deltas = append(deltas, fmt.Sprintf(`{"tool_calls":[{%s"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}]}`, index, quote(k.id), quote(k.name), p))
			} else {
				deltas = append(deltas, fmt.Sprintf(`{"tool_calls":[{%s"function":{"arguments":%s}}]}`, index, p))
			}
		}
	}
	return deltas
}

func TestAssemblerGivesTheReplyBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		choices := drawChoices(rt)
		var queues [][]string
		for i, c := range choices {
			var queue []string
			for _, d := range deltasOf(rt, c) {
				queue = append(queue, fmt.Sprintf(`{"index":%d,"delta":%s,"logprobs":null,"finish_reason":null}`, i, d))
			}
			queues = append(queues, append(queue, fmt.Sprintf(`{"index":%d,"delta":{},"x":[1.50],"finish_reason":%q}`, i, c.reason)))
		}
		a := NewAssembler(0)
		add := func(choices, more string) {
			block := `{` + drawnHead + `,"object":"chat.completion.chunk","choices":[` + choices + `]` + more + `}`
			if err := a.Add([]byte(block)); err != nil {
				rt.Fatalf("%v in %s", err, block)
			}
		}
		for len(queues) > 0 {
			i := rapid.IntRange(0, len(queues)-1).Draw(rt, "turn")
			add(queues[i][0], `,"usage":null`)
			if queues[i] = queues[i][1:]; len(queues[i]) == 0 {
				queues = append(queues[:i], queues[i+1:]...)
			}
		}
		add("", `,"y":{"z":1e3},"usage":`+drawnUsage)
		reply, err := a.Reply()
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(canonical(t, []byte(wholeReply(choices))), canonical(t, reply)); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestConvertedReplyComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		whole := wholeReply(drawChoices(rt))
		chunks, err := toChunks([]byte(whole))
		if err != nil {
			rt.Fatal(err)
		}
		a := NewAssembler(0)
		var p progress
		for _, c := range chunks {
			if found, err := p.look(c); found != aChunk || err != nil {
				rt.Fatalf("%v, %v in %s", found, err, c)
			}
			if err := a.Add(c); err != nil {
				rt.Fatalf("%v in %s", err, c)
			}
		}
		if !p.complete() {
			rt.Fatal("the chunks do not finish")
		}
		reply, err := a.Reply()
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(canonical(t, []byte(whole)), canonical(t, reply)); diff != "" {
			rt.Fatal(diff)
		}
	})
}
