package chat

import (
	"fmt"
	"strings"
	"testing"
)

// TestGrowthIsWhatTheWalkGives checks that using the shape yields the same reply as walking every
// chunk.
func TestGrowthIsWhatTheWalkGives(t *testing.T) {
	t.Parallel()
	const usage = `{"id":"c","choices":[],"usage":{"total_tokens":3}}`
	for name, c := range map[string]struct {
		chunk string // %[1]s is the text
		grows bool
	}{
		"content":            {`{"id":"c","created":1,"choices":[{"index":0,"delta":{"content":"%[1]s"},"finish_reason":null}]}`, true},
		"index last":         {`{"id":"c","choices":[{"delta":{"content":"%[1]s"},"logprobs":null,"index":0}],"usage":null}`, true},
		"two fields":         {`{"choices":[{"index":0,"delta":{"reasoning":"%[1]s","content":"%[1]s"}}]}`, true},
		"role each time":     {`{"choices":[{"index":0,"delta":{"role":"assistant","content":"%[1]s"}}]}`, true},
		"obfuscation":        {`{"choices":[{"index":0,"delta":{"content":"%[1]s"}}],"obfuscation":"%[1]s"}`, true},
		"another index":      {`{"choices":[{"index":2,"delta":{"content":"%[1]s"}}]}`, true},
		"logprobs":           {`{"choices":[{"index":0,"delta":{"content":"%[1]s"},"logprobs":{"content":[{"token":"a"}]}}]}`, false},
		"calls":              {`{"choices":[{"index":0,"delta":{"content":"%[1]s","tool_calls":[{"index":0,"function":{"arguments":"x"}}]}}]}`, false},
		"an array":           {`{"choices":[{"index":0,"delta":{"content":"%[1]s","annotations":[1]}}]}`, false},
		"audio":              {`{"choices":[{"index":0,"delta":{"content":"%[1]s","audio":{"data":"x"}}}]}`, false},
		"two choices":        {`{"choices":[{"index":0,"delta":{"content":"%[1]s"}},{"index":1,"delta":{"content":"%[1]s"}}]}`, false},
		"a message":          {`{"choices":[{"index":0,"message":{"content":"%[1]s"},"delta":{"content":"%[1]s"}}]}`, false},
		"content of parts":   {`{"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"%[1]s"}]}}]}`, false},
		"others of one name": {`{"choices":[{"index":0,"delta":{"content":"%[1]s","content":"%[1]s"}}],"x":1,"x":2}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quick, plain := NewAssembler(0), NewAssembler(0)
			quickly := 0
			for i, text := range []string{"a", "b", `\"`, "", "\u00e9", strings.Repeat("long ", 2000), "z"} {
				chunk := fmt.Appendf(nil, c.chunk, text)
				if i == 5 {
					chunk = []byte(usage)
				}
				if quick.growth.shape.fits(chunk) {
					quickly++
				}
				if err := quick.Add(chunk); err != nil {
					t.Fatal(err)
				}
				if err := plain.walk(chunk); err != nil {
					t.Fatal(err)
				}
			}
			got, err := quick.Reply()
			if err != nil {
				t.Fatal(err)
			}
			want, err := plain.Reply()
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) || quick.budget.held != plain.budget.held || quick.blocks != plain.blocks {
				t.Errorf("got  %.300s\nwant %.300s", got, want)
			}
			if (quickly > 0) != c.grows {
				t.Errorf("%d of 7 chunks took the shape", quickly)
			}
		})
	}
}
