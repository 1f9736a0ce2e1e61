package client_test

import (
	"testing"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// TestTextOfAChatItem checks that Text reads only the first choice, in both forms of content.
func TestTextOfAChatItem(t *testing.T) {
	t.Parallel()
	item := client.ChatItem{Chunk: &genbusv1.ChatChunk{Blocks: [][]byte{
		[]byte(`{"choices":[{"delta":{"content":"a"}},{"index":1,"delta":{"content":"not this"}}]}`),
		[]byte(`{"choices":[{"delta":{"content":null,"tool_calls":[]}}]}`),
		[]byte(`not JSON`),
		[]byte(`{"choices":[],"usage":{}}`),
		[]byte(`{"choices":[{"delta":{"content":[{"type":"text","text":"b"}]}}]}`),
	}}}
	if got := item.Text(); got != "ab" {
		t.Errorf("it is %q", got)
	}
}
