//nolint:staticcheck // SA1019: deprecated with OpenAI's own service; other servers still implement the API
package clients_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"

	"github.com/genbus/genbus/internal/sandbox"
)

// TestSandboxVideos proves that the SDK can create, poll, download and delete a video of the
// sandbox. The SDK always sends multipart.
func TestSandboxVideos(t *testing.T) {
	t.Parallel()
	client, _ := openAI(startSandbox(t, sandbox.Options{Key: "sk-1", VideoDuration: 300 * time.Millisecond}).URL(), "sk-1")
	params := openai.VideoNewParams{
		Model: sandbox.ModelVideos, Prompt: "a cat", Seconds: "8", Size: "1280x720",
		InputReference: openai.VideoNewParamsInputReferenceUnion{OfFile: strings.NewReader("\x89PNG")},
	}
	made, err := client.Videos.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	if made.Status != "queued" || made.Seconds != "8" || made.Size != "1280x720" || made.Prompt != "a cat" || !strings.HasPrefix(made.ID, "video_") {
		t.Errorf("created: %s", made.RawJSON())
	}
	done, err := client.Videos.PollStatus(t.Context(), made.ID, 10)
	if err != nil {
		t.Fatal(err)
	}
	if done.Status != "completed" || done.Progress != 100 || done.CompletedAt < done.CreatedAt || done.ExpiresAt != done.CompletedAt+3600 {
		t.Errorf("completed: %s", done.RawJSON())
	}
	if strings.Contains(done.RawJSON(), "http") {
		t.Errorf("a URL in %s", done.RawJSON())
	}
	content, err := client.Videos.DownloadContent(t.Context(), made.ID, openai.VideoDownloadContentParams{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := io.ReadAll(content.Body)
	_ = content.Body.Close()
	if err != nil || len(file) < 8 || string(file[4:8]) != "ftyp" {
		t.Errorf("%d bytes of content, error %v", len(file), err)
	}
	gone, err := client.Videos.Delete(t.Context(), made.ID)
	if err != nil || !gone.Deleted || gone.ID != made.ID {
		t.Errorf("deleted %+v, error %v", gone, err)
	}
	if _, err := client.Videos.Get(t.Context(), made.ID); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("read after the delete: %v, want 404", err)
	}
}

// TestSandboxChat proves that the SDK can stream a chat of the sandbox.
func TestSandboxChat(t *testing.T) {
	t.Parallel()
	client, _ := openAI(startSandbox(t, sandbox.Options{Key: "sk-1", ChunkCount: 6}).URL(), "sk-1")
	params := openai.ChatCompletionNewParams{
		Model:         sandbox.ModelChatFast,
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.UserMessage("one two three")},
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatalf("the SDK rejected %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if got := acc.Choices[0].Message.Content; got != "You wrote 3 words in 13 " || acc.Usage.CompletionTokens != 6 {
		t.Errorf("streamed %q, usage %+v", got, acc.Usage)
	}
}
