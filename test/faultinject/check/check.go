// Package check compares the history of a run under faults with the promises of genbus and reports
// every promise that the history breaks. It is pure. It starts nothing, calls nothing and reads no
// clock.
package check

import (
	"fmt"
	"slices"
	"strings"
)

// Violation is one broken promise.
type Violation struct {
	// Rule is the name of the promise, as in Rules.
	Rule string `json:"rule"`
	// Job is the affected job, or empty.
	Job string `json:"job,omitzero"`
	// Text describes the violation.
	Text string `json:"text"`
}

// String returns the violation as one line.
func (v Violation) String() string {
	return strings.Join(slices.DeleteFunc([]string{v.Rule, v.Job, v.Text}, func(s string) bool { return s == "" }), ": ")
}

// rule is one promise and the function that finds its violations. The function returns how many
// things it checked, because a rule that checked nothing proves nothing.
type rule struct {
	name    string
	promise string
	breaks  func(*facts, report) (looked int)
}

// report records a violation of the current rule.
type report func(job, format string, args ...any)

// rules lists all promises in the order of the checks.
var rules = []rule{
	{"readable", "every stored message can be read, and its headers say what its payload says", readable},
	{"one-end", "an accepted job has exactly one terminal event", oneEnd},
	{"versions", "versions of a job are gap-free from 1", versions},
	{"status-forward", "the status of a job never goes back", statusForward},
	{"terminal-stays", "nothing follows a terminal event", terminalStays},
	{"feed-copy", "a terminal event and its feed copy pair up with equal ce-id and bytes", feedCopies},
	{"deadline", "no job is unfinished past its deadline and the grace", deadlines},
	{"early-end", "no job ends by a limit of time before that time", earlyEnds},
	{"expires", "a job is not submitted after its expires_at, and expires only with one", expires},
	{"strange-end", "no job ends by a loss or a bug of genbus, and none is cancelled that nobody cancelled", strangeEnds},
	{"one-writer", "one attempt is begun by one replica, once", oneWriter},
	{"video-post-once", "a video is POSTed again only after a definite refusal", videoPostOnce},
	{"paid-once", "one job has one task at the upstream, and so has one request", paidOnce},
	{"post-committed", "every video POST follows a committed submitting of its own", postCommitted},
	{"post-lease", "no video POST arrives more than 2 s after its submit_until", postLease},
	{"no-redirect", "no POST follows a redirect", noRedirect},
	{"chat-attempts", "a chat is called at most chat.max_attempts times, an inline one once", chatAttempts},
	{"paid-recorded", "every paid upstream id is in the log or in an orphaned_submission", paidRecorded},
	{"unknown-explained", "every unknown outcome has its fault, and a dead letter", unknownExplained},
	{"chat-reply", "the terminal event's reply is the upstream's text", chatReply},
	{"chat-chunks", "the chunks of the winning attempt rebuild the upstream's text", chatChunks},
	{"stored", "what a terminal event, a dead letter or a chunk names in the object store is there, byte for byte", objects},
	{"same-file", "the copies of the upstream's file are that file", sameFile},
	{"request-body", "the upstream, and a dead letter, have the long request that the client sent", requestBody},
	{"usage", "an ended job that was submitted has one usage event", usage},
	{"inbox-ends", "every stored inbox message becomes a job or a dead letter", inboxEnds},
	{"one-job", "one request makes one job", oneJob},
	{"refused", "what was refused with nothing accepted has no job", refusedMeansRefused},
	{"same-key", "one request_id is one job with one body, and any other body is refused", sameKey},
	{"told-true", "what a client is told is what the log says", answersTrue},
	{"get-forward", "a client's GET never goes back", getForward},
	{"get-found", "a client's GET never answers 404 after acceptance", getFound},
	{"tenants", "no tenant is told of another's job, and none can cancel it", tenants},
	{"answers", "no client is told of a bug, and a reply that it is given is the upstream's text", answers},
	{"followers", "what a follower saw is the log", followers},
	{"lists-own", "every job that is listed is a video task of the tenant that asked", listsOwn},
	{"lists-whole", "after everything has healed each replica lists exactly the video tasks that the log has, newest first", listsWhole},
	{"lists-ready", "while nothing is broken a replica has the index of jobs ready", listsReady},
}

// Rules returns the promise of each rule, by name.
func Rules() map[string]string {
	out := map[string]string{}
	for _, r := range rules {
		out[r.name] = r.promise
	}
	return out
}

// Run checks a history against every rule.
func Run(h *History) ([]Violation, Counts) {
	f := index(h)
	var out []Violation
	looked := map[string]int{}
	for _, r := range rules {
		looked[r.name] = r.breaks(f, func(job, format string, args ...any) {
			out = append(out, Violation{Rule: r.name, Job: job, Text: fmt.Sprintf(format, args...)})
		})
	}
	c := count(f)
	c.Looked = looked
	return out, c
}
