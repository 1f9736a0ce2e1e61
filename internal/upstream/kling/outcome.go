package kling

import (
	"net/http"
	"slices"

	"github.com/genbus/genbus/internal/upstream"
)

// byCode returns a row for a vendor code. The vendor also sends its codes with status 200.
func byCode(code string, v upstream.Verdict, s upstream.Scope) upstream.OutcomeRow {
	return upstream.ByCode(code, v, s).Within(200, 599)
}

const quota = upstream.QuotaDenied

// outcomes is the protocol's outcome table. The vendor reports an empty account with status 429.
//
// Code 1201 has three meanings that only the message distinguishes: a wrong parameter, an
// external_task_id that is already in use, and, for a query, a task that is not found.
var outcomes = slices.Concat(upstream.Outcomes{
	byCode("1000", upstream.RefusedForGood, upstream.ScopeKey),                         // authentication failed
	byCode("1001", upstream.RefusedForGood, upstream.ScopeKey),                         // no token
	byCode("1002", upstream.RefusedForGood, upstream.ScopeKey),                         // bad token
	byCode("1003", upstream.RefusedForGood, upstream.ScopeKey),                         // not valid yet although just created: wrong clock
	byCode("1004", upstream.RefusedForGood, upstream.ScopeKey),                         // expired although just created: wrong clock
	byCode("1100", upstream.RefusedForGood, upstream.ScopeKey),                         // account exception
	byCode("1101", upstream.RefusedForGood, upstream.ScopeKey).Denying(quota),          // account in arrears; sent as 429
	byCode("1102", upstream.RefusedForGood, upstream.ScopeKey).Denying(quota),          // resource pack used up; sent as 429
	byCode("1103", upstream.RefusedForGood, upstream.ScopeKey),                         // no permission
	byCode("1200", upstream.RefusedForGood, upstream.ScopeRequest),                     // bad parameters
	byCode("1201", upstream.Unknown, upstream.ScopeRequest).WithText("already exists"), // a task has this external_task_id
	byCode("1201", upstream.RefusedForGood, upstream.ScopeRequest),                     // bad parameters
	byCode("1202", upstream.RefusedForGood, upstream.ScopeUpstream),                    // unknown method
	byCode("1203", upstream.RefusedForGood, upstream.ScopeUpstream),                    // unknown model
	byCode("1300", upstream.RefusedForGood, upstream.ScopeRequest),                     // policy violation
	byCode("1301", upstream.RefusedForGood, upstream.ScopeRequest),                     // content security
	byCode("1302", upstream.RefusedForNow, upstream.ScopeKey),                          // rate limit
	byCode("1303", upstream.RefusedForNow, upstream.ScopeKey),                          // too many tasks at once; seven such refusals were not charged
	byCode("1304", upstream.RefusedForGood, upstream.ScopeKey),                         // IP address not allowed; sent as 429
	byCode("5000", upstream.Unknown, upstream.ScopeUpstream),                           // internal error: the task may exist
	byCode("5001", upstream.Unknown, upstream.ScopeUpstream),                           // maintenance
	byCode("5002", upstream.Unknown, upstream.ScopeUpstream),                           // internal timeout
}.WithSource("aself101/kling-api, a client whose author measured the vendor"), upstream.SharedRows())

// staleToken reports whether the vendor refused a call only because its token had expired or was
// not valid yet. The vendor checks the token first, so it has not processed such a call.
func staleToken(e *upstream.Error) bool {
	return e != nil && e.Reported && e.HTTPStatus == http.StatusUnauthorized && (e.Code == "1003" || e.Code == "1004")
}
