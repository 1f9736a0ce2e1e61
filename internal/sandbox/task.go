package sandbox

import (
	"cmp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// task is one video task. Nothing about it changes but script.polls: its state
// is computed from the time at which it was created, so that a task costs no
// goroutine and no timer.
type task struct {
	id        string
	model     string
	row       int64         // the number of the task, as a database would count
	created   time.Duration // since the sandbox started
	duration  time.Duration // from created to the terminal state
	seconds   float64       // of the video that was asked for
	seed      int64
	width     int32
	height    int32
	fps       int32
	videos    int32
	fromImage bool
	dialect   *dialect
	prompt    string  // compatible videos only, which answer it
	external  string  // the client's own id for the task; Kling only
	key       string  // the Idempotency-Key of the create
	script    *script // nil for a task that behaves
}

// script is what a task does beyond the ordinary life.
type script struct {
	statuses      []string
	fail          string
	failCode      string
	pollStatus    int
	pollCode      string
	pollFailTimes int64
	pollDelay     time.Duration
	shape         *shape // nil for the model's own
	content       contentScript
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
	}
	if s.pollStatus == 0 && (s.pollCode != "" || s.pollFailTimes > 0) {
		s.pollStatus = 500
	}
	return s
}

// pollFails counts a poll and says whether it is one of those that fail.
func (s *script) pollFails() bool {
	n := s.polls.Add(1)
	return s.pollStatus != 0 && (s.pollFailTimes == 0 || n <= s.pollFailTimes)
}

// outcome is what a task's state means.
type outcome int

const (
	waiting outcome = iota
	running
	completed
	failed
)

// ended says whether the task is over.
func (o outcome) ended() bool { return o == completed || o == failed }

// state is a task at one moment.
type state struct {
	word     string // the upstream's word
	outcome  outcome
	progress int // 0 to 100
}

// at is the state of t when now has passed since the sandbox started, in the
// words of those who ask. The first tenth of a task is spent waiting.
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
	return state{word: words[out], outcome: out, progress: progress}
}

// scripted is the state of a task whose words are given.
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

// outcomeOf reads a status word as upstreams spell it; an unknown one is running.
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

// failure is the code and the message of a failed task.
func (t *task) failure() (code, message string) {
	return t.failureOr("generation_failed", "generation failed")
}

// failureOr is failure where the upstream has words of its own.
func (t *task) failureOr(code, message string) (string, string) {
	if t.script == nil {
		return code, message
	}
	return cmp.Or(t.script.failCode, code), cmp.Or(t.script.fail, message)
}

// changed is when the task last changed its state, since the sandbox started.
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

// filePath is where the k-th video of t is found, counted from 0.
func (t *task) filePath(k int) string {
	path := "/files/" + t.id
	if k > 0 {
		path += "." + strconv.Itoa(k+1)
	}
	return path + ".mp4"
}

// appendFileURL appends the JSON string with the address of the k-th video of t.
func (t *task) appendFileURL(b []byte, base string, k int) []byte {
	return appendJSON(b, base+t.filePath(k))
}
