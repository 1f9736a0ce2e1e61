package sandbox

import (
	"cmp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// task is a video task. Only script.polls changes. The state is computed from the creation time, so
// a task needs no goroutine or timer.
type task struct {
	id        string
	model     string
	row       int64         // sequence number, like a database ID
	created   time.Duration // since the sandbox started
	duration  time.Duration // from created to the terminal state
	seconds   float64       // of the requested video
	seed      int64
	width     int32
	height    int32
	fps       int32
	videos    int32
	fromImage bool
	dialect   *dialect
	prompt    string  // only for compatible videos, whose answers include it
	external  string  // the client's external_task_id; Kling only
	key       string  // the Idempotency-Key of the create
	script    *script // nil for default behaviour
}

// script describes a task's deviations from the default.
type script struct {
	statuses      []string
	fail          string
	failCode      string
	pollStatus    int
	pollCode      string
	pollFailTimes int64
	pollDelay     time.Duration
	shape         *shape // nil for the model's shape
	content       contentScript
	resultAfter   time.Duration // after completion
	polls         atomic.Int64
}

func newScript(b Behaviour) *script {
	if !b.sets() {
		return nil
	}
	s := &script{
		statuses:      b.Statuses,
		fail:          b.Fail,
		failCode:      b.FailCode,
		pollStatus:    b.PollStatus,
		pollCode:      b.PollCode,
		pollFailTimes: int64(b.PollFailTimes),
		pollDelay:     time.Duration(b.PollDelayMS) * time.Millisecond,
		shape:         shapes[b.Shape],
		content:       newContentScript(b),
		resultAfter:   time.Duration(b.ResultAfterMS) * time.Millisecond,
	}
	if s.pollStatus == 0 && (s.pollCode != "" || s.pollFailTimes > 0) {
		s.pollStatus = 500
	}
	return s
}

// pollFails counts a poll and reports whether it must fail.
func (s *script) pollFails() bool {
	n := s.polls.Add(1)
	return s.pollStatus != 0 && (s.pollFailTimes == 0 || n <= s.pollFailTimes)
}

// outcome is the meaning of a task's state.
type outcome int

const (
	waiting outcome = iota
	running
	completed
	failed
)

func (o outcome) ended() bool { return o == completed || o == failed }

// state is the state of a task at one moment.
type state struct {
	word     string // the upstream's status word
	outcome  outcome
	progress int  // 0 to 100
	withheld bool // completed, but the answer has no result yet
}

// at returns the state of t at time now since the sandbox started, in the given words. A task is
// waiting for the first tenth of its duration.
func (t *task) at(now time.Duration, words *words) state {
	elapsed := now - t.created
	ended := elapsed >= t.duration
	progress := 100
	if !ended {
		progress = min(99, int(elapsed*100/t.duration))
	}
	if t.script != nil && len(t.script.statuses) > 0 {
		return t.scripted(ended, progress)
	}
	out := running
	switch {
	case ended && t.script != nil && (t.script.fail != "" || t.script.failCode != ""):
		out = failed
	case ended:
		out = completed
	case progress < 10:
		out, progress = waiting, 0
	}
	withheld := out == completed && t.script != nil && elapsed < t.duration+t.script.resultAfter
	return state{word: words[out], outcome: out, progress: progress, withheld: withheld}
}

// scripted returns the state of a task with scripted status words.
func (t *task) scripted(ended bool, progress int) state {
	words := t.script.statuses
	last := len(words) - 1
	i := last
	if !ended {
		i = min(last, progress*last/100)
	}
	out := outcomeOf(words[i])
	if out == waiting || out == running {
		progress = min(progress, 99)
	}
	return state{word: words[i], outcome: out, progress: progress}
}

// outcomeOf interprets a status word. Unknown words mean running.
func outcomeOf(word string) outcome {
	switch strings.ToLower(strings.TrimSpace(word)) {
	case "completed", "success", "succeeded", "succeed", "complete", "finished", "done":
		return completed
	case "failed", "failure", "fail", "error", "timeout", "cancelled", "canceled", "expired":
		return failed
	case "queued", "not_start", "submitted", "pending":
		return waiting
	default:
		return running
	}
}

// failure returns the code and message of a failed task.
func (t *task) failure() (code, message string) {
	return t.failureOr("generation_failed", "generation failed")
}

// failureOr is like failure but with an upstream's own defaults.
func (t *task) failureOr(code, message string) (string, string) {
	if t.script == nil {
		return code, message
	}
	return cmp.Or(t.script.failCode, code), cmp.Or(t.script.fail, message)
}

// changed returns when the task entered its state, as a time since the sandbox started.
func (t *task) changed(o outcome) time.Duration {
	switch o {
	case waiting:
		return t.created
	case running:
		return t.created + t.duration/10
	default:
		return t.created + t.duration
	}
}

func (t *task) filePath(k int) string {
	path := "/files/" + t.id
	if k > 0 {
		path += "." + strconv.Itoa(k+1)
	}
	return path + ".mp4"
}

// appendFileURL appends the URL of the k-th video of t as a JSON string.
func (t *task) appendFileURL(b []byte, base string, k int) []byte {
	return appendJSON(b, base+t.filePath(k))
}
