//nolint:staticcheck // SA1019: deprecated with OpenAI's own service; gateways still implement the API
package clients_test

import (
	"bytes"
	"context"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
)

func videoParams(model string) openai.VideoNewParams {
	return openai.VideoNewParams{Prompt: "a cat", Model: openai.VideoModel(model), Seconds: "4", Size: openai.VideoSize1280x720}
}

func newVideo(t *testing.T, c openai.Client, model string, opts ...option.RequestOption) *openai.Video {
	t.Helper()
	v, err := c.Videos.New(t.Context(), videoParams(model), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func pollVideo(t *testing.T, c openai.Client, id string) *openai.Video {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v, err := c.Videos.PollStatus(ctx, id, 50)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestOpenAIGoVideos proves that openai-go can use all its video features with genbus.
func TestOpenAIGoVideos(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sandbox.Options{VideoDuration: 500 * time.Millisecond}, nil)
	c, sent := w.openAI()
	t.Run("create without a file, poll, download", func(t *testing.T) { checkVideoOfText(t, c) })
	t.Run("the upstream receives the form that the SDK sent", func(t *testing.T) { w.checkForms(t, c) })
	t.Run("create and poll", func(t *testing.T) {
		v, err := c.Videos.NewAndPoll(t.Context(), videoParams("sandbox-videos"), 0)
		if err != nil || v.Status != openai.VideoStatusCompleted {
			t.Errorf("%+v, %v", v, err)
		}
	})
	t.Run("a failed video has its error", func(t *testing.T) {
		v := pollVideo(t, c, newVideo(t, c, "sandbox-videos:fail=text risk,fail_code=50413").ID)
		if v.Status != openai.VideoStatusFailed || v.Error.Code != "upstream_failed" || !strings.Contains(v.Error.Message, "text risk") {
			t.Errorf("%s", v.RawJSON())
		}
	})
	t.Run("a cancelled video reads failed with the code cancelled", func(t *testing.T) {
		id := newVideo(t, c, "sandbox-videos:duration_ms=600000").ID
		if err := c.Post(t.Context(), "../genbus/v1/videos/"+id+"/cancel", nil, nil); err != nil {
			t.Fatal(err)
		}
		if v := pollVideo(t, c, id); v.Status != openai.VideoStatusFailed || v.Error.Code != "cancelled" {
			t.Errorf("%s", v.RawJSON())
		}
	})
	t.Run("delete, and read no more", func(t *testing.T) { checkVideoDeleted(t, c) })
	t.Run("an idempotency key attaches", func(t *testing.T) { checkVideoAttached(t, c) })
	t.Run("errors are typed", func(t *testing.T) { checkVideoErrors(t, c, sent) })
}

func checkVideoOfText(t *testing.T, c openai.Client) {
	v := newVideo(t, c, "sandbox-videos")
	if v.Status != openai.VideoStatusQueued || v.Object != "video" || v.Model != "sandbox-videos" || v.Seconds != "4" || v.Size != "1280x720" || v.CreatedAt == 0 {
		t.Errorf("created %s", v.RawJSON())
	}
	if v = pollVideo(t, c, v.ID); v.Status != openai.VideoStatusCompleted || v.Progress != 100 || v.CompletedAt < v.CreatedAt || v.JSON.Error.Valid() {
		t.Errorf("ended %s", v.RawJSON())
	}
	resp, err := c.Videos.DownloadContent(t.Context(), v.ID, openai.VideoDownloadContentParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(data, theClip(t)) || resp.Header.Get("Content-Type") != "video/mp4" {
		t.Errorf("%d bytes of %v, %v", len(data), resp.Header, err)
	}
}

func (w world) checkForms(t *testing.T, c openai.Client) {
	const picture = "\x89PNG\r\n\x1a\n the first frame"
	requests := w.creates(t)
	for name, row := range map[string]struct {
		reference openai.VideoNewParamsInputReferenceUnion
		member    string
		want      []string // a value, or a file's name, type and content
	}{
		"file": {
			openai.VideoNewParamsInputReferenceUnion{OfFile: openai.File(strings.NewReader(picture), "first \"frame\".png", "image/png")},
			"input_reference", []string{"first \"frame\".png", "image/png", picture},
		},
		"nameless file": {
			openai.VideoNewParamsInputReferenceUnion{OfFile: strings.NewReader(picture)},
			"input_reference", []string{"anonymous_file", "image/png", picture},
		},
		"URL": {
			openai.VideoNewParamsInputReferenceUnion{OfImageInputReference: &openai.ImageInputReferenceParam{ImageURL: openai.String("https://e.com/a.png")}},
			"input_reference[image_url]", []string{"https://e.com/a.png"},
		},
		"data URL": {
			openai.VideoNewParamsInputReferenceUnion{OfImageInputReference: &openai.ImageInputReferenceParam{ImageURL: openai.String("data:image/webp;base64,aGVsbG8=")}},
			"input_reference", []string{"input_reference.webp", "image/webp", "hello"},
		},
		"file id": {
			openai.VideoNewParamsInputReferenceUnion{OfImageInputReference: &openai.ImageInputReferenceParam{FileID: openai.String("file-1")}},
			"input_reference[file_id]", []string{"file-1"},
		},
	} {
		params := videoParams("sandbox-videos:duration_ms=0")
		params.InputReference = row.reference
		v, err := c.Videos.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		if v = pollVideo(t, c, v.ID); v.Status != openai.VideoStatusCompleted {
			t.Errorf("%s: ended %s", name, v.RawJSON())
		}
		want := map[string][]string{"model": {"sandbox-videos:duration_ms=0"}, "prompt": {"a cat"}, "seconds": {"4"}, "size": {"1280x720"}, row.member: row.want}
		if diff := cmp.Diff(want, (<-requests).form(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// form returns the values of a form, and the name, type and content of each file.
func (r received) form(t *testing.T) map[string][]string {
	t.Helper()
	_, params, err := mime.ParseMediaType(r.header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	form, err := multipart.NewReader(bytes.NewReader(r.body), params["boundary"]).ReadForm(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for name, files := range form.File {
		file, err := files[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(file)
		if err != nil {
			t.Fatal(err)
		}
		form.Value[name] = append(form.Value[name], files[0].Filename, files[0].Header.Get("Content-Type"), string(content))
	}
	return form.Value
}

func checkVideoDeleted(t *testing.T, c openai.Client) {
	v := pollVideo(t, c, newVideo(t, c, "sandbox-videos").ID)
	deleted, err := c.Videos.Delete(t.Context(), v.ID)
	if err != nil || deleted.ID != v.ID || !deleted.Deleted || deleted.Object != "video.deleted" {
		t.Errorf("%+v, %v", deleted, err)
	}
	_, err = c.Videos.Get(t.Context(), v.ID)
	checkError(t, err, http.StatusNotFound, "task_not_found")
	_, err = c.Videos.Delete(t.Context(), v.ID)
	checkError(t, err, http.StatusNotFound, "task_not_found")
}

func checkVideoAttached(t *testing.T, c openai.Client) {
	key := option.WithHeader("Idempotency-Key", "once")
	first, again := newVideo(t, c, "sandbox-videos", key), newVideo(t, c, "sandbox-videos", key)
	if first.ID != again.ID {
		t.Errorf("two videos, %s and %s", first.ID, again.ID)
	}
	params := videoParams("sandbox-videos")
	params.Prompt = "a dog"
	_, err := c.Videos.New(t.Context(), params, key)
	checkError(t, err, http.StatusUnprocessableEntity, "idempotency_key_reused")
}

func checkVideoErrors(t *testing.T, c openai.Client, sent *atomic.Int64) {
	_, err := c.Videos.Get(t.Context(), "video_none")
	checkError(t, err, http.StatusNotFound, "task_not_found")
	_, err = c.Videos.New(t.Context(), videoParams("no-such-model"))
	checkError(t, err, http.StatusNotFound, "model_not_found")
	_, err = c.Videos.New(t.Context(), videoParams("sandbox-kling"))
	checkError(t, err, http.StatusBadRequest, "wrong_protocol")
	params := videoParams("sandbox-videos")
	params.Prompt = ""
	_, err = c.Videos.New(t.Context(), params)
	checkError(t, err, http.StatusBadRequest, "invalid_request")

	id := newVideo(t, c, "sandbox-videos:duration_ms=600000").ID
	before := sent.Load()
	_, err = c.Videos.DownloadContent(t.Context(), id, openai.VideoDownloadContentParams{}, option.WithMaxRetries(2))
	checkError(t, err, http.StatusBadRequest, "content_not_ready")
	if n := sent.Load() - before; n != 1 {
		t.Errorf("the SDK asked %d times for content that is not there yet", n)
	}
	if _, err := c.Videos.Delete(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// TestOpenAIGoPollsAsOftenAsItIsTold proves that the SDK polls at the route's interval, sent as
// openai-poll-after-ms, instead of its default of one second.
func TestOpenAIGoPollsAsOftenAsItIsTold(t *testing.T) {
	t.Parallel()
	const interval = 1600 * time.Millisecond
	w := newWorld(t, sandbox.Options{VideoDuration: interval * 5 / 4}, func(c *config.Config) { // ends at genbus's second poll, after the client's first
		for i := range c.Routes {
			if c.Routes[i].Kind == config.KindVideo {
				c.Routes[i].Poll = config.Poll{Interval: interval}
			}
		}
	})
	var polls []time.Time
	var told []string
	c, _ := w.openAI(option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		resp, err := next(r)
		if err == nil && r.Method == http.MethodGet {
			polls, told = append(polls, time.Now()), append(told, resp.Header.Get("Openai-Poll-After-Ms"))
		}
		return resp, err
	}))
	v, err := c.Videos.NewAndPoll(t.Context(), videoParams("sandbox-videos"), 0)
	if err != nil || v.Status != openai.VideoStatusCompleted {
		t.Fatalf("%+v, %v", v, err)
	}
	if len(polls) < 2 || told[0] != "1600" || told[len(told)-1] != "" {
		t.Fatalf("%d polls, told %q", len(polls), told)
	}
	for i := 1; i < len(polls); i++ {
		if waited := polls[i].Sub(polls[i-1]); waited < interval-50*time.Millisecond {
			t.Errorf("poll %d came after %s", i, waited)
		}
	}
}

// TestOpenAIGoListsVideos proves that the SDK can list videos in both orders, from a given video,
// and with auto-paging while videos are deleted.
func TestOpenAIGoListsVideos(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sandbox.Options{VideoDuration: time.Hour}, nil)
	c, _ := w.openAI()
	var made []string // oldest first
	for range 7 {
		made = append(made, newVideo(t, c, "sandbox-videos").ID)
	}
	newest := slices.Clone(made)
	slices.Reverse(newest)
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for len(listVideos(t, c, openai.VideoListParams{})) < len(made) && ctx.Err() == nil {
		<-time.After(20 * time.Millisecond) // events update the list asynchronously
	}

	page, err := c.Videos.List(t.Context(), openai.VideoListParams{Limit: openai.Int(2)})
	if err != nil || len(page.Data) != 2 || page.Data[0].ID != newest[0] || !page.HasMore || page.LastID != newest[1] {
		t.Fatalf("%+v, %v", page, err)
	}
	for name, row := range map[string]struct {
		params openai.VideoListParams
		want   []string
	}{
		"newest first":         {openai.VideoListParams{Limit: openai.Int(2)}, newest},
		"oldest first":         {openai.VideoListParams{Limit: openai.Int(3), Order: openai.VideoListParamsOrderAsc}, made},
		"after one":            {openai.VideoListParams{After: openai.String(newest[2])}, newest[3:]},
		"after one, ascending": {openai.VideoListParams{After: openai.String(made[4]), Order: openai.VideoListParamsOrderAsc}, made[5:]},
		"a page of the rest":   {openai.VideoListParams{Limit: openai.Int(7)}, newest},
	} {
		if diff := cmp.Diff(row.want, listVideos(t, c, row.params)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, id := range newest[:3] {
		if _, err := c.Videos.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	// A first page that contains only deleted videos must not look like the end.
	if diff := cmp.Diff(newest[3:], listVideos(t, c, openai.VideoListParams{Limit: openai.Int(2)})); diff != "" {
		t.Errorf("after three were deleted (-want +got):\n%s", diff)
	}
	_, err = c.Videos.List(t.Context(), openai.VideoListParams{After: openai.String("video_none")})
	checkError(t, err, http.StatusNotFound, "task_not_found")
	_, err = c.Videos.List(t.Context(), openai.VideoListParams{Limit: openai.Int(101)})
	checkError(t, err, http.StatusBadRequest, "invalid_request")

	// Every page starts after a video that was deleted while the page was read.
	var gone []string
	pager := c.Videos.ListAutoPaging(t.Context(), openai.VideoListParams{Limit: openai.Int(2)})
	for pager.Next() {
		if _, err := c.Videos.Delete(t.Context(), pager.Current().ID); err != nil {
			t.Fatal(err)
		}
		gone = append(gone, pager.Current().ID)
	}
	if diff := cmp.Diff(newest[3:], gone); diff != "" || pager.Err() != nil {
		t.Errorf("deleted while listing: %v (-want +got):\n%s", pager.Err(), diff)
	}
}

func listVideos(t *testing.T, c openai.Client, params openai.VideoListParams) (ids []string) {
	t.Helper()
	pager := c.Videos.ListAutoPaging(t.Context(), params)
	for pager.Next() {
		ids = append(ids, pager.Current().ID)
	}
	if err := pager.Err(); err != nil {
		t.Error(err)
	}
	return ids
}
