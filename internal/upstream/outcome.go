package upstream

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
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

// Denial says why an upstream refuses the account behind a key, which only an operator can correct.
type Denial int

// The denials. The zero value means that the error is not about an account.
const (
	NotDenied Denial = iota
	// KeyDenied means that the key is unknown, expired or not allowed to make the call.
	KeyDenied
	// QuotaDenied means that the account's paid quota or balance is used up.
	QuotaDenied
)

// OutcomeRow is a rule for judging one kind of answer to a create. Use ByCode or ByStatus to make
// one.
//
// A row may be a refusal only if the answer names a cause that is checked before work starts
// (authentication, account, quota, rate, parameters, policy, unknown model), or if its source
// documented or measured that no task is created. In all other cases the verdict must be Unknown.
type OutcomeRow struct {
	From, To int // HTTP status, both inclusive
	// Code is the answer's code or type in any spelling: "rate_limit" matches RateLimit too. "*"
	// stands for any text. "" matches any answer.
	Code string
	// Text is a substring of the answer's message, or its beginning, in lower case. "" matches any
	// answer.
	Text    string
	Verdict Verdict
	Scope   Scope
	// Denial is KeyDenied by default if the row refuses a key for good.
	Denial Denial
	// Source names who documented or measured this, or is Inference.
	Source string

	pattern   string // squeezed Code
	begins    bool
	unread    Verdict
	firstOnly bool
}

// Inference is the source of a row that follows only from the meaning of the code or status.
const Inference = "inference"

// ByCode returns a row for a code with any status from 400 to 599.
func ByCode(code string, v Verdict, s Scope) OutcomeRow {
	r := ByStatus(400, 599, v, s)
	r.Code, r.pattern = code, squeeze(code)
	return r
}

// ByStatus returns a row for the HTTP statuses from through to.
func ByStatus(from, to int, v Verdict, s Scope) OutcomeRow {
	r := OutcomeRow{From: from, To: to, Verdict: v, Scope: s}
	if v == RefusedForGood && s == ScopeKey {
		r.Denial = KeyDenied
	}
	return r
}

// Denying sets a row's denial.
func (r OutcomeRow) Denying(d Denial) OutcomeRow {
	r.Denial = d
	return r
}

// WithText restricts a row to answers whose message contains text, ignoring case.
func (r OutcomeRow) WithText(text string) OutcomeRow {
	r.Text = strings.ToLower(text)
	return r
}

// Beginning restricts a row to answers whose message begins with text, ignoring case. Use it for
// rows about a key: further text may quote the request, and a request must not be able to set a key
// aside.
func (r OutcomeRow) Beginning(text string) OutcomeRow {
	r.Text, r.begins = strings.ToLower(text), true
	return r
}

// Within sets a row's range of HTTP statuses.
func (r OutcomeRow) Within(from, to int) OutcomeRow {
	r.From, r.To = from, to
	return r
}

// Unread sets the verdict on an answer whose body cannot be read as an error, also for a
// resubmission. By default, its outcome is unknown, because a proxy may have sent it.
func (r OutcomeRow) Unread(v Verdict) OutcomeRow {
	r.unread = v
	return r
}

// FirstOnly makes the outcome unknown for a resubmission, because the answer may concern the
// earlier submission. Otherwise the row's verdict applies to resubmissions too.
func (r OutcomeRow) FirstOnly() OutcomeRow {
	r.firstOnly = true
	return r
}

// matches reports whether the row applies to an answer with a squeezed code and a message in lower
// case.
func (r OutcomeRow) matches(status int, code, message string) bool {
	if status < r.From || r.To < status || !isWord(r.pattern, code) {
		return false
	}
	if r.begins {
		return strings.HasPrefix(message, r.Text)
	}
	return strings.Contains(message, r.Text)
}

// isWord reports whether a squeezed word matches a squeezed pattern. "" matches any word.
func isWord(pattern, word string) bool {
	matched, err := path.Match(pattern, word)
	return pattern == "" || matched && err == nil
}

// squeeze returns a word or a member's name in lower case with only its letters and digits, and the *
// of a pattern. Vendors write the same word as api_key_invalid, API-KEY-INVALID and ApiKeyInvalid.
func squeeze(word string) string {
	return strings.Map(func(r rune) rune {
		if r == '*' || unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, word)
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

// Judge returns the verdict on an answer other than an acceptance, and sets e.Final, e.Scope and
// e.Denial. e.Reported must report whether the answer's body was readable.
func (rows Outcomes) Judge(e *Error, resubmission bool) Verdict {
	verdict := Unknown
	if i := rows.Find(e); i >= 0 {
		r := rows[i]
		e.Scope, e.Denial = r.Scope, r.Denial
		switch {
		case !e.Reported:
			verdict = r.unread
		case !resubmission || !r.firstOnly:
			verdict = r.Verdict
		}
	}
	e.Final = verdict == RefusedForGood
	e.blame()
	return verdict
}

// Apply sets e.Final, e.Scope and e.Denial as the row for a call that is not a create says.
func (r OutcomeRow) Apply(e *Error) {
	e.Final, e.Scope, e.Denial = r.Verdict == RefusedForGood && !e.Unrouted(), r.Scope, r.Denial
	e.blame()
}

// blame corrects the scope of a refused key that is not ours but a gateway's, so that another key of
// ours does not help.
func (e *Error) blame() {
	if e.Final && e.Scope == ScopeKey && gateways[e.Wrapped] {
		e.Scope = ScopeUpstream
	}
}

// Find returns the index of the row that decides, or -1. This is the first row that matches the
// code, but if that row is only for a status, the first row for the type, or for the code of the
// gateway's own error.
func (rows Outcomes) Find(e *Error) int {
	message, status, first := strings.ToLower(e.Message), e.status(), -1
	for n, code := range []string{e.Code, e.Type, e.Wrapped} {
		word := squeeze(code)
		i := slices.IndexFunc(rows, func(r OutcomeRow) bool { return r.matches(status, word, message) })
		if i >= 0 && rows[i].Code != "" {
			return i
		}
		if n == 0 {
			first = i
		}
	}
	return first
}

// status returns the HTTP status to judge by. Some servers answer 200 and put the status into the
// code.
func (e *Error) status() int {
	if n, err := strconv.Atoi(e.Code); err == nil && n >= 400 && n <= 599 && e.HTTPStatus/100 == 2 {
		return n
	}
	return e.HTTPStatus
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
