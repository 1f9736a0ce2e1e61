//nolint:staticcheck // SA1019: deprecated with OpenAI's own service; other servers still implement the API
package clients_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/genbus/genbus/internal/sandbox"
)

// makeVideo creates a video that starts with picture, and writes it to out. Calling it again with
// the same order returns the same video.
func makeVideo(ctx context.Context, base, key, order string, picture io.Reader, out io.Writer) error {
	client := openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey(key))
	video, err := client.Videos.New(ctx, openai.VideoNewParams{
		Model: "sandbox-videos", Prompt: "a cat", Seconds: openai.VideoSeconds4,
		InputReference: openai.VideoNewParamsInputReferenceUnion{OfFile: openai.File(picture, "first.png", "image/png")},
	}, option.WithHeader("Idempotency-Key", order))
	if err != nil {
		return err
	}
	// An interval of 0 polls as often as genbus suggests: every 0.5 to 8 s, depending on the route.
	if video, err = client.Videos.PollStatus(ctx, video.ID, 0); err != nil {
		return err
	}
	if video.Status != openai.VideoStatusCompleted {
		return fmt.Errorf("%s: %s: %s", video.ID, video.Error.Code, video.Error.Message)
	}
	content, err := client.Videos.DownloadContent(ctx, video.ID, openai.VideoDownloadContentParams{})
	if err != nil {
		return err
	}
	defer content.Body.Close()
	_, err = io.Copy(out, content.Body)
	return err
}

// TestSampleMakesAVideo runs the sample against the sandbox, which implements the same API.
// TestGoClients runs the same client against genbus.
func TestSampleMakesAVideo(t *testing.T) {
	t.Parallel()
	up := startSandbox(t, sandbox.Options{VideoDuration: 100 * time.Millisecond})
	var out bytes.Buffer
	if err := makeVideo(t.Context(), up.URL(), "any", "order-7", strings.NewReader("\x89PNG\r\n\x1a\n"), &out); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out.Bytes()[:min(out.Len(), 16)], []byte("ftyp")) {
		t.Errorf("%d bytes that are no MP4", out.Len())
	}
}
