package kling

import (
	"fmt"

	"github.com/genbus/genbus/internal/body"
)

// kindOf returns the kind of video that a create body asks for, which is also its path segment. A
// body for which notServed reports a member asks for neither.
func kindOf(d body.Document) string {
	if isSet(d.Member("image")) || isSet(d.Member("image_tail")) {
		return imageToVideo
	}
	return textToVideo
}

// otherKinds maps members of bodies for the vendor's other paths to these paths, as documented by
// the vendor (copies in aself101/kling-api, docs/api) and by gateways (the last group). The vendor
// ignores members that it does not know, so on its two paths here such a body would make, and
// charge for, a video that ignores its pictures, videos or sounds.
var otherKinds = map[string]string{
	"image_list":            "multi-image2video, multi-elements or omni-video",
	"video_list":            "omni-video",
	"video_id":              "video-extend, lip-sync or video-to-audio",
	"video_url":             "motion-control or video-to-audio",
	"image_url":             "motion-control",
	"character_orientation": "motion-control",
	"effect_scene":          "effects",
	"input":                 "effects or lip-sync",
	"session_id":            "multi-elements or advanced-lip-sync",
	"face_choose":           "advanced-lip-sync",
	"edit_mode":             "multi-elements",
	"sound_file":            "avatar",
	"audio_id":              "avatar",
	"sound_effect_prompt":   "video-to-audio",
	"image_reference":       "images/generations",
	"image_fidelity":        "images/generations",
	"human_fidelity":        "images/generations",
	"subject_image_list":    "images/multi-image2image",
	"scene_image":           "images/multi-image2image",
	"style_image":           "images/multi-image2image",
	"human_image":           "images/kolors-virtual-try-on",
	"cloth_image":           "images/kolors-virtual-try-on",
	"contents":              "the API with the model in the path",
	"settings":              "the API with the model in the path",

	"images":             "another protocol",
	"image_urls":         "another protocol",
	"binary_data_base64": "another protocol",
	"input_reference":    "another protocol",
	"first_frame_image":  "another protocol",
	"last_frame_image":   "another protocol",
	"tail_image_url":     "another protocol",
}

// withImage lists the members that need an image, because only image2video has them.
var withImage = map[string]bool{"static_mask": true, "dynamic_masks": true, "element_list": true}

// notServed returns a member that only a body for another kind of task has, and what is wrong with
// it. The member is empty if the body is for one of the two kinds.
func notServed(d body.Document) (member, wrong string) {
	for name, value := range d.Members() {
		path, other := otherKinds[name]
		switch {
		case !other && !withImage[name], !isSet(value):
		case other:
			return name, fmt.Sprintf("belongs to a body for %s; only bodies for %s and %s can be sent", path, textToVideo, imageToVideo)
		case kindOf(d) != imageToVideo:
			return name, "needs image or image_tail; only bodies for " + imageToVideo + " have it"
		}
	}
	return "", ""
}

// isSet reports whether a member has a value that is not empty.
func isSet(value []byte) bool {
	switch string(value) {
	case "", "null", `""`, "[]", "{}":
		return false
	}
	return true
}
