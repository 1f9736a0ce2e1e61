package chat

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/upstream/chat/chattest"
)

func canonical(t testing.TB, v []byte) string {
	t.Helper()
	c := jsontext.Value(v).Clone()
	// Canonicalize would rewrite numbers and hide changes to them.
	if err := c.Format(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.ReorderRawObjects(true)); err != nil {
		t.Fatalf("%v in %s", err, v)
	}
	return string(c)
}

func assemble(t testing.TB, blocks ...string) string {
	t.Helper()
	a := NewAssembler(0)
	for _, b := range blocks {
		if err := a.Add([]byte(b)); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
	}
	reply, err := a.Reply()
	if err != nil {
		t.Fatal(err)
	}
	return string(reply)
}

// delta and message wrap JSON into a chunk and into a reply.
func delta(d string) string { return `{"choices":[{"index":0,"delta":` + d + `}]}` }

func message(m string) string {
	return `{"object":"chat.completion","choices":[{"index":0,"message":` + m + `,"finish_reason":null}]}`
}

func TestAssembler(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		blocks []string
		want   string
	}{
		"a usual stream": {
			[]string{
				`{"id":"c1","object":"chat.completion.chunk","created":1790000000,"model":"m","system_fingerprint":"f1","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"x"}`,
				`{"id":"c1","object":"chat.completion.chunk","created":1790000000,"model":"m","system_fingerprint":"f1","choices":[{"index":0,"delta":{"content":"Hel"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"y"}`,
				`{"id":"c1","object":"chat.completion.chunk","created":1790000000,"model":"m","system_fingerprint":"f2","choices":[{"index":0,"delta":{"content":"lo\n"},"logprobs":null,"finish_reason":null}],"usage":null}`,
				`{"id":"c1","object":"chat.completion.chunk","created":1790000000,"model":"m","service_tier":"default","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"usage":null}`,
				`{"id":"c1","object":"chat.completion.chunk","created":1790000000,"model":"m","choices":[],"usage":{"prompt_tokens":9007199254740993,"cost":1.50e-3}}`,
			},
			`{"id":"c1","object":"chat.completion","created":1790000000,"model":"m","system_fingerprint":"f2","service_tier":"default","choices":[{"index":0,"message":{"role":"assistant","content":"Hello\n","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9007199254740993,"cost":1.50e-3},"obfuscation":"y"}`,
		},
		"an empty first chunk": {
			[]string{`{"id":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"a":1}]}`, `{"id":"c1","created":5,"model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}`},
			`{"id":"c1","object":"chat.completion","created":5,"model":"m","prompt_filter_results":[{"a":1}],"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":null}]}`,
		},
		"two choices, mixed up": {
			[]string{`{"choices":[{"index":1,"delta":{"content":"b"}}]}`, `{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"B"},"finish_reason":"length"}]}`, `{"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":"stop"}]}`},
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"aA"},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":"bB"},"finish_reason":"length"}]}`,
		},
		"no choice":              {[]string{`{"id":"x","choices":[]}`}, `{"id":"x","object":"chat.completion","choices":[]}`},
		"reasoning":              {[]string{delta(`{"reasoning_content":"th"}`), delta(`{"reasoning_content":"ink"}`), delta(`{"reasoning_content":null,"content":"a"}`), delta(`{"reasoning":"x"}`)}, message(`{"role":"assistant","content":"a","reasoning_content":"think","reasoning":"x"}`)},
		"content only null":      {[]string{delta(`{"role":"assistant","content":null}`)}, message(`{"role":"assistant","content":null}`)},
		"content like nothing":   {[]string{delta(`{"content":"0"}`)}, message(`{"role":"assistant","content":"0"}`)},
		"refusal":                {[]string{delta(`{"refusal":"I "}`), delta(`{"refusal":"can't"}`)}, message(`{"role":"assistant","content":null,"refusal":"I can't"}`)},
		"role empty later":       {[]string{delta(`{"role":"assistant","content":"a"}`), delta(`{"role":"","content":"b"}`)}, message(`{"role":"assistant","content":"ab"}`)},
		"half a surrogate pair":  {[]string{delta(`{"content":"\ud83d"}`), delta(`{"content":"\ude00"}`)}, message(`{"role":"assistant","content":"😀"}`)},
		"half a UTF-8 sequence":  {[]string{delta("{\"content\":\"\xc3\"}"), delta("{\"content\":\"\xa9\"}")}, message(`{"role":"assistant","content":"é"}`)},
		"content in parts":       {[]string{delta(`{"content":"a"}`), delta(`{"content":[{"type":"text","text":"b"}]}`), delta(`{"content":"c"}`)}, message(`{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"c"}]}`)},
		"lists in a delta":       {[]string{delta(`{"reasoning_details":[{"text":"a"}]}`), delta(`{"reasoning_details":[]}`), delta(`{"reasoning_details":[{"text":"b"},1]}`)}, message(`{"role":"assistant","content":null,"reasoning_details":[{"text":"a"},{"text":"b"},1]}`)},
		"unknown in a delta":     {[]string{delta(`{"x":{"a":1}}`), delta(`{"x":{"a":2},"y":1.0}`), delta(`{"y":null}`)}, message(`{"role":"assistant","content":null,"x":{"a":2},"y":1.0}`)},
		"empty later":            {[]string{delta(`{"x":{"a":1},"y":"b","z":false}`), delta(`{"x":{},"y":"","z":null}`), delta(`{"x":[],"y":null,"z":{}}`)}, message(`{"role":"assistant","content":null,"x":{"a":1},"y":"b","z":false}`)},
		"audio":                  {[]string{delta(`{"audio":{"id":"a1","transcript":"h"}}`), delta(`{"audio":{"data":"AA"}}`), delta(`{"audio":{"data":"BB","transcript":"i","expires_at":5}}`)}, message(`{"role":"assistant","content":null,"audio":{"id":"a1","transcript":"hi","data":"AABB","expires_at":5}}`)},
		"function_call":          {[]string{delta(`{"function_call":{"name":"f","arguments":""}}`), delta(`{"function_call":{"arguments":"{\"a\":"}}`), delta(`{"function_call":{"arguments":"1}"}}`)}, message(`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}}`)},
		"the whole message last": {[]string{delta(`{"content":"a"}`), `{"choices":[{"index":0,"delta":{},"message":{"role":"tool","content":"a","x":1}}]}`}, message(`{"role":"tool","content":"a","x":1}`)},
		"only a whole message":   {[]string{`{"choices":[{"index":0,"message":{"role":"assistant","content":"a"}}]}`}, message(`{"role":"assistant","content":"a"}`)},
		"name with an escape":    {[]string{`{"choices":[{"index":0,"delta":{"c\u006fntent":"a"}}]}`}, message(`{"role":"assistant","content":"a"}`)},
		"logprobs": {
			[]string{`{"choices":[{"index":0,"delta":{},"logprobs":{"content":[{"token":"a","logprob":-0.10}],"refusal":null}}]}`, `{"choices":[{"index":0,"delta":{},"logprobs":null}]}`, `{"choices":[{"index":0,"delta":{},"logprobs":{"content":[{"token":"b"}]}}]}`},
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":null},"logprobs":{"content":[{"token":"a","logprob":-0.10},{"token":"b"}],"refusal":null},"finish_reason":null}]}`,
		},
		"finish_reason and usage before the end": {
			[]string{`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop","x":1}],"usage":{"a":1}}`, `{"choices":[{"index":0,"delta":{"content":""},"finish_reason":null,"x":2}],"usage":{"a":2}}`, `{"choices":[{"index":0,"delta":{},"finish_reason":""}],"usage":null}`},
			`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"x":2,"finish_reason":"stop"}],"usage":{"a":2}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(canonical(t, []byte(tc.want)), canonical(t, []byte(assemble(t, tc.blocks...)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAssemblerLists checks the lists of deltas. Each is given by the elements of each delta.
func TestAssemblerLists(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deltas []string // elements, without brackets
		want   string
	}{
		// OpenRouter.
		"text of one index":      {[]string{`{"type":"reasoning.text","text":"Let","format":"f","index":0}`, `{"type":"reasoning.text","text":" me","format":"f","index":0}`, `{"type":"reasoning.text","signature":"Et8B","format":"f","index":0}`}, `{"type":"reasoning.text","text":"Let me","format":"f","index":0,"signature":"Et8B"}`},
		"summary":                {[]string{`{"type":"reasoning.summary","summary":"a","index":0}`, `{"type":"reasoning.summary","summary":"b","index":0}`}, `{"type":"reasoning.summary","summary":"ab","index":0}`},
		"encrypted":              {[]string{`{"type":"reasoning.encrypted","data":"AA","index":0}`, `{"type":"reasoning.encrypted","data":"BB","index":0}`, `{"data":"CC","index":0}`}, `{"type":"reasoning.encrypted","data":"AABBCC","index":0}`},
		"two indexes":            {[]string{`{"type":"t","text":"a","index":0},{"type":"t","text":"b","index":1}`, `{"type":"t","text":"A","index":0}`, `{"type":"t","text":"B","index":1}`}, `{"type":"t","text":"aA","index":0},{"type":"t","text":"bB","index":1}`},
		"types of one index":     {[]string{`{"type":"reasoning.summary","summary":"a","index":0}`, `{"type":"reasoning.encrypted","data":"AA","id":"rs_1","index":0}`, `{"type":"reasoning.summary","summary":"b","index":0}`}, `{"type":"reasoning.summary","summary":"a","index":0},{"type":"reasoning.encrypted","data":"AA","id":"rs_1","index":0},{"type":"reasoning.summary","summary":"b","index":0}`},
		"ids of one index":       {[]string{`{"type":"reasoning.encrypted","data":"AA","id":"a","index":0}`, `{"type":"reasoning.encrypted","data":"BB","id":"b","index":0}`}, `{"type":"reasoning.encrypted","data":"AA","id":"a","index":0},{"type":"reasoning.encrypted","data":"BB","id":"b","index":0}`},
		"type and id later":      {[]string{`{"index":0,"text":"a"}`, `{"index":0,"type":"t","id":"x","text":"b"}`, `{"index":0,"type":"u","text":"c"}`}, `{"index":0,"text":"ab","type":"t","id":"x"},{"index":0,"type":"u","text":"c"}`},
		"signed, index 0 again":  {[]string{`{"type":"reasoning.text","text":"a","index":0}`, `{"type":"reasoning.text","signature":"S","index":0}`, `{"type":"reasoning.text","text":"b","index":0}`}, `{"type":"reasoning.text","text":"a","index":0,"signature":"S"},{"type":"reasoning.text","text":"b","index":0}`},
		"the same signature":     {[]string{`{"text":"a","index":0,"signature":"S"}`, `{"text":"b","index":0,"signature":"S"}`}, `{"text":"ab","index":0,"signature":"S"}`},
		"null and empty members": {[]string{`{"index":0,"id":null,"text":"a","signature":null}`, `{"index":0,"id":"","text":"","signature":""}`, `{"index":0,"text":"b"}`}, `{"index":0,"id":"","text":"ab","signature":""}`},
		"numbers that change":    {[]string{`{"index":0,"text":"a","n":1}`, `{"index":0,"text":"b","n":2.0}`}, `{"index":0,"text":"ab","n":2.0}`},
		"neither index nor id":   {[]string{`{"type":"reasoning.text","text":"a"}`, `{"type":"reasoning.text","text":"b"}`, `{"type":"reasoning.summary","summary":"c"}`}, `{"type":"reasoning.text","text":"ab"},{"type":"reasoning.summary","summary":"c"}`},
		"an id alone":            {[]string{`{"id":"a","text":"1"}`, `{"id":"b","text":"2"}`, `{"id":"a","text":"3"}`}, `{"id":"a","text":"13"},{"id":"b","text":"2"}`},
		// LiteLLM.
		"thinking":              {[]string{`{"type":"thinking","thinking":"a","signature":""}`, `{"type":"thinking","thinking":"b","signature":""}`, `{"type":"thinking","thinking":"","signature":"S1"}`, `{"type":"redacted_thinking","data":"x"}`, `{"type":"thinking","thinking":"c","signature":""}`, `{"type":"thinking","thinking":"","signature":"S2"}`}, `{"type":"thinking","thinking":"ab","signature":"S1"},{"type":"redacted_thinking","data":"x"},{"type":"thinking","thinking":"c","signature":"S2"}`},
		"thinking, all at once": {[]string{`{"type":"thinking","thinking":"a","signature":"S1"},{"type":"thinking","thinking":"b","signature":"S2"}`}, `{"type":"thinking","thinking":"a","signature":"S1"},{"type":"thinking","thinking":"b","signature":"S2"}`},
		"unsigned, all at once": {[]string{`{"type":"thinking","thinking":"a"},{"type":"thinking","thinking":"b"}`}, `{"type":"thinking","thinking":"a"},{"type":"thinking","thinking":"b"}`},
		// Mistral.
		"thinking in parts": {[]string{`{"type":"thinking","thinking":[{"type":"text","text":"a"}]}`, `{"type":"thinking","thinking":[{"type":"text","text":"b"}]}`, `{"type":"text","text":"c"}`}, `{"type":"thinking","thinking":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"type":"text","text":"c"}`},
		// Elements that arrive whole, and whose index is that in their chunk.
		"images":                  {[]string{`{"type":"image_url","image_url":{"url":"data:A"},"index":0}`, `{"type":"image_url","image_url":{"url":"data:B"},"index":0}`}, `{"type":"image_url","image_url":{"url":"data:A"},"index":0},{"type":"image_url","image_url":{"url":"data:B"},"index":0}`},
		"an image twice":          {[]string{`{"type":"image_url","image_url":{"url":"data:A"},"index":0}`, `{"type":"image_url","image_url":{"url":"data:A"},"index":0}`}, `{"type":"image_url","image_url":{"url":"data:A"},"index":0}`},
		"data of images":          {[]string{`{"type":"image","data":"A","index":0}`, `{"type":"image","data":"B","index":0}`}, `{"type":"image","data":"A","index":0},{"type":"image","data":"B","index":0}`},
		"annotations":             {[]string{`{"type":"url_citation","url_citation":{"url":"a"}}`, `{"type":"url_citation","url_citation":{"url":"b"}}`}, `{"type":"url_citation","url_citation":{"url":"a"}},{"type":"url_citation","url_citation":{"url":"b"}}`},
		"annotations of an index": {[]string{`{"type":"url_citation","index":0,"url_citation":{"url":"a"}}`, `{"type":"url_citation","index":0,"title":"b"}`, `{"type":"url_citation","index":1,"url_citation":{"url":"c"}}`}, `{"type":"url_citation","index":0,"url_citation":{"url":"a"},"title":"b"},{"type":"url_citation","index":1,"url_citation":{"url":"c"}}`},
		"no objects":              {[]string{`1`, `"a",[2],null`, `{"x":1}`}, `1,"a",[2],null,{"x":1}`},
		"an odd index":            {[]string{`{"index":"0","text":"a"}`, `{"index":-1,"text":"b"}`, `{"index":null,"text":"c"}`}, `{"index":"0","text":"a"},{"index":-1,"text":"b"},{"index":null,"text":"c"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, list := range []string{"reasoning_details", "content", "x"} {
				var blocks []string
				for _, d := range tc.deltas {
					blocks = append(blocks, delta(`{`+quote(list)+`:[`+d+`]}`))
				}
				content := `"content":null,`
				if list == "content" {
					content = ""
				}
				want := message(`{"role":"assistant",` + content + quote(list) + `:[` + tc.want + `]}`)
				if diff := cmp.Diff(canonical(t, []byte(want)), canonical(t, []byte(assemble(t, blocks...)))); diff != "" {
					t.Errorf("%s: %s", list, diff)
				}
			}
		})
	}
}

func TestAssemblerToolCalls(t *testing.T) {
	t.Parallel()
	call := func(id, name, arguments string) string {
		return fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}`, id, name, arguments)
	}
	for name, tc := range map[string]struct {
		calls []string // tool_calls of each delta, without brackets
		want  string
	}{
		"fragments":               {[]string{`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}`, `{"index":0,"function":{"arguments":"{\"x\""}}`, `{"index":0,"function":{"arguments":":1}"}}`}, call("a", "f", `{"x":1}`)},
		"two":                     {[]string{`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"1"}}`, `{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"2"}}`, `{"index":0,"function":{"arguments":"3"}}`}, call("a", "f", "13") + "," + call("b", "g", "2")},
		"two in one, turned":      {[]string{`{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"2"}},{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"1"}}`}, call("a", "f", "1") + "," + call("b", "g", "2")},
		"id repeated":             {[]string{`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"1"}}`, `{"index":0,"id":"a","type":"function","function":{"name":"","arguments":"2"}}`}, call("a", "f", "12")},
		"id and name repeated":    {[]string{`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"1"}}`, `{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"2"}}`}, call("a", "f", "12")},
		"id and type empty later": {[]string{`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"1"}}`, `{"index":0,"id":"","type":"","function":{"name":null,"arguments":"2"}}`}, call("a", "f", "12")},
		"no index":                {[]string{call("a", "f", "1"), `{"function":{"arguments":"2"}}`, call("b", "g", "3"), `{"id":"a","function":{"arguments":"4"}}`}, call("a", "f", "124") + "," + call("b", "g", "3")},
		"neither index nor id":    {[]string{`{"type":"function","function":{"name":"f","arguments":"1"}}`, `{"function":{"arguments":"2"}}`, `{"type":"function","function":{"name":"g","arguments":"3"}}`}, `{"type":"function","function":{"name":"f","arguments":"12"}},{"type":"function","function":{"name":"g","arguments":"3"}}`},
		"every index 0":           {[]string{`{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"1"}},{"index":0,"id":"b","type":"function","function":{"name":"g","arguments":"2"}}`}, call("a", "f", "1") + "," + call("b", "g", "2")},
		"custom":                  {[]string{`{"index":0,"id":"a","type":"custom","custom":{"name":"f","input":"x"}}`, `{"index":0,"custom":{"input":"y"}}`}, `{"id":"a","type":"custom","custom":{"name":"f","input":"xy"}}`},
		"unknown fields":          {[]string{`{"index":0,"id":"a","extra_content":{"s":1},"function":{"name":"f","x":1,"arguments":"1"}}`, `{"index":0,"extra_content":null,"function":{"x":2.0}}`}, `{"id":"a","extra_content":{"s":1},"function":{"name":"f","x":2.0,"arguments":"1"}}`},
		"arguments as an object":  {[]string{`{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1.0}}}`}, `{"id":"a","function":{"name":"f","arguments":{"x":1.0}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var blocks []string
			for _, c := range tc.calls {
				blocks = append(blocks, delta(`{"tool_calls":[`+c+`]}`))
			}
			want := message(`{"role":"assistant","content":null,"tool_calls":[` + tc.want + `]}`)
			if diff := cmp.Diff(canonical(t, []byte(want)), canonical(t, []byte(assemble(t, blocks...)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAssemblerFaults(t *testing.T) {
	t.Parallel()
	if _, err := NewAssembler(0).Reply(); err == nil {
		t.Error("a reply of nothing")
	}
	for _, block := range []string{``, `[]`, `"a"`, `{"choices":[1]}`, `{"choices":[{"delta":{"content":"a"]}`, `{"a":1`, `{"a":1}x`, `{"choices":[{"index":0,"delta":{"tool_calls":[{"id":}]}}]}`} {
		a := NewAssembler(0)
		err := a.Add([]byte(block))
		if err == nil {
			_, err = a.Reply()
		}
		if !errors.Is(err, errBadBlock) {
			t.Errorf("%s: error %v", block, err)
		}
		if again := a.Add([]byte(usualChunk)); again == nil && a.budget.err != nil {
			t.Errorf("%s: the error did not stick", block)
		}
	}
	// Reply validates the values that Add skipped.
	a := NewAssembler(0)
	if err := a.Add([]byte(`{"x":nonsense}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Reply(); !errors.Is(err, errBadBlock) {
		t.Errorf("error %v", err)
	}
}

func TestAssemblerLimits(t *testing.T) {
	t.Parallel()
	many := func(n int, one func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, one(i))
		}
		return strings.Join(all, ",")
	}
	for name, tc := range map[string]struct {
		block string
		err   error
	}{
		"text":    {delta(`{"content":"` + strings.Repeat("x", 1000) + `"}`), errReplyTooLarge},
		"unknown": {`{"x":"` + strings.Repeat("x", 5000) + `"}`, errReplyTooLarge},
		"parts":   {delta(`{"content":[` + strings.Repeat("1,", 999) + `1]}`), errReplyTooLarge},
		"choices": {`{"choices":[` + many(50, func(i int) string { return fmt.Sprintf(`{"index":%d}`, i) }) + `]}`, errReplyTooLarge},
		"items":   {delta(`{"x":[` + many(50, func(i int) string { return fmt.Sprintf(`{"index":%d}`, i) }) + `]}`), errReplyTooLarge},
		"calls":   {delta(`{"tool_calls":[` + many(50, func(i int) string { return fmt.Sprintf(`{"index":%d}`, i) }) + `]}`), errReplyTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := NewAssembler(4000)
			var err error
			for i := 0; i < 5 && err == nil; i++ {
				err = a.Add([]byte(tc.block))
			}
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if _, err := a.Reply(); !errors.Is(err, tc.err) {
				t.Errorf("Reply: error %v, want %v", err, tc.err)
			}
		})
	}
	for name, tc := range map[string]struct {
		block string
		err   error
	}{
		"fields":  {`{` + many(maxFields+1, func(i int) string { return fmt.Sprintf(`"x%d":1`, i) }) + `}`, errTooManyFields},
		"calls":   {delta(`{"tool_calls":[` + many(maxCalls+1, func(i int) string { return fmt.Sprintf(`{"index":%d}`, i) }) + `]}`), errTooManyCalls},
		"choices": {`{"choices":[` + many(maxChoices+1, func(i int) string { return fmt.Sprintf(`{"index":%d}`, i) }) + `]}`, errTooManyChoices},
	} {
		if err := NewAssembler(0).Add([]byte(tc.block)); !errors.Is(err, tc.err) {
			t.Errorf("%s: error %v, want %v", name, err, tc.err)
		}
	}
	// A list may be longer than what is merged.
	long := `[` + many(3*maxItems, func(i int) string { return fmt.Sprintf(`{"index":%d}`, i) }) + `]`
	if got := assemble(t, delta(`{"x":`+long+`}`)); !strings.Contains(got, long) {
		t.Errorf("a long list: %.300s", got)
	}
	a := NewAssembler(2000)
	for range 100 {
		if err := a.Add([]byte(`{"x":"` + strings.Repeat("x", 500) + `"}`)); err != nil {
			t.Fatal(err)
		}
	}
}

// addPairs seeds a fuzz target with pairs of adjacent blocks from the corpus, and with its answers
// that are not streams.
func addPairs(f *testing.F) {
	f.Helper()
	for _, a := range chattest.Seeds(f, "testdata") {
		if !a.Streamed {
			f.Add(string(a.Body), usualChunk)
		}
		for i, block := range a.Want.Blocks {
			f.Add(block, a.Want.Blocks[min(i+1, len(a.Want.Blocks)-1)])
		}
	}
}

// FuzzAssembler checks that no chunk makes the assembler panic, exceed its limit or return anything
// but a JSON object.
func FuzzAssembler(f *testing.F) {
	f.Add(usualChunk, delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`))
	f.Add(delta(`{"content":"a"}`), delta(`{"content":["b"],"audio":{"data":"x"},"x":[1]}`))
	f.Add(`{"choices":[{"message":{"content":"a"}}],"usage":{}}`, `{"choices":[{"logprobs":{"content":[1]}}]}`)
	f.Add(`{"id":null,"choices":null}`, `{"\u0061":"\ud800`)
	addPairs(f)
	f.Fuzz(func(t *testing.T, one, two string) {
		const limit = 1000
		a := NewAssembler(limit)
		for _, b := range []string{one, two, one} {
			if a.Add([]byte(b)) != nil {
				break
			}
		}
		reply, err := a.Reply()
		if err != nil {
			return
		}
		if !validJSON(reply) || reply[0] != '{' || len(reply) > 7*limit+100 {
			t.Errorf("%d bytes: %s", len(reply), reply)
		}
		if chunks, err := toChunks(reply); err != nil {
			t.Errorf("the reply cannot be converted: %v", err)
		} else {
			for _, c := range chunks {
				if !validJSON(c) {
					t.Errorf("converted into %s", c)
				}
			}
		}
		var reading struct {
			Object string `json:"object"`
		}
		if json.Unmarshal(reply, &reading, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil || reading.Object != "chat.completion" {
			t.Errorf("not a chat.completion: %s", reply)
		}
	})
}

func BenchmarkAssembler(b *testing.B) {
	block := []byte(usualChunk)
	a := NewAssembler(1 << 40)
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Add(block); err != nil {
			b.Fatal(err)
		}
	}
}
