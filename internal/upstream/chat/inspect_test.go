package chat

import (
	"bytes"
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
		block string
		found finding
		err   error
	}{
		"chunk":                     {usualChunk, aChunk, nil},
		"error object":              {`{"error":{"message":"boom"}}`, anError, nil},
		"error string":              {`{"error":"boom"}`, anError, nil},
		"error null":                {`{"id":"x","error":null,"choices":[]}`, aChunk, nil},
		"error null, spaced":        {"{ \"error\" : null , \"choices\" : [ ] }", aChunk, nil},
		"error empty":               {`{"error":"","choices":[]}`, aChunk, nil},
		"error name escaped":        {`{"\u0065rror":{"message":"boom"}}`, anError, nil},
		"error beside choices":      {`{"id":"x","choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}],"error":{"code":502}}`, anError, nil},
		"vLLM":                      {`{"object":"error","message":"boom","code":400}`, anError, nil},
		"flat":                      {`{"code":"x","message":"boom","data":null}`, anError, nil},
		"detail":                    {`{"detail":"boom"}`, anError, nil},
		"error in content":          {`{"choices":[{"index":0,"delta":{"content":"\"error\":{\"message\":1}"}}]}`, aChunk, nil},
		"error as content":          {`{"choices":[{"index":0,"delta":{"content":"error"}}]}`, aChunk, nil},
		"error below":               {`{"choices":[{"index":0,"delta":{"error":{"a":1}}}],"x":{"error":"y"}}`, aChunk, nil},
		"finish_reason in content":  {`{"choices":[{"index":0,"delta":{"content":"\"finish_reason\":\"stop\""}}]}`, aChunk, nil},
		"error of a choice":         {`{"id":"x","choices":[{"index":0,"delta":{},"error":{"code":502}}]}`, anError, nil},
		"error null of a choice":    {`{"id":"x","choices":[{"index":0,"delta":{},"error":null}]}`, aChunk, nil},
		"finish_reason error":       {`{"id":"x","choices":[{"index":0,"finish_reason":"Error"}]}`, anError, nil},
		"base_resp":                 {`{"id":"x","choices":null,"base_resp":{"status_code":1008,"status_msg":"no"}}`, anError, nil},
		"base_resp of a success":    {`{"id":"x","choices":[],"base_resp":{"status_code":0,"status_msg":""}}`, aChunk, nil},
		"base_resp of texts":        {`{"id":"x","base_resp":{"status_code":"0"}}`, aChunk, nil},
		"base_resp null":            {`{"id":"x","base_resp":null}`, aChunk, nil},
		"flat, without choices":     {`{"code":"x","message":"boom","choices":[]}`, anError, nil},
		"empty object":              {`{}`, another, nil},
		"ping":                      {`{"type":"ping"}`, another, nil},
		"type of a chunk":           {`{"type":"chunk","choices":[{"index":0}]}`, aChunk, nil},
		"type of a usage":           {`{"type":"usage","usage":{}}`, aChunk, nil},
		"unknown members":           {`{"citations":[]}`, aChunk, nil},
		"choices null":              {`{"choices":null,"usage":{}}`, aChunk, nil},
		"array":                     {`[1]`, another, errBadBlock},
		"text":                      {`hello`, another, errBadBlock},
		"cut":                       {`{"choices":[{"index":0`, another, errBadBlock},
		"cut string":                {`{"choices":[{"index":0,"delta":{"content":"abc\"`, another, errBadBlock},
		"two objects":               {`{"a":1}{"b":2}`, another, errBadBlock},
		"comma at the end":          {`{"a":1,}`, another, errBadBlock},
		"comma at the start":        {`{,"a":1}`, another, errBadBlock},
		"no colon":                  {`{"a" 1}`, another, errBadBlock},
		"no value":                  {`{"a":}`, another, errBadBlock},
		"empty":                     {``, another, errBadBlock},
		"choices of the wrong kind": {`{"choices":{"0":1}}`, another, errBadBlock},
		"choice of the wrong kind":  {`{"choices":[1]}`, another, errBadBlock},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p progress
			for _, when := range []string{"alone", "again"} {
				found, err := p.look([]byte(tc.block))
				if found != tc.found || !errors.Is(err, tc.err) {
					t.Errorf("%s: found %v, error %v", when, found, err)
				}
			}
			if _, err := p.look([]byte(usualChunk)); err != nil {
				t.Fatal(err)
			}
			if found, err := p.look([]byte(tc.block)); found != tc.found || !errors.Is(err, tc.err) {
				t.Errorf("after a usual chunk: found %v, error %v", found, err)
			}
			if _, err := p.look([]byte(finishChunk)); err != nil {
				t.Fatal(err)
			}
			want := tc.found
			if want == anError {
				want = another
			}
			if found, err := p.look([]byte(tc.block)); p.complete() && (found != want || err != nil) {
				t.Errorf("after the end: found %v, error %v", found, err)
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
		"null as a word":   {[]string{chunk(`{"index":0,"finish_reason":"null"}`)}, false},
		"None as a word":   {[]string{chunk(`{"index":0,"finish_reason":"None"}`)}, false},
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
				if found, err := p.look([]byte(b)); found != aChunk || err != nil {
					t.Fatalf("%s: %v, %v", b, found, err)
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

// decoded finds what look finds by decoding the block. ok is false if it cannot be decoded.
func decoded(block []byte) (found finding, finished map[int]bool, ok bool) {
	var top struct {
		Error   jsontext.Value `json:"error"`
		Object  jsontext.Value `json:"object"`
		ID      jsontext.Value `json:"id"`
		Usage   jsontext.Value `json:"usage"`
		Type    jsontext.Value `json:"type"`
		Message jsontext.Value `json:"message"`
		Msg     jsontext.Value `json:"msg"`
		Detail  jsontext.Value `json:"detail"`
		Choices jsontext.Value `json:"choices"`
		Base    struct {
			Code jsontext.Value `json:"status_code"`
		} `json:"base_resp"`
	}
	var choices []struct {
		Index        jsontext.Value `json:"index"`
		FinishReason jsontext.Value `json:"finish_reason"`
		Error        jsontext.Value `json:"error"`
	}
	if jsontext.Value(block).Kind() != '{' || json.Unmarshal(block, &top) != nil || top.Choices != nil && json.Unmarshal(top.Choices, &choices) != nil {
		return another, nil, false
	}
	failed := !isNothing(top.Error) || string(top.Object) == `"error"` || !isNothing(top.Base.Code) && string(top.Base.Code) != `"0"`
	finished = map[int]bool{}
	for n, c := range choices {
		var f findings
		index := number(c.Index, n)
		finished[index] = f.lookAtReason(c.FinishReason) || finished[index]
		failed = failed || !isNothing(c.Error) || f.reason != nil
	}
	part := top.Object != nil || top.ID != nil || top.Usage != nil || len(choices) > 0
	switch bare := !isNothing(top.Message) || !isNothing(top.Msg) || !isNothing(top.Detail); {
	case failed, bare && !part:
		return anError, finished, true
	case !part && top.Type != nil, len(bytes.TrimSpace(block[1:])) == 1:
		return another, finished, true
	}
	return aChunk, finished, true
}

// FuzzLook checks that look agrees with decoding on valid JSON, with and without a shape, and never
// panics.
func FuzzLook(f *testing.F) {
	finish := `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	for _, second := range []string{usualChunk, finish, `{"error":null,"choices":[]}`, `{"object":"error","message":"x"}`, `{"base_resp":{"status_code":1}}`, `{"choices":[{"error":{"a":1}}]}`, `{"choices":[{"index":12,"delta":{"content":"\\\""}}]}`, `{"a":`} {
		f.Add(usualChunk, second)
		f.Add(`{"choices":[{"delta":{"content":"a","x":"b"}}],"obfuscation":"c"}`, second)
	}
	addPairs(f)
	f.Fuzz(func(t *testing.T, one, two string) {
		var p progress
		_, _ = p.look([]byte(one))
		warm := progress{shape: p.shape}
		found, err := warm.look([]byte(two))
		var cold progress
		coldFound, coldErr := cold.look([]byte(two))
		if found != coldFound || (err == nil) != (coldErr == nil) {
			t.Fatalf("with a shape %v, %v; without %v, %v", found, err, coldFound, coldErr)
		}
		if found == anError && !validJSON(cold.failure) {
			t.Fatalf("error %s", cold.failure)
		}
		want, finished, ok := decoded([]byte(two))
		if !ok || errors.Is(coldErr, errTooManyChoices) {
			return
		}
		if coldErr != nil || coldFound != want {
			t.Fatalf("found %v, %v; decoded %v", coldFound, coldErr, want)
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
			if found, err := p.look(raw[i%len(raw)]); found != aChunk || err != nil {
				b.Fatal(found, err)
			}
		}
	}
	b.Run("usual", func(b *testing.B) { run(b, usualChunk) })
	b.Run("no shape", func(b *testing.B) {
		run(b, usualChunk, strings.Replace(usualChunk, `"index":0`, `"index":1`, 1))
	})
}
