package load

import (
	"slices"
	"sync"

	"github.com/genbus/genbus/test/faultinject/check"
)

// Recorder keeps what clients are told, in the order in which they write it down.
// Nothing is ever changed or taken out. It is safe for concurrent use; the zero
// value is empty.
type Recorder struct {
	mu       sync.Mutex
	told     []check.Told
	followed []check.Followed
	lists    []check.Listed
	good     int
	codes    map[string]int
}

// Tell keeps one question and its answer.
func (r *Recorder) Tell(t check.Told) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, t)
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

// Follow keeps what a follower saw in its whole life.
func (r *Recorder) Follow(f check.Followed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followed = append(r.followed, f)
}

// List keeps one question for a page of a list, and its answer.
func (r *Recorder) List(l check.Listed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists = append(r.lists, l)
}

// Told gives a copy of what was kept so far, as Followed and Lists do.
func (r *Recorder) Told() []check.Told {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// Followed is in Told's comment.
func (r *Recorder) Followed() []check.Followed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.followed)
}

// Lists is in Told's comment.
func (r *Recorder) Lists() []check.Listed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lists)
}

// Refusals counts the questions that were answered with a code.
func (r *Recorder) Refusals(code string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.codes[code]
}

// Answers counts the questions and those that were granted.
func (r *Recorder) Answers() (asked, good int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.told), r.good
}
