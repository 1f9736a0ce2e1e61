package kling

import (
	"net/http"
	"slices"

	"github.com/genbus/genbus/internal/upstream"
)

// passedOnWhole is a gateway's code for an error of the vendor that it could not
// read: its message is the vendor's whole answer.
const passedOnWhole = "fail_to_fetch_task"

// byCode makes a row for one of the vendor's codes, which come with status 200
// too.
func byCode(code string, v upstream.Verdict, s upstream.Scope) upstream.OutcomeRow {
	return upstream.ByCode(code, v, s).Within(200, 599)
}

// outcomes is the outcome table of the protocol. An empty account comes as 429.
//
// 1201 has three meanings, which only the message tells apart: a wrong parameter, an own id that
// is used already, and, on a query, a task that is not found.
var outcomes = slices.Concat(upstream.Outcomes{
	byCode("1000", upstream.RefusedForGood, upstream.ScopeKey),                       // authentication failed
	byCode("1001", upstream.RefusedForGood, upstream.ScopeKey),                       // no token
	byCode("1002", upstream.RefusedForGood, upstream.ScopeKey),                       // bad token
	byCode("1003", upstream.RefusedForGood, upstream.ScopeKey),                       // not valid yet, though just made: a wrong clock
	byCode("1004", upstream.RefusedForGood, upstream.ScopeKey),                       // expired, though just made: a wrong clock
	byCode("1100", upstream.RefusedForGood, upstream.ScopeKey),                       // account exception
	byCode("1101", upstream.RefusedForGood, upstream.ScopeKey),                       // account in arrears; comes as 429
	byCode("1102", upstream.RefusedForGood, upstream.ScopeKey),                       // resource pack used up; comes as 429
	byCode("1103", upstream.RefusedForGood, upstream.ScopeKey),                       // no permission
	byCode("1200", upstream.RefusedForGood, upstream.ScopeRequest),                   // bad parameters
	byCode("1201", upstream.Unknown, upstream.ScopeRequest).Saying("already exists"), // a task has this own id
	byCode("1201", upstream.RefusedForGood, upstream.ScopeRequest),                   // bad parameters
	byCode("1202", upstream.RefusedForGood, upstream.ScopeUpstream),                  // no such method
	byCode("1203", upstream.RefusedForGood, upstream.ScopeUpstream),                  // no such model here
	byCode("1300", upstream.RefusedForGood, upstream.ScopeRequest),                   // against the policy
	byCode("1301", upstream.RefusedForGood, upstream.ScopeRequest),                   // content security
	byCode("1302", upstream.RefusedForNow, upstream.ScopeKey),                        // too fast
	byCode("1303", upstream.RefusedForNow, upstream.ScopeKey),                        // too many tasks at once; seven of them cost nothing
	byCode("1304", upstream.RefusedForGood, upstream.ScopeKey),                       // address not allowed; comes as 429
	byCode("5000", upstream.Unknown, upstream.ScopeUpstream),                         // internal error: the task may exist
	byCode("5001", upstream.Unknown, upstream.ScopeUpstream),                         // maintenance
	byCode("5002", upstream.Unknown, upstream.ScopeUpstream),                         // timed out within
}.WithSource("aself101/kling-api, a client whose author measured the vendor"), upstream.GatewayRows, upstream.StatusRows)

// passedOn judges again a refusal that a gateway passed on whole, by the code that
// the vendor gave: an empty account would be "try later" otherwise.
func passedOn(sub upstream.Submission, again bool) upstream.Submission {
	if sub.Err == nil || sub.Err.Code != passedOnWhole {
		return sub
	}
	said, readable := upstream.ParseErrorBody([]byte(sub.Err.Message))
	if !readable || said.Code == "" {
		return sub
	}
	e := *sub.Err
	e.Code, e.Message = said.Code, said.Message
	verdict := outcomes.Judge(&e, again)
	if e.Final && e.Scope == upstream.ScopeKey {
		e.Scope = upstream.ScopeUpstream // the account is the gateway's, whichever key we use
	}
	return upstream.Submission{Verdict: verdict, Err: &e}
}

// staleToken reports whether the vendor refused a call only because of the
// token's age. It looks at the token before anything else, so such a call has
// done nothing.
func staleToken(e *upstream.Error) bool {
	return e != nil && e.Said && e.HTTPStatus == http.StatusUnauthorized && (e.Code == "1003" || e.Code == "1004")
}
