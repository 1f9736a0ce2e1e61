package kling

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

// TestBodiesForOtherTasks checks that a body for another of the vendor's paths, or for another
// protocol, is refused by name and not sent as text2video, whichever way it came.
func TestBodiesForOtherTasks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, member, says string }{
		{`{"model_name":"kling-v1-6","prompt":"p","image_list":[{"image":"https://e.com/a.png"},{"image":"https://e.com/b.png"}]}`, "image_list", "multi-image2video"},
		{`{"model_name":"kling-video-o1","prompt":"p","video_list":[{"video_url":"https://e.com/a.mp4","refer_type":"base"}]}`, "video_list", "omni-video"},
		{`{"model_name":"kling-video-o1","prompt":"<<<element_1>>> walks","element_list":[{"element_id":1}]}`, "element_list", "needs image or image_tail"},
		{`{"model_name":"m","video_id":"8930","prompt":"go on"}`, "video_id", "video-extend"},
		{`{"model_name":"m","effect_scene":"squish","input":{"image":"https://e.com/a.png","duration":"5"}}`, "effect_scene", "effects"},
		{`{"model_name":"m","input":{"video_id":"8930","mode":"text2video","text":"hi","voice_id":"v"}}`, "input", "lip-sync"},
		{`{"model_name":"m","session_id":"1","face_choose":[{"face_id":"0"}]}`, "session_id", "advanced-lip-sync"},
		{`{"model_name":"kling-v2-6","image_url":"https://e.com/a.png","video_url":"https://e.com/a.mp4","character_orientation":"image","mode":"std"}`, "image_url", "motion-control"},
		{`{"model_name":"m","image":"https://e.com/a.png","sound_file":"https://e.com/a.mp3","mode":"std"}`, "sound_file", "avatar"},
		{`{"model_name":"m","session_id":"1","edit_mode":"removal","prompt":"p"}`, "session_id", "multi-elements"},
		{`{"model_name":"kling-v2","prompt":"p","image":"aGk=","image_reference":"subject"}`, "image_reference", "images/generations"},
		{`{"model_name":"kling-v2-1","prompt":"p","subject_image_list":[{"subject_image":"aGk="}]}`, "subject_image_list", "images/multi-image2image"},
		{`{"model_name":"kling-3.0","contents":[{"type":"prompt","text":"p"},{"type":"first_frame","url":"https://e.com/a.png"}]}`, "contents", "the model in the path"},
		{`{"model_name":"kling-3.0","prompt":"p","settings":{"resolution":"720p"}}`, "settings", "the model in the path"},
		{`{"model_name":"m","prompt":"p","static_mask":"aGk="}`, "static_mask", "needs image or image_tail"},
		{`{"model_name":"m","prompt":"p","dynamic_masks":[{"mask":"aGk=","trajectories":[]}]}`, "dynamic_masks", "needs image or image_tail"},
		{`{"model_name":"m","prompt":"p","images":["https://e.com/a.png"]}`, "images", "another protocol"},
		{`{"model_name":"m","prompt":"p","image_urls":["https://e.com/a.png"]}`, "image_urls", "another protocol"},
		{`{"model_name":"m","prompt":"p","input_reference":{"image_url":"https://e.com/a.png"}}`, "input_reference", "another protocol"},
	} {
		got := check(c.body)
		if len(got) != 1 || !strings.HasPrefix(got[0], c.member+" ") || !strings.Contains(got[0], c.says) {
			t.Errorf("%s: %q", c.body, got)
		}
		for _, path := range []string{textToVideo, imageToVideo} { // neither path is right, so neither is advised
			r := httptest.NewRequest(http.MethodPost, "/kling/v1/videos/"+path, nil)
			if call, err := read(t, "kling", r, []byte(c.body)); err != nil || upstreamtest.Violations(bodies{}, call.Body.Bytes()) == nil {
				t.Errorf("%s to %s: %v", c.body, path, err)
			}
		}
	}
}

// TestKindOf checks bodies that can be sent, also with empty members of other bodies, as typed
// clients write them.
func TestKindOf(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"model_name":"m","prompt":"p"}`: textToVideo,
		`{"model_name":"m","prompt":"p","image_list":[],"video_id":"","input":{},"images":null,"static_mask":""}`:                         textToVideo,
		`{"model_name":"m","prompt":"p","camera_control":{"type":"simple"},"voice_list":[{"voice_id":"v"}],"unknown":{"image_list":[1]}}`: textToVideo,
		`{"model_name":"m","multi_shot":true,"multi_prompt":[{"index":1,"prompt":"p","duration":"5"}],"shot_type":"customize"}`:           textToVideo,
		`{"model_name":"m","image":"aGk=","static_mask":"aGk=","dynamic_masks":[{"mask":"aGk="}],"element_list":[{"element_id":1}]}`:      imageToVideo,
		`{"model_name":"m","image_tail":"aGk="}`: imageToVideo,
	} {
		d := body.Parse([]byte(raw))
		if got := check(raw); got != nil || kindOf(d) != want {
			t.Errorf("%s is %s with %q, want %s", raw, kindOf(d), got, want)
		}
	}
}
