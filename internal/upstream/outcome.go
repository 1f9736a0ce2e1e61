package upstream

import (
	"slices"
	"strings"
)

// Scope says whom a refusal is about, and so who else might accept.
type Scope int

// The scopes. The zero value is the request itself: a path that forgets to
// decide must not send a refused request round all upstreams.
const (
	// ScopeRequest: the request; every upstream would refuse it.
	ScopeRequest Scope = iota
	// ScopeKey: the key; another key of the same upstream may be accepted.
	ScopeKey
	// ScopeUpstream: this upstream; another one may accept.
	ScopeUpstream
)

// String gives the word used in logs and tests.
func (s Scope) String() string {
	switch s {
	case ScopeKey:
		return "key"
	case ScopeUpstream:
		return "upstream"
	default:
		return "request"
	}
}

// OutcomeRow says what one kind of answer to a create means. ByCode and ByStatus
// make rows.
//
// A row may be a refusal where the answer names a cause that is checked before work starts
// (authentication, account, quota, rate, parameters, policy, unknown model), or where Source
// documents, or has measured, that no task is made. All else is Unknown.
type OutcomeRow struct {
	From, To int // HTTP status, both inclusive
	// Code is the code word of the answer (its type when it has none); ""
	// matches all.
	Code string
	// Text is a part of the answer's message, in lower case; "" matches all.
	Text    string
	Verdict Verdict
	Scope   Scope
	// Source says who documents or has measured this; Inference where nobody has.
	Source string

	unread    bool
	firstOnly bool
}

// Inference is the source of a row that nobody is known to have documented or measured: the code,
// or the status, means it.
const Inference = "inference"

// ByCode makes a row for a code word, which comes with any status from 400 to
// 599.
func ByCode(code string, v Verdict, s Scope) OutcomeRow {
	return OutcomeRow{From: 400, To: 599, Code: code, Verdict: v, Scope: s}
}

// ByStatus makes a row for a range of HTTP statuses, both inclusive.
func ByStatus(from, to int, v Verdict, s Scope) OutcomeRow {
	return OutcomeRow{From: from, To: to, Verdict: v, Scope: s}
}

// Saying narrows a row to answers whose message has a text, in whatever case.
func (r OutcomeRow) Saying(text string) OutcomeRow {
	r.Text = strings.ToLower(text)
	return r
}

// Within narrows, or widens, a row to a range of HTTP statuses.
func (r OutcomeRow) Within(from, to int) OutcomeRow {
	r.From, r.To = from, to
	return r
}

// AlsoUnread makes the status alone say it. Without it a body that cannot be
// read as an error makes the outcome unknown: who knows which proxy wrote it.
func (r OutcomeRow) AlsoUnread() OutcomeRow {
	r.unread = true
	return r
}

// FirstOnly makes the outcome of a resubmission unknown, because the answer may
// be about the earlier submission. Without it the row means "not accepted" on a
// resubmission too.
func (r OutcomeRow) FirstOnly() OutcomeRow {
	r.firstOnly = true
	return r
}

// Outcomes is the outcome table of a protocol: the first row that matches an
// answer decides. Codes stand before statuses, because servers send permanent
// refusals as 503 and 500. What no row matches is Unknown.
type Outcomes []OutcomeRow

// WithSource gives the rows a source.
func (rows Outcomes) WithSource(source string) Outcomes {
	for i := range rows {
		rows[i].Source = source
	}
	return rows
}

// Judge gives the verdict on an answer that is no acceptance, and sets the
// error's Final and Scope accordingly. e.Said tells whether its body was
// readable.
func (rows Outcomes) Judge(e *Error, resubmission bool) Verdict {
	verdict := Unknown
	if i := rows.Find(e); i >= 0 {
		r := rows[i]
		e.Scope = r.Scope
		if (e.Said || r.unread) && (!resubmission || !r.firstOnly) {
			verdict = r.Verdict
		}
	}
	e.Final = verdict == RefusedForGood
	return verdict
}

// Find gives the index of the row that matches an answer, or -1.
func (rows Outcomes) Find(e *Error) int {
	code := e.Code
	if code == "" {
		code = e.Type
	}
	message := strings.ToLower(e.Message)
	return slices.IndexFunc(rows, func(r OutcomeRow) bool {
		return r.From <= e.HTTPStatus && e.HTTPStatus <= r.To && (r.Code == "" || r.Code == code) && strings.Contains(message, r.Text)
	})
}

// unanswered judges a call without an answer: refused for now when nothing of
// the request was written, unknown otherwise. Either way it is this upstream
// that is in trouble.
func unanswered(e *Error) Verdict {
	e.Scope, e.Final = ScopeUpstream, false
	if e.Written {
		return Unknown
	}
	return RefusedForNow
}
