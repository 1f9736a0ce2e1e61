package load

import (
	"slices"
	"sync"

	"github.com/genbus/genbus/test/faultinject/check"
)

// Recorder keeps the clients' answers in the order in which they were recorded. It never changes or
// removes entries. The zero value is empty and ready for use. It is safe for concurrent use.
type Recorder struct {
	mu       sync.Mutex
	calls    []check.Call
	followed []check.Followed
	lists    []check.Listed
	good     int
	codes    map[string]int
}

// Record records one request and its answer.
func (r *Recorder) Record(t check.Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, t)
	if t.Good() {
		r.good++
	}
	if t.Code != "" {
		if r.codes == nil {
			r.codes = map[string]int{}
		}
		r.codes[t.Code]++
	}
}

// Follow records the history of a follower.
func (r *Recorder) Follow(f check.Followed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followed = append(r.followed, f)
}

// List records one request for a page of a list and its answer.
func (r *Recorder) List(l check.Listed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists = append(r.lists, l)
}

// Calls returns a copy of the answers recorded so far.
func (r *Recorder) Calls() []check.Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Followed returns a copy of the followers recorded so far.
func (r *Recorder) Followed() []check.Followed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.followed)
}

// Lists returns a copy of the list pages recorded so far.
func (r *Recorder) Lists() []check.Listed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lists)
}

// Refusals counts the requests that were answered with this code.
func (r *Recorder) Refusals(code string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.codes[code]
}

// Answers returns the number of all requests and of the successful ones.
func (r *Recorder) Answers() (asked, good int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.calls), r.good
}
