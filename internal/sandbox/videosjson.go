package sandbox

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// video is OpenAI's Video object. It has no URL, because the content is read by ID.
type video struct {
	ID                 string       `json:"id,omitempty"`
	Object             string       `json:"object"`
	Model              string       `json:"model"`
	Status             string       `json:"status"`
	Progress           int          `json:"progress"`
	CreatedAt          int64        `json:"created_at"`
	CompletedAt        *int64       `json:"completed_at"`
	ExpiresAt          *int64       `json:"expires_at"`
	Prompt             string       `json:"prompt"`
	Size               string       `json:"size"`
	Seconds            string       `json:"seconds"`
	RemixedFromVideoID *string      `json:"remixed_from_video_id"`
	Error              *videoFailed `json:"error"`
}

// gatewayVideo is the Video object of the common gateway program. It has times in milliseconds, an
// empty model, completed_at even before completion, and the URL in the metadata.
type gatewayVideo struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Model       string       `json:"model"`
	Status      string       `json:"status"`
	Progress    int          `json:"progress"`
	CreatedAt   int64        `json:"created_at"`
	CompletedAt int64        `json:"completed_at"`
	Seconds     string       `json:"seconds"`
	Metadata    videoURL     `json:"metadata"`
	Error       *videoFailed `json:"error,omitempty"`
}

type videoURL struct {
	URL string `json:"url"`
}

type videoFailed struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type videoDeleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

type videoPage struct {
	Object  string  `json:"object"`
	Data    []any   `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// expiry is how long OpenAI keeps a file.
const expiry = time.Hour

// videoObject returns t in OpenAI's form, or in the gateway's form for a task of another API.
func (s *Sandbox) videoObject(r *http.Request, t *task) any {
	now := time.Since(s.start)
	if t.dialect != videos {
		return s.gatewayVideo(r, t, t.at(now, &passedWords))
	}
	st := t.at(now, &flatWords)
	v := s.newVideoObject(t, st)
	if st.outcome.ended() {
		ended := s.start.Add(t.created + t.duration)
		v.CompletedAt = unix(ended)
		keep := expiry
		if gone := t.contentScript().goneAt; gone > 0 {
			keep = gone
		}
		v.ExpiresAt = unix(ended.Add(keep))
	}
	v.Error = t.videoFailure(st)
	return v
}

func (s *Sandbox) newVideoObject(t *task, st state) video {
	return video{
		ID: t.id, Object: "video", Model: t.model, Status: st.word, Progress: st.progress,
		CreatedAt: s.start.Add(t.created).Unix(), Prompt: t.prompt,
		Size: strconv.Itoa(int(t.width)) + "x" + strconv.Itoa(int(t.height)), Seconds: seconds(t.seconds),
	}
}

func (s *Sandbox) gatewayVideo(r *http.Request, t *task, st state) gatewayVideo {
	v := gatewayVideo{
		ID: t.id, Object: "video", Status: st.word, Progress: st.progress,
		CreatedAt: s.start.Add(t.created).UnixMilli(), CompletedAt: s.start.Add(t.changed(st.outcome)).UnixMilli(),
		Seconds: measured(t.seconds), Error: t.videoFailure(st),
	}
	if st.outcome == completed {
		v.Metadata.URL = s.baseURL(r) + t.filePath(0)
	}
	return v
}

func (t *task) videoFailure(st state) *videoFailed {
	if st.outcome != failed {
		return nil
	}
	code, message := t.failure()
	return &videoFailed{Code: code, Message: message}
}

// createdVideo answers a create with the initial Video object.
func createdVideo(s *Sandbox, _ *http.Request, t *task, b Behaviour) []byte {
	v := s.newVideoObject(t, state{word: flatWords[waiting]})
	if b.NoID {
		v.ID = ""
	}
	return marshal(v)
}

func unix(at time.Time) *int64 {
	seconds := at.Unix()
	return &seconds
}

func seconds(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// measured returns the duration of the produced file, which is longer than requested.
func measured(asked float64) string { return strconv.FormatFloat(asked+0.1, 'f', 1, 64) }

// marshal encodes one of the package's own answers. Encoding them never fails.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(`null`)
	}
	return b
}

func writeAny(w http.ResponseWriter, status int, v any) { writeJSON(w, status, marshal(v)) }
