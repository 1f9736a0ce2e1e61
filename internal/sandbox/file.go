package sandbox

import (
	_ "embed" // for the clip
	"net/http"
	"strconv"
	"strings"
	"time"
)

// clip is one second of a test picture: 128x72, 8 frames, H.264 constrained baseline, moov before
// mdat. Made with
//
//	ffmpeg -f lavfi -i testsrc=size=128x72:rate=8:duration=1 -c:v libx264 \
//	  -profile:v baseline -pix_fmt yuv420p -crf 34 -g 8 -bf 0 \
//	  -bsf:v filter_units=remove_types=6 -movflags +faststart video.mp4
//
//go:embed video.mp4
var clip []byte

// clipTime is the clip's Last-Modified. Any fixed time works.
var clipTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *Sandbox) getContent(w http.ResponseWriter, r *http.Request) {
	t := s.tasks.get(r.PathValue("id"))
	if t == nil {
		writeNested(w, http.StatusNotFound, apiError{message: "Task not found", kind: kindInvalid})
		return
	}
	if s.isReady(w, t) && !s.pointsElsewhere(w, r, t) {
		s.serveFile(w, r, t)
	}
}

// countFile counts requests for files, including failed ones.
func (s *Sandbox) countFile(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.count.files.Add(1)
		if r.Header.Get("Authorization") != "" {
			s.count.filesWithAuthorization.Add(1)
		}
		next(w, r)
	}
}

// getFile serves a file: <id>.mp4, <id>.2.mp4 and so on.
func (s *Sandbox) getFile(w http.ResponseWriter, r *http.Request) {
	name, isMP4 := strings.CutSuffix(r.PathValue("name"), ".mp4")
	id, number, numbered := strings.Cut(name, ".")
	t := s.tasks.get(id)
	if t == nil || !isMP4 || numbered && !t.hasVideo(number) {
		writeNested(w, http.StatusNotFound, apiError{message: "File not found", kind: kindInvalid})
		return
	}
	if s.isReady(w, t) {
		s.serveFile(w, r, t)
	}
}

func (t *task) hasVideo(number string) bool {
	k, err := strconv.Atoi(number)
	return err == nil && k >= 2 && k <= int(t.videos) && number == strconv.Itoa(k)
}

// isReady reports whether the task is completed. It answers 400 if it is not.
func (s *Sandbox) isReady(w http.ResponseWriter, t *task) bool {
	st := t.at(time.Since(s.start), t.dialect.contentWords())
	if st.outcome == completed {
		return true
	}
	writeNested(w, http.StatusBadRequest, apiError{
		message: "Task is not completed yet, current status: " + st.word, kind: kindInvalid,
	})
	return false
}
