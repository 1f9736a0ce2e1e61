package body

import (
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Video returns the JSON to send upstream for a request: raw_json byte for byte, or the typed body
// as JSON. It checks that the result is one JSON object; the route's protocol checks its members.
// Errors are *FieldError.
func Video(req *genbusv1.VideoRequest) (Document, error) {
	switch b := req.GetBody().(type) {
	case *genbusv1.VideoRequest_RawJson:
		return rawBody(b.RawJson)
	case *genbusv1.VideoRequest_Video:
		if b.Video == nil {
			return Document{}, Errorf("video", "is missing")
		}
		w := writer{path: path{{"video", single}}}
		w.video(b.Video)
		return w.body("video")
	case *genbusv1.VideoRequest_Stored:
		return Document{}, storedError()
	default:
		return Document{}, Errorf("body", "is missing; set video or raw_json")
	}
}

// storedError refuses a reference to a stored request. Only messages on NATS may carry one, and
// genbus loads the request before it calls Video or Chat.
func storedError() error {
	return Errorf("stored", "works only in NATS messages; send the request itself")
}

func rawBody(raw []byte) (Document, error) {
	d := parse("raw_json", raw)
	return d, d.Err()
}

// body returns the written JSON if it is within the limits. It does not parse the JSON, because the
// writer writes only valid JSON without duplicate names.
func (w *writer) body(field string) (Document, error) {
	switch {
	case w.err != nil:
		return Document{}, w.err
	case tooMany(w.buf):
		return Document{}, Errorf(field, "makes more than %d values of JSON", MaxValues)
	case deeper(w.buf, MaxDepth):
		return Document{}, Errorf(field, "is nested deeper than %d levels", MaxDepth)
	}
	return Document{text: w.buf}, nil
}

func (w *writer) video(m *genbusv1.VideoGeneration) {
	o := w.open()
	o.text("model", m.GetModel())
	o.text("prompt", m.GetPrompt())
	o.optText("image", m.Image)
	o.optDouble("duration", m.Duration)
	o.optInt32("width", m.Width)
	o.optInt32("height", m.Height)
	o.optInt32("fps", m.Fps)
	o.optInt64("seed", m.Seed)
	o.optInt32("n", m.N)
	o.rawObject("metadata", "metadata_json", m.GetMetadataJson())
	o.close(m.GetExtraJson())
}
