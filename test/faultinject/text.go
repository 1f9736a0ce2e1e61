package faultinject

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json"
)

// contentOf returns the text of a chat's answer, whole or streamed, even if it is incomplete.
func contentOf(answer []byte) string {
	if bytes.HasPrefix(bytes.TrimSpace(answer), []byte("{")) {
		return contentIn(answer)
	}
	var text strings.Builder
	for line := range bytes.Lines(answer) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			text.WriteString(contentIn(data))
		}
	}
	return text.String()
}

// contentIn returns the content of one completion or chunk, or "".
func contentIn(data []byte) string {
	type content struct {
		Content string `json:"content"`
	}
	var object struct {
		Choices []struct {
			Message content `json:"message"`
			Delta   content `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &object) != nil || len(object.Choices) == 0 {
		return ""
	}
	return object.Choices[0].Message.Content + object.Choices[0].Delta.Content
}
