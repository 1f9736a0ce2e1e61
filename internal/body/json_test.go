package body

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// jsonValue decodes raw so that equal JSON values compare equal. Numbers compare by their exact
// value, except logprob, which messages hold as the nearest double.
func jsonValue(t interface{ Fatalf(string, ...any) }, raw []byte) any {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, raw)
	}
	return exact(v)
}

func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok && len(v) < 64 {
			return "number " + r.RatString()
		}
		return "number " + v.String()
	case map[string]any:
		for k, e := range v {
			if n, ok := e.(json.Number); ok && k == "logprob" {
				if f, err := n.Float64(); err == nil {
					e = json.Number(jsontext.AppendFloat(nil, f, 64))
				}
			}
			v[k] = exact(e)
		}
	case []any:
		for i, e := range v {
			v[i] = exact(e)
		}
	}
	return v
}

// withoutZeros removes zero values of index, logprob and choices, which are written even if they
// were absent.
func withoutZeros(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			list, isList := e.([]any)
			if e == "number 0" && (k == "index" || k == "logprob") || k == "choices" && isList && len(list) == 0 {
				delete(v, k)
				continue
			}
			v[k] = withoutZeros(e)
		}
	case []any:
		for i, e := range v {
			v[i] = withoutZeros(e)
		}
	}
	return v
}

func diffJSON(t interface{ Fatalf(string, ...any) }, want, got []byte) string {
	return cmp.Diff(withoutZeros(jsonValue(t, want)), withoutZeros(jsonValue(t, got)))
}

func requireValidJSON(t *testing.T, raw []byte) {
	t.Helper()
	if !jsontext.Value(raw).IsValid() {
		t.Fatalf("not valid JSON: %s", raw)
	}
}

// The generators below write JSON in the shapes that the parsers know. Any member may be absent,
// null, or of another type.

func anyNumber() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64(), func(v int64) string { return fmt.Sprint(v) }),
		rapid.Map(rapid.Int64Range(-3, 300), func(v int64) string { return fmt.Sprint(v) }),
		rapid.Map(rapid.Float64(), func(v float64) string { return string(jsontext.AppendFloat(nil, v, 64)) }),
		rapid.SampledFrom([]string{
			"12345678901234567890", "0.10000000000000000001", "1.0", "1e3", "-0", "0", "5.5", "1E+2", "1e400",
			"2147483648", "9007199254740993", "0.1", "-1.1920929e-07", "-0.31725305318832397", "0.30000000000000004",
		}),
	)
}

func quoted() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) string {
			q, _ := jsontext.AppendQuote(nil, s)
			return string(q)
		}),
		rapid.SampledFrom([]string{`""`, `"a"`, `"\u0061\/b"`, `"\ud83d\ude00"`, `"stop"`, `"auto"`, `"\\\""`}),
	)
}

func anyJSON(depth int) *rapid.Generator[string] {
	scalars := rapid.OneOf(anyNumber(), quoted(), rapid.SampledFrom([]string{"null", "true", "false", "[]", "{}"}))
	if depth == 0 {
		return scalars
	}
	return rapid.OneOf(scalars, arrayOf(anyJSON(depth-1)), rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf(`{"k": %s}`, anyJSON(depth-1).Draw(t, "v"))
	}))
}

func arrayOf(element *rapid.Generator[string]) *rapid.Generator[string] {
	return rapid.Map(rapid.SliceOfN(element, 0, 3), func(list []string) string {
		return "[" + strings.Join(list, " ,") + "]"
	})
}

type members map[string]*rapid.Generator[string]

func objectOf(known members) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var parts []string
		for _, name := range rapid.Permutation(sortedNames(known)).Draw(t, "order") {
			if rapid.Bool().Draw(t, "absent") {
				continue
			}
			value := known[name]
			if rapid.IntRange(0, 5).Draw(t, "wrong") == 0 {
				value = anyJSON(1)
			}
			parts = append(parts, fmt.Sprintf(`%q:%s`, name, value.Draw(t, name)))
		}
		if rapid.IntRange(0, 3).Draw(t, "unknown") == 0 {
			parts = append(parts, `"x_unknown" : `+anyJSON(2).Draw(t, "unknown value"))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	})
}

func sortedNames(m members) []string {
	return slices.Sorted(maps.Keys(m))
}

func booleans() *rapid.Generator[string] { return rapid.SampledFrom([]string{"true", "false"}) }

func smallInts() *rapid.Generator[string] {
	return rapid.Map(rapid.IntRange(0, 9), func(v int) string { return fmt.Sprint(v) })
}

func toolCallJSON() *rapid.Generator[string] {
	return objectOf(members{
		"id": quoted(), "type": quoted(), "index": anyNumber(),
		"function": objectOf(members{"name": quoted(), "arguments": quoted()}),
	})
}

func partJSON() *rapid.Generator[string] {
	return objectOf(members{
		"type": quoted(), "text": quoted(), "refusal": quoted(),
		"image_url":   objectOf(members{"url": quoted(), "detail": quoted()}),
		"input_audio": objectOf(members{"data": quoted(), "format": quoted()}),
		"file":        objectOf(members{"filename": quoted(), "file_data": quoted(), "file_id": quoted()}),
	})
}

func messageJSON() *rapid.Generator[string] {
	return objectOf(members{
		"role": quoted(), "content": rapid.OneOf(quoted(), arrayOf(partJSON())), "name": quoted(),
		"tool_calls": arrayOf(toolCallJSON()), "tool_call_id": quoted(), "refusal": quoted(), "reasoning_content": quoted(),
	})
}

func usageJSON() *rapid.Generator[string] {
	return objectOf(members{
		"prompt_tokens": anyNumber(), "completion_tokens": anyNumber(), "total_tokens": anyNumber(),
		"prompt_tokens_details":     objectOf(members{"cached_tokens": anyNumber(), "text_tokens": anyNumber()}),
		"completion_tokens_details": objectOf(members{"reasoning_tokens": anyNumber(), "audio_tokens": anyNumber()}),
	})
}

func tokenJSON(depth int) *rapid.Generator[string] {
	known := members{
		"token":   quoted(),
		"logprob": rapid.SampledFrom([]string{"0", "-0.0", "-1.5", "-0.30000000000000004"}),
		"bytes":   arrayOf(rapid.SampledFrom([]string{"0", "255", "65", "256", "1.5"})),
	}
	if depth > 0 {
		known["top_logprobs"] = arrayOf(tokenJSON(depth - 1))
	}
	return objectOf(known)
}

// replyJSON writes a completion ("message") or a chunk ("delta").
func replyJSON(message string) *rapid.Generator[string] {
	choice := objectOf(members{
		"index": smallInts(), message: messageJSON(), "finish_reason": quoted(),
		"logprobs": objectOf(members{"content": arrayOf(tokenJSON(1)), "refusal": arrayOf(tokenJSON(0))}),
	})
	return objectOf(members{
		"id": quoted(), "object": quoted(), "created": anyNumber(), "model": quoted(), "choices": arrayOf(choice),
		"usage": usageJSON(), "service_tier": quoted(), "system_fingerprint": quoted(),
	})
}

func chatJSON() *rapid.Generator[string] {
	function := objectOf(members{"name": quoted(), "description": quoted(), "parameters": anyJSON(2), "strict": booleans()})
	return objectOf(members{
		"model": quoted(), "messages": arrayOf(messageJSON()), "stream": booleans(), "temperature": anyNumber(),
		"max_tokens": anyNumber(), "top_p": anyNumber(),
		"tools": arrayOf(objectOf(members{"type": quoted(), "function": function})),
		"tool_choice": rapid.OneOf(quoted(), rapid.Just(`{"type":"function","function":{"name":"f"}}`),
			objectOf(members{"type": quoted(), "function": function})),
		"stop": rapid.OneOf(quoted(), arrayOf(quoted())),
		"response_format": objectOf(members{"type": quoted(), "json_schema": objectOf(members{
			"name": quoted(), "schema": anyJSON(2), "strict": booleans(), "description": quoted()})}),
		"stream_options":   objectOf(members{"include_usage": booleans()}),
		"reasoning_effort": quoted(), "max_completion_tokens": anyNumber(), "n": anyNumber(), "seed": anyNumber(),
		"presence_penalty": anyNumber(), "frequency_penalty": anyNumber(), "logprobs": booleans(), "top_logprobs": anyNumber(),
		"parallel_tool_calls": booleans(), "user": quoted(), "service_tier": quoted(), "verbosity": quoted(),
		"logit_bias": objectOf(members{"50256": anyNumber(), "1": anyNumber()}),
		"metadata":   objectOf(members{"a": quoted(), "b": quoted()}),
	})
}

func videoJSON() *rapid.Generator[string] {
	return objectOf(members{
		"model": quoted(), "prompt": quoted(), "image": quoted(), "duration": anyNumber(), "width": anyNumber(),
		"height": anyNumber(), "fps": anyNumber(), "seed": anyNumber(), "n": anyNumber(), "metadata": anyJSON(2),
	})
}
