package upstream

import "slices"

// GatewayRows are the codes of the gateways in the field, whatever protocol they
// speak. They end a protocol's table together with StatusRows; no code changes
// them.
var GatewayRows = Outcomes{
	ByCode("model_not_found", RefusedForGood, ScopeUpstream), // comes as 404 and 503
	ByCode("invalid_request", RefusedForGood, ScopeRequest),  // comes as 400 and 500; judged before anything is done
	ByCode("insufficient_quota", RefusedForGood, ScopeKey),   // comes as 403 and 429, also as a type
	ByCode("insufficient_user_quota", RefusedForGood, ScopeKey),
	ByCode("task_failed", RefusedForGood, ScopeRequest).Within(400, 400), // the vendor's own refusal, its code lost
	ByCode("system_cpu_overloaded", RefusedForNow, ScopeUpstream),
	ByCode("system_memory_overloaded", RefusedForNow, ScopeUpstream),
	ByCode("system_disk_overloaded", RefusedForNow, ScopeUpstream),
	// A gateway that could not read what its vendor said: the vendor may have
	// taken the job.
	ByCode("fail_to_fetch_task", Unknown, ScopeUpstream).Within(500, 599),
	// The vendor's status, passed on: its objection is to the gateway's key and
	// not to ours.
	ByCode("fail_to_fetch_task", RefusedForGood, ScopeUpstream).Within(401, 403),
}.WithSource("new-api, read and measured")

// StatusRows are what an answer means by its status alone. They stand last in
// every table: servers send permanent refusals as 503, 500 and 429, and so codes
// come before them.
var StatusRows = slices.Concat(Outcomes{
	// A success without a task's id: the upstream may well have a task.
	ByStatus(200, 299, Unknown, ScopeUpstream),
}.WithSource(Inference), Outcomes{
	// These redirects keep the method: the server asks for the same request
	// elsewhere and so has not acted on it. The others (302, 303) are also how a
	// server says "done, look there".
	ByStatus(301, 301, RefusedForGood, ScopeUpstream).AlsoUnread(),
	ByStatus(307, 308, RefusedForGood, ScopeUpstream).AlsoUnread(),
	ByStatus(300, 399, Unknown, ScopeUpstream),
}.WithSource("RFC 9110"), Outcomes{
	ByStatus(401, 403, RefusedForGood, ScopeKey), // key, payment, permission
	// No such path, or not this method: another upstream may serve it.
	ByStatus(404, 405, RefusedForGood, ScopeUpstream).FirstOnly(),
	ByStatus(408, 408, Unknown, ScopeUpstream),
	ByStatus(425, 425, Unknown, ScopeUpstream),
	// Rate limiters stand before the work and often answer with a page.
	ByStatus(429, 429, RefusedForNow, ScopeKey).AlsoUnread(),
	ByStatus(400, 499, RefusedForGood, ScopeRequest).FirstOnly(), // 409 too, on a first submission
	ByStatus(500, 599, Unknown, ScopeUpstream),
}.WithSource(Inference))

// VisualRows are the codes of vendor B's visual service, with any HTTP status
// from one to another, both inclusive. The vendor sends them with every status, a
// gateway passes them on with 500 in whatever protocol it is called.
func VisualRows(from, to int) Outcomes {
	rows := Outcomes{
		// The review refuses this request: its texts and images, or what came of
		// them.
		ByCode("50411", RefusedForGood, ScopeRequest), // image before
		ByCode("50412", RefusedForGood, ScopeRequest), // text before
		ByCode("50413", RefusedForGood, ScopeRequest), // sensitive text
		ByCode("50511", RefusedForGood, ScopeRequest), // image after
		ByCode("50512", RefusedForGood, ScopeRequest), // text after
		ByCode("50513", RefusedForGood, ScopeRequest), // video before
		ByCode("50514", RefusedForGood, ScopeRequest), // audio before
		ByCode("50516", RefusedForGood, ScopeRequest), // video after
		ByCode("50517", RefusedForGood, ScopeRequest), // audio after
		ByCode("50518", RefusedForGood, ScopeRequest), // copyright before
		ByCode("50519", RefusedForGood, ScopeRequest), // copyright after
		// The review itself failed; the vendor says not to try again.
		ByCode("50520", RefusedForGood, ScopeRequest),
		ByCode("50521", RefusedForGood, ScopeRequest),
		ByCode("50522", RefusedForGood, ScopeRequest),
		ByCode("50215", RefusedForGood, ScopeRequest), // invalid for this model
		ByCode("50400", RefusedForGood, ScopeKey),     // not activated, or no rights
		ByCode("50429", RefusedForNow, ScopeKey),      // calls per second
		ByCode("50430", RefusedForNow, ScopeKey),      // tasks at once
		// Internal errors: the job may have been taken.
		ByCode("50500", Unknown, ScopeUpstream),
		ByCode("50501", Unknown, ScopeUpstream),
	}.WithSource("the vendor's list of codes")
	for i, r := range rows {
		rows[i] = r.Within(from, to)
	}
	return rows
}
