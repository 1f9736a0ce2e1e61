package sandbox

import (
	"math/rand/v2"
	"net/http"
)

// words are an upstream's words for the states of a task, by outcome.
type words [4]string

var (
	flatWords     = words{waiting: "queued", running: "in_progress", completed: "completed", failed: "failed"}
	envelopeWords = words{waiting: "NOT_START", running: "IN_PROGRESS", completed: "SUCCESS", failed: "FAILURE"}
	passedWords   = words{waiting: "unknown", running: "processing", completed: "completed", failed: "failed"}
	klingWords    = words{waiting: "submitted", running: "processing", completed: "succeed", failed: "failed"}
	jimengWords   = words{waiting: "in_queue", running: "generating", completed: "done", failed: "done"}
)

// dialect describes the answers of one kind of upstream.
type dialect struct {
	// gateway is true for the common gateway program. Its primary path wraps the answer to every
	// poll in an envelope.
	gateway bool
	words   words
	newID   func() string
	refuse  refuser
	created func(s *Sandbox, r *http.Request, t *task, b Behaviour) []byte
}

var (
	flat      = &dialect{words: flatWords, newID: newTaskID, refuse: refuseFlat, created: createdPrimary}
	enveloped = &dialect{gateway: true, words: envelopeWords, newID: newTaskID, refuse: refuseFlat, created: createdPrimary}

	videos        = &dialect{words: flatWords, newID: newVideoID, refuse: refuseOpenAI, created: createdVideo}
	videosGateway = &dialect{gateway: true, words: passedWords, newID: newTaskID, refuse: refuseFlat, created: createdFlat}

	kling        = &dialect{words: klingWords, newID: newNumber(18), refuse: refuseKling, created: createdKling}
	klingGateway = &dialect{gateway: true, words: klingWords, newID: newTaskID, refuse: refuseFlat, created: createdFlat}

	jimeng = &dialect{words: jimengWords, newID: newNumber(19), refuse: refuseJimeng, created: createdJimeng}
)

// primaryWords returns the status words of the primary path.
func (d *dialect) primaryWords() *words {
	if d.gateway {
		return &envelopeWords
	}
	return &flatWords
}

// contentWords returns the status words used in errors of the content path. A gateway uses its own
// words there.
func (d *dialect) contentWords() *words {
	if d.gateway {
		return &envelopeWords
	}
	return &d.words
}

func createdPrimary(s *Sandbox, r *http.Request, t *task, b Behaviour) []byte {
	if b.Accept202 {
		return t.appendAccepted(nil, s.baseURL(r), !b.NoID)
	}
	return createdFlat(s, r, t, b)
}

// createdFlat returns the common gateway program's answer to a create, which is the same on all its
// paths.
func createdFlat(s *Sandbox, _ *http.Request, t *task, b Behaviour) []byte {
	return t.appendCreated(nil, s.start.Unix(), !b.NoID)
}

func newTaskID() string  { return newID("task_") }
func newVideoID() string { return newID("video_") }

// newNumber returns a generator of decimal IDs with the given number of digits.
func newNumber(digits int) func() string {
	return func() string {
		b := make([]byte, digits)
		for i := range b {
			b[i] = byte('0' + rand.IntN(10))
		}
		b[0] = byte('1' + rand.IntN(9))
		return string(b)
	}
}
