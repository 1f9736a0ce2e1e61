package chat

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const usualChunk = `{"id":"chatcmpl-CabcdefghijklmnopqrstuvwxyZ01","object":"chat.completion.chunk","created":1790000000,"model":"gpt-4o-mini","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"aBcDeFgHiJkL"}`

func TestLookErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		block  string
		failed bool
		err    error
	}{
		"chunk":                     {usualChunk, false, nil},
		"error object":              {`{"error":{"message":"boom"}}`, true, nil},
		"error string":              {`{"error":"boom"}`, true, nil},
		"error null":                {`{"id":"x","error":null,"choices":[]}`, false, nil},
		"error null, spaced":        {"{ \"error\" : null , \"choices\" : [ ] }", false, nil},
		"error empty":               {`{"error":"","choices":[]}`, false, nil},
		"error name escaped":        {`{"\u0065rror":{"message":"boom"}}`, true, nil},
		"error beside choices":      {`{"id":"x","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502}}`, true, nil},
		"vLLM":                      {`{"object":"error","message":"boom","code":400}`, true, nil},
		"flat":                      {`{"code":"x","message":"boom","data":null}`, true, nil},
		"detail":                    {`{"detail":"boom"}`, true, nil},
		"error in content":          {`{"choices":[{"index":0,"delta":{"content":"\"error\":{\"message\":1}"}}]}`, false, nil},
		"error as content":          {`{"choices":[{"index":0,"delta":{"content":"error"}}]}`, false, nil},
		"error below":               {`{"choices":[{"index":0,"delta":{"error":{"a":1}}}],"x":{"error":"y"}}`, false, nil},
		"finish_reason in content":  {`{"choices":[{"index":0,"delta":{"content":"\"finish_reason\":\"stop\""}}]}`, false, nil},
		"choices null":              {`{"choices":null,"usage":{}}`, false, nil},
		"array":                     {`[1]`, false, errBadBlock},
		"text":                      {`hello`, false, errBadBlock},
		"cut":                       {`{"choices":[{"index":0`, false, errBadBlock},
		"cut string":                {`{"choices":[{"index":0,"delta":{"content":"abc\"`, false, errBadBlock},
		"two objects":               {`{"a":1}{"b":2}`, false, errBadBlock},
		"comma at the end":          {`{"a":1,}`, false, errBadBlock},
		"comma at the start":        {`{,"a":1}`, false, errBadBlock},
		"no colon":                  {`{"a" 1}`, false, errBadBlock},
		"no value":                  {`{"a":}`, false, errBadBlock},
		"empty":                     {``, false, errBadBlock},
		"choices of the wrong kind": {`{"choices":{"0":1}}`, false, errBadBlock},
		"choice of the wrong kind":  {`{"choices":[1]}`, false, errBadBlock},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p progress
			for _, when := range []string{"alone", "again"} {
				failed, err := p.look([]byte(tc.block))
				if failed != tc.failed || !errors.Is(err, tc.err) {
					t.Errorf("%s: failed %v, error %v", when, failed, err)
				}
			}
			if _, err := p.look([]byte(usualChunk)); err != nil {
				t.Fatal(err)
			}
			if failed, err := p.look([]byte(tc.block)); failed != tc.failed || !errors.Is(err, tc.err) {
				t.Errorf("after a usual chunk: failed %v, error %v", failed, err)
			}
		})
	}
}

func TestProgressComplete(t *testing.T) {
	t.Parallel()
	chunk := func(choices string) string { return `{"choices":[` + choices + `]}` }
	for name, tc := range map[string]struct {
		blocks []string
		want   bool
	}{
		"nothing":          {nil, false},
		"no choice":        {[]string{chunk(``)}, false},
		"running":          {[]string{usualChunk}, false},
		"stop":             {[]string{usualChunk, chunk(`{"index":0,"delta":{},"finish_reason":"stop"}`)}, true},
		"usage after it":   {[]string{chunk(`{"index":0,"finish_reason":"stop"}`), chunk(``)}, true},
		"null after it":    {[]string{chunk(`{"index":0,"finish_reason":"stop"}`), usualChunk}, true},
		"empty reason":     {[]string{chunk(`{"index":0,"finish_reason":""}`)}, false},
		"one of two":       {[]string{chunk(`{"index":0},{"index":1}`), chunk(`{"index":1,"finish_reason":"length"}`)}, false},
		"both":             {[]string{chunk(`{"index":1,"finish_reason":"length"}`), chunk(`{"index":0,"finish_reason":"stop"}`)}, true},
		"index missing":    {[]string{chunk(`{"delta":{}},{"delta":{}}`), chunk(`{"finish_reason":"stop"},{"finish_reason":"stop"}`)}, true},
		"index of a call":  {[]string{chunk(`{"index":0,"delta":{"tool_calls":[{"index":1}]}}`), chunk(`{"index":0,"finish_reason":"tool_calls"}`)}, true},
		"same shape twice": {[]string{usualChunk, usualChunk, strings.Replace(usualChunk, `"index":0`, `"index":7`, 1), chunk(`{"index":0,"finish_reason":"stop"}`)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p progress
			for _, b := range tc.blocks {
				if failed, err := p.look([]byte(b)); failed || err != nil {
					t.Fatalf("%s: %v, %v", b, failed, err)
				}
			}
			if p.complete() != tc.want {
				t.Errorf("complete: %v, want %v", p.complete(), tc.want)
			}
		})
	}
}

func TestLookBoundsTheChoices(t *testing.T) {
	t.Parallel()
	block := `{"choices":[{}` + strings.Repeat(`,{}`, maxChoices) + `]}`
	var p progress
	if _, err := p.look([]byte(block)); !errors.Is(err, errTooManyChoices) {
		t.Errorf("error %v", err)
	}
}

// TestShape checks that a shape matches chunks of the same stream that differ only in text.
func TestShape(t *testing.T) {
	t.Parallel()
	other := strings.NewReplacer(" word", `say \"error\": {\\`, "aBcDeFgHiJkL", "x").Replace(usualChunk)
	var p progress
	if _, err := p.look([]byte(usualChunk)); err != nil {
		t.Fatal(err)
	}
	if !p.shape.fits([]byte(other)) {
		t.Error("a chunk with another text does not fit")
	}
	for _, block := range []string{
		strings.Replace(usualChunk, `"finish_reason":null`, `"finish_reason":"stop"`, 1),
		strings.Replace(usualChunk, `" word"`, `" word","x":"y"`, 1),
		strings.Replace(usualChunk, `" word"`, `" word\"`, 1),
		strings.Replace(usualChunk, `"usage":null`, `"usage":null,"error":{"message":"x"}`, 1),
		strings.Replace(usualChunk, `"index":0`, `"index":1`, 1),
		usualChunk + " ", usualChunk[:len(usualChunk)-1], usualChunk[:150], "",
	} {
		if p.shape.fits([]byte(block)) {
			t.Errorf("fits: %s", block)
		}
	}
}

func decoded(block []byte) (failed bool, finished map[int]bool, ok bool) {
	var top struct {
		Error   jsontext.Value `json:"error"`
		Object  jsontext.Value `json:"object"`
		ID      jsontext.Value `json:"id"`
		Message jsontext.Value `json:"message"`
		Msg     jsontext.Value `json:"msg"`
		Detail  jsontext.Value `json:"detail"`
		Choices jsontext.Value `json:"choices"`
	}
	var choices []struct {
		Index        jsontext.Value `json:"index"`
		FinishReason jsontext.Value `json:"finish_reason"`
	}
	if jsontext.Value(block).Kind() != '{' || json.Unmarshal(block, &top) != nil || top.Choices != nil && json.Unmarshal(top.Choices, &choices) != nil {
		return false, nil, false
	}
	finished = map[int]bool{}
	for n, c := range choices {
		index := number(c.Index, n)
		finished[index] = finished[index] || isReason(c.FinishReason)
	}
	flat := (!isNothing(top.Message) || !isNothing(top.Msg) || !isNothing(top.Detail)) && top.Object == nil && top.ID == nil && top.Choices == nil
	return !isNothing(top.Error) || string(top.Object) == `"error"` || flat, finished, true
}

// FuzzLook checks that look agrees with decoding on valid JSON, with and without a shape, and never
// panics.
func FuzzLook(f *testing.F) {
	finish := `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	for _, second := range []string{usualChunk, finish, `{"error":null,"choices":[]}`, `{"object":"error","message":"x"}`, `{"choices":[{"index":12,"delta":{"content":"\\\""}}]}`, `{"a":`} {
		f.Add(usualChunk, second)
		f.Add(`{"choices":[{"delta":{"content":"a","x":"b"}}],"obfuscation":"c"}`, second)
	}
	addPairs(f)
	f.Fuzz(func(t *testing.T, one, two string) {
		var p progress
		_, _ = p.look([]byte(one))
		warm := progress{shape: p.shape}
		failed, err := warm.look([]byte(two))
		var cold progress
		coldFailed, coldErr := cold.look([]byte(two))
		if failed != coldFailed || (err == nil) != (coldErr == nil) {
			t.Fatalf("with a shape %v, %v; without %v, %v", failed, err, coldFailed, coldErr)
		}
		wantFailed, finished, ok := decoded([]byte(two))
		if !ok || errors.Is(coldErr, errTooManyChoices) {
			return
		}
		if coldErr != nil || coldFailed != wantFailed {
			t.Fatalf("failed %v, %v; decoded %v", coldFailed, coldErr, wantFailed)
		}
		for _, c := range cold.choices {
			if c.finished != finished[c.index] {
				t.Errorf("choice %d finished: %v", c.index, c.finished)
			}
		}
		if len(cold.choices) != len(finished) {
			t.Errorf("%d choices, decoded %d", len(cold.choices), len(finished))
		}
	})
}

func BenchmarkLook(b *testing.B) {
	run := func(b *testing.B, blocks ...string) {
		var p progress
		var raw [][]byte
		for _, block := range blocks {
			raw = append(raw, []byte(block))
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if failed, err := p.look(raw[i%len(raw)]); failed || err != nil {
				b.Fatal(failed, err)
			}
		}
	}
	b.Run("usual", func(b *testing.B) { run(b, usualChunk) })
	b.Run("no shape", func(b *testing.B) {
		run(b, usualChunk, strings.Replace(usualChunk, `"index":0`, `"index":1`, 1))
	})
}
