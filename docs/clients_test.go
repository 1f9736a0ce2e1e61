//nolint:staticcheck // SA1019: OpenAI's own service is gone, the interface is not
package docs_test

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

// makeVideo makes a video that begins with a picture, and writes it to out. The
// same order twice is one video.
func makeVideo(ctx context.Context, base, key, order string, picture io.Reader, out io.Writer) error {
	client := openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey(key))
	video, err := client.Videos.New(ctx, openai.VideoNewParams{
		Model: "sandbox-videos", Prompt: "a cat", Seconds: openai.VideoSeconds4,
		InputReference: openai.VideoNewParamsInputReferenceUnion{OfFile: openai.File(picture, "first.png", "image/png")},
	}, option.WithHeader("Idempotency-Key", order))
	if err != nil {
		return err
	}
	// As often as genbus says: once in a poll interval of the route, but at least every 8 s.
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

// TestSampleMakesAVideo runs the sample against the sandbox, which speaks the
// same interface; cmd/service has the same client against genbus.
func TestSampleMakesAVideo(t *testing.T) {
	t.Parallel()
	up, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close() //nolint:errcheck // nothing outlives the test
	var out bytes.Buffer
	if err := makeVideo(t.Context(), up.URL(), "any", "order-7", strings.NewReader("\x89PNG\r\n\x1a\n"), &out); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(out.Bytes()[:min(out.Len(), 16)], []byte("ftyp")) {
		t.Errorf("%d bytes that are no MP4", out.Len())
	}
}
