package upstreamtest

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/lax"
)

// Limits on the texts in an upstream.Error, in bytes. maxWord also limits a status.
const (
	maxMessage = 2 << 10
	maxWord    = 256
)

// CheckState checks the conditions that every state read from an answer must meet, however odd the
// answer. The progression follows from the status word, and words for a missing task set Unknown. A
// state has an error if and only if the task failed or completed without a result, and results only
// if it completed. All values
// are bounded and can be stored.
//
// said is the progression that the protocol's own rules give for the word, by default
// upstream.ProgressionOf(s.Status).
func CheckState(t *testing.T, s upstream.VideoState, said upstream.Progression) {
	t.Helper()
	// A truncated word may have lost its meaning.
	if s.Progression != said && len(s.Status) < maxWord {
		t.Errorf("status %q gives %v, want %v", s.Status, s.Progression, said)
	}
	if s.Unknown != upstream.NoSuchTask(s.Status) && len(s.Status) < maxWord {
		t.Errorf("status %q: the task is unknown: %v", s.Status, s.Unknown)
	}
	unfulfilled := s.Progression == upstream.Completed && len(s.Videos) == 0
	if (s.Err != nil) != (s.Progression == upstream.Failed) && !unfulfilled {
		t.Errorf("progression %v with error %v", s.Progression, s.Err)
	}
	if len(s.Videos) > 0 && s.Progression != upstream.Completed {
		t.Errorf("progression %v with %d videos", s.Progression, len(s.Videos))
	}
	if s.Progress < -1 || s.Progress > 100 || len(s.Videos) > lax.MaxItems || len(s.Status) > maxWord {
		t.Errorf("progress %d, %d videos, a status of %d bytes", s.Progress, len(s.Videos), len(s.Status))
	}
	for _, v := range s.Videos {
		if !upstream.IsResultURL(v.URL) || v.Duration < 0 || v.Width < 0 || v.Height < 0 {
			t.Errorf("bad video %+v", v)
		}
	}
	for _, raw := range [][]byte{s.Metadata, s.Usage} {
		if raw != nil && (raw[0] != '{' || !json.Valid(raw)) {
			t.Errorf("not a JSON object: %q", raw)
		}
	}
	checkFailure(t, s.Err)
}

func checkFailure(t *testing.T, e *upstream.Error) {
	t.Helper()
	if e == nil {
		return
	}
	if e.Message == "" || len(e.Message) > maxMessage || !utf8.ValidString(e.Message) || len(e.Code) > maxWord {
		t.Errorf("code %q, bad message %q", e.Code, e.Message)
	}
	if e.Op != upstream.OpPoll || !e.Reported || !e.Written {
		t.Errorf("the task's error = %+v", e)
	}
}
