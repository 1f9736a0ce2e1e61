package upstream

import (
	"slices"
	"strings"
)

// Scope describes what a refusal applies to, and therefore who else might accept the request.
type Scope int

// The scopes. The zero value is ScopeRequest, so that code that does not set a scope never sends a
// refused request to every upstream.
const (
	// ScopeRequest means that every upstream would refuse the request.
	ScopeRequest Scope = iota
	// ScopeKey means that the request may succeed with another key of the same upstream.
	ScopeKey
	// ScopeUpstream means that another upstream may accept the request.
	ScopeUpstream
)

// String returns the word used in logs and tests.
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

// OutcomeRow is a rule for judging one kind of answer to a create. Use ByCode or ByStatus to make
// one.
//
// A row may be a refusal only if the answer names a cause that is checked before work starts
// (authentication, account, quota, rate, parameters, policy, unknown model), or if its source
// documented or measured that no task is created. In all other cases the verdict must be Unknown.
type OutcomeRow struct {
	From, To int // HTTP status, both inclusive
	// Code is the answer's code, or its type if it has no code. "" matches any answer.
	Code string
	// Text is a substring of the answer's message, in lower case. "" matches any answer.
	Text    string
	Verdict Verdict
	Scope   Scope
	// Source names who documented or measured this, or is Inference.
	Source string

	unread    bool
	firstOnly bool
}

// Inference is the source of a row that follows only from the meaning of the code or status.
const Inference = "inference"

// ByCode returns a row for a code with any status from 400 to 599.
func ByCode(code string, v Verdict, s Scope) OutcomeRow {
	return OutcomeRow{From: 400, To: 599, Code: code, Verdict: v, Scope: s}
}

// ByStatus returns a row for the HTTP statuses from through to.
func ByStatus(from, to int, v Verdict, s Scope) OutcomeRow {
	return OutcomeRow{From: from, To: to, Verdict: v, Scope: s}
}

// WithText restricts a row to answers whose message contains text, ignoring case.
func (r OutcomeRow) WithText(text string) OutcomeRow {
	r.Text = strings.ToLower(text)
	return r
}

// Within sets a row's range of HTTP statuses.
func (r OutcomeRow) Within(from, to int) OutcomeRow {
	r.From, r.To = from, to
	return r
}

// AlsoUnread makes the row apply even if the body cannot be read as an error. Otherwise such an
// answer has an unknown outcome, because a proxy may have sent it.
func (r OutcomeRow) AlsoUnread() OutcomeRow {
	r.unread = true
	return r
}

// FirstOnly makes the outcome unknown for a resubmission, because the answer may concern the
// earlier submission. Otherwise the row's verdict applies to resubmissions too.
func (r OutcomeRow) FirstOnly() OutcomeRow {
	r.firstOnly = true
	return r
}

// Outcomes is a protocol's outcome table. The first matching row decides; if no row matches, the
// outcome is Unknown. Rows for codes come before rows for statuses, because servers send permanent
// refusals as 503 and 500.
type Outcomes []OutcomeRow

// WithSource sets the source of all rows.
func (rows Outcomes) WithSource(source string) Outcomes {
	for i := range rows {
		rows[i].Source = source
	}
	return rows
}

// Judge returns the verdict on an answer other than an acceptance, and sets e.Final and e.Scope.
// e.Reported must report whether the answer's body was readable.
func (rows Outcomes) Judge(e *Error, resubmission bool) Verdict {
	verdict := Unknown
	if i := rows.Find(e); i >= 0 {
		r := rows[i]
		e.Scope = r.Scope
		if (e.Reported || r.unread) && (!resubmission || !r.firstOnly) {
			verdict = r.Verdict
		}
	}
	e.Final = verdict == RefusedForGood
	return verdict
}

// Find returns the index of the first matching row, or -1.
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

// unanswered judges a call that got no answer: RefusedForNow if nothing was written, Unknown
// otherwise. The scope is the upstream in both cases.
func unanswered(e *Error) Verdict {
	e.Scope, e.Final = ScopeUpstream, false
	if e.Written {
		return Unknown
	}
	return RefusedForNow
}
