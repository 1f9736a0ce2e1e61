package upstream

import "slices"

// GatewayRows covers the codes that common gateways send in every protocol. Each protocol's table
// ends with GatewayRows and StatusRows.
var GatewayRows = Outcomes{
	ByCode("model_not_found", RefusedForGood, ScopeUpstream), // sent as 404 and 503
	ByCode("invalid_request", RefusedForGood, ScopeRequest),  // sent as 400 and 500, before any work starts
	ByCode("insufficient_quota", RefusedForGood, ScopeKey),   // sent as 403 and 429, also as a type
	ByCode("insufficient_user_quota", RefusedForGood, ScopeKey),
	ByCode("task_failed", RefusedForGood, ScopeRequest).Within(400, 400), // the vendor's refusal, without its code
	ByCode("system_cpu_overloaded", RefusedForNow, ScopeUpstream),
	ByCode("system_memory_overloaded", RefusedForNow, ScopeUpstream),
	ByCode("system_disk_overloaded", RefusedForNow, ScopeUpstream),
	// The gateway could not read the vendor's answer, so the vendor may have accepted the job.
	ByCode("fail_to_fetch_task", Unknown, ScopeUpstream).Within(500, 599),
	// The gateway passes on the vendor's status. The vendor refused the gateway's key, not ours.
	ByCode("fail_to_fetch_task", RefusedForGood, ScopeUpstream).Within(401, 403),
}.WithSource("new-api, read and measured")

// StatusRows judges an answer by its status alone. It comes last in every table, after all codes,
// because servers send permanent refusals as 503, 500 and 429.
var StatusRows = slices.Concat(Outcomes{
	// A success without a task ID. The upstream may have created a task.
	ByStatus(200, 299, Unknown, ScopeUpstream),
}.WithSource(Inference), Outcomes{
	// These redirects keep the method, so the server has not acted on the request and wants it sent
	// elsewhere. Others (302, 303) may mean that the request was carried out.
	ByStatus(301, 301, RefusedForGood, ScopeUpstream).AlsoUnread(),
	ByStatus(307, 308, RefusedForGood, ScopeUpstream).AlsoUnread(),
	ByStatus(300, 399, Unknown, ScopeUpstream),
}.WithSource("RFC 9110"), Outcomes{
	ByStatus(401, 403, RefusedForGood, ScopeKey), // key, payment, permission
	// Unknown path or method; another upstream may support it.
	ByStatus(404, 405, RefusedForGood, ScopeUpstream).FirstOnly(),
	ByStatus(408, 408, Unknown, ScopeUpstream),
	ByStatus(425, 425, Unknown, ScopeUpstream),
	// Rate limiters act before any work starts and often answer with an HTML page.
	ByStatus(429, 429, RefusedForNow, ScopeKey).AlsoUnread(),
	ByStatus(400, 499, RefusedForGood, ScopeRequest).FirstOnly(), // includes 409 on a first submission
	ByStatus(500, 599, Unknown, ScopeUpstream),
}.WithSource(Inference))

// VisualRows covers the codes of vendor B's visual service, for the HTTP statuses from through to.
// The vendor sends them with any status. Gateways pass them on with status 500 in every protocol.
func VisualRows(from, to int) Outcomes {
	rows := Outcomes{
		// The vendor's content review refused the input or the output.
		ByCode("50411", RefusedForGood, ScopeRequest), // input image
		ByCode("50412", RefusedForGood, ScopeRequest), // input text
		ByCode("50413", RefusedForGood, ScopeRequest), // sensitive text
		ByCode("50511", RefusedForGood, ScopeRequest), // output image
		ByCode("50512", RefusedForGood, ScopeRequest), // output text
		ByCode("50513", RefusedForGood, ScopeRequest), // input video
		ByCode("50514", RefusedForGood, ScopeRequest), // input audio
		ByCode("50516", RefusedForGood, ScopeRequest), // output video
		ByCode("50517", RefusedForGood, ScopeRequest), // output audio
		ByCode("50518", RefusedForGood, ScopeRequest), // input copyright
		ByCode("50519", RefusedForGood, ScopeRequest), // output copyright
		// The review itself failed. The vendor advises against a retry.
		ByCode("50520", RefusedForGood, ScopeRequest),
		ByCode("50521", RefusedForGood, ScopeRequest),
		ByCode("50522", RefusedForGood, ScopeRequest),
		ByCode("50215", RefusedForGood, ScopeRequest), // invalid for this model
		ByCode("50400", RefusedForGood, ScopeKey),     // not activated, or no permission
		ByCode("50429", RefusedForNow, ScopeKey),      // calls per second
		ByCode("50430", RefusedForNow, ScopeKey),      // concurrent tasks
		// Internal errors. The job may have been accepted.
		ByCode("50500", Unknown, ScopeUpstream),
		ByCode("50501", Unknown, ScopeUpstream),
	}.WithSource("the vendor's list of codes")
	for i, r := range rows {
		rows[i] = r.Within(from, to)
	}
	return rows
}
