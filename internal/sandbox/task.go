package sandbox

import (
	"strconv"
	"strings"
	"sync"
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
	enveloped bool
	fromImage bool
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
	polls         atomic.Int64
}

func newScript(b Behaviour) *script {
	if len(b.Statuses) == 0 && b.Fail == "" && b.FailCode == "" &&
		b.PollStatus == 0 && b.PollCode == "" && b.PollFailTimes == 0 && b.PollDelayMS == 0 {
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

// state is a task at one moment.
type state struct {
	word     string // the upstream's word, in the spelling of the task's dialect
	outcome  outcome
	progress int // 0 to 100
}

// words of each dialect, by outcome.
var (
	flatWords     = [...]string{waiting: "queued", running: "in_progress", completed: "completed", failed: "failed"}
	envelopeWords = [...]string{waiting: "NOT_START", running: "IN_PROGRESS", completed: "SUCCESS", failed: "FAILURE"}
)

// at is the state of t when now has passed since the sandbox started. The first
// tenth of a task is spent waiting.
func (t *task) at(now time.Duration) state {
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
	word := flatWords[out]
	if t.enveloped {
		word = envelopeWords[out]
	}
	return state{word: word, outcome: out, progress: progress}
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
	code, message = "generation_failed", "generation failed"
	if t.script != nil && t.script.failCode != "" {
		code = t.script.failCode
	}
	if t.script != nil && t.script.fail != "" {
		message = t.script.fail
	}
	return code, message
}

// taskStore finds tasks by id.
type taskStore struct {
	mu    sync.RWMutex
	byID  map[string]*task
	limit int
}

func newTaskStore(limit int) *taskStore {
	return &taskStore{byID: map[string]*task{}, limit: limit}
}

// add keeps t and numbers it; false when the store is full.
func (s *taskStore) add(t *task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= s.limit {
		return false
	}
	t.row = int64(len(s.byID) + 1)
	s.byID[t.id] = t
	return true
}

// get gives the task, or nil.
func (s *taskStore) get(id string) *task {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

func (s *taskStore) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.byID)
}

// appendFileURL appends the JSON string with the address of the k-th video of t,
// counted from 0.
func (t *task) appendFileURL(b []byte, base string, k int) []byte {
	url := base + "/files/" + t.id
	if k > 0 {
		url += "." + strconv.Itoa(k+1)
	}
	return appendJSON(b, url+".mp4")
}
