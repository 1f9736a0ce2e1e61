package videos

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

// TestFromSDK checks that the upstream receives what the vendor's own client sent as a form.
func TestFromSDK(t *testing.T) {
	t.Parallel()
	picture := func() io.Reader {
		return openai.File(strings.NewReader(png), "first \"frame\".png", "image/png")
	}
	for name, test := range map[string]struct {
		reference openai.VideoNewParamsInputReferenceUnion
		canonical string // of input_reference
		parts     []sentPart
	}{
		"file": {
			openai.VideoNewParamsInputReferenceUnion{OfFile: picture()}, inJSON("image/png;name=first%20%22frame%22.png"),
			[]sentPart{{Name: "input_reference", FileName: "first \"frame\".png", ContentType: "image/png", Content: png}},
		},
		"nameless file": {
			openai.VideoNewParamsInputReferenceUnion{OfFile: strings.NewReader(png)}, inJSON("image/png;name=anonymous_file"),
			[]sentPart{{Name: "input_reference", FileName: "anonymous_file", ContentType: "image/png", Content: png}},
		},
		"URL": {
			openai.VideoNewParamsInputReferenceUnion{OfImageInputReference: &openai.ImageInputReferenceParam{ImageURL: openai.String("https://e.com/a.png")}},
			`{"image_url":"https://e.com/a.png"}`,
			[]sentPart{{Name: "input_reference[image_url]", Content: "https://e.com/a.png"}},
		},
		"data URL": {
			openai.VideoNewParamsInputReferenceUnion{OfImageInputReference: &openai.ImageInputReferenceParam{ImageURL: openai.String("data:image/webp;base64,aGVsbG8=")}},
			`{"image_url":"data:image/webp;base64,aGVsbG8="}`,
			[]sentPart{{Name: "input_reference", FileName: "input_reference.webp", ContentType: "image/webp", Content: "hello"}},
		},
		"file id": {
			openai.VideoNewParamsInputReferenceUnion{OfImageInputReference: &openai.ImageInputReferenceParam{FileID: openai.String("file-1")}},
			`{"file_id":"file-1"}`,
			[]sentPart{{Name: "input_reference[file_id]", Content: "file-1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := make(chan []sentPart, 1)
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				sent <- readForm(t, r.Header.Get("Content-Type"), r.Body)
				_, _ = io.WriteString(w, `{"id":"v","status":"queued"}`)
			})
			raw := sdkBody(t, client, test.reference)
			want := `{"input_reference":` + test.canonical + `,"model":"sora-2","prompt":"a cat","seconds":"4","size":"1280x720"}`
			if string(raw) != want {
				t.Errorf("canonical body = %s\nwant %s", raw, want)
			}
			if found := upstreamtest.Violations(bodies{}, raw); found != nil {
				t.Errorf("violations = %v", found)
			}
			parts := append(test.parts, sentPart{Name: "model", Content: "sora-2"}, sentPart{Name: "prompt", Content: "a cat"},
				sentPart{Name: "seconds", Content: "4"}, sentPart{Name: "size", Content: "1280x720"})
			if diff := cmp.Diff(parts, <-sent); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
		})
	}
}

// sdkBody creates a video with the SDK at a server that submits it to client's upstream, and
// returns the canonical body.
func sdkBody(t *testing.T, client *client, reference openai.VideoNewParamsInputReferenceUnion) []byte {
	t.Helper()
	bodies := make(chan []byte, 1)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reader, err := r.MultipartReader()
		if err != nil {
			t.Error(err)
			return
		}
		raw, err := FromMultipart(reader, noLimit)
		if err != nil {
			t.Error(err)
		}
		bodies <- raw
		if sub := client.Create(r.Context(), upstream.VideoCreate{JobID: "video_1", Body: body.Parse(raw), Form: true}); sub.Verdict != upstream.Accepted {
			t.Errorf("submission = %+v", sub)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"video_1","object":"video","status":"queued"}`)
	}))
	t.Cleanup(front.Close)
	sdk := openai.NewClient(option.WithBaseURL(front.URL+"/v1"), option.WithAPIKey("k"), option.WithHTTPClient(front.Client()), option.WithMaxRetries(0))
	//nolint:staticcheck // SA1019: the SDK deprecates it with the vendor's service, but gateways still serve it
	video, err := sdk.Videos.New(t.Context(), openai.VideoNewParams{
		Prompt: "a cat", Model: openai.VideoModelSora2, Seconds: "4", Size: openai.VideoSize1280x720, InputReference: reference,
	})
	if err != nil || video.ID != "video_1" {
		t.Fatalf("video = %+v, %v", video, err)
	}
	return <-bodies
}
