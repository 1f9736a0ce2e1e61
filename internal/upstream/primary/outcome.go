package primary

import "github.com/genbus/genbus/internal/upstream"

// outcomes is the outcome table of the protocol. Codes come before statuses:
// servers send permanent refusals as 503 and 500.
var outcomes = upstream.Outcomes{
	upstream.ByCode("model_not_found", upstream.RefusedForGood, upstream.ScopeUpstream), // comes as 503
	upstream.ByCode("invalid_request", upstream.RefusedForGood, upstream.ScopeRequest),  // comes as 400 and 500
	upstream.ByCode("insufficient_quota", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("insufficient_user_quota", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("task_failed", upstream.RefusedForGood, upstream.ScopeRequest).Within(400, 400), // the vendor's own refusal
	upstream.ByCode("system_cpu_overloaded", upstream.RefusedForNow, upstream.ScopeUpstream),
	upstream.ByCode("system_memory_overloaded", upstream.RefusedForNow, upstream.ScopeUpstream),
	upstream.ByCode("system_disk_overloaded", upstream.RefusedForNow, upstream.ScopeUpstream),
	// A gateway that could not read what its vendor said: the vendor may have
	// taken the job.
	upstream.ByCode("fail_to_fetch_task", upstream.Unknown, upstream.ScopeUpstream).Within(500, 599).FirstOnly(),
	// The vendor's status, passed on: its objection is to the gateway's key and
	// not to ours.
	upstream.ByCode("fail_to_fetch_task", upstream.RefusedForGood, upstream.ScopeUpstream).Within(401, 403),
	// A vendor's codes, passed on with status 500: content and copyright of what
	// goes in and of what would come out, its own checks, parameters, access, then
	// rate and concurrency. 50500 and 50501 are failures and so are not here.
	upstream.ByCode("50411", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50412", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50413", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50512", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50518", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50511", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50516", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50517", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50519", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50520", upstream.RefusedForGood, upstream.ScopeUpstream),
	upstream.ByCode("50521", upstream.RefusedForGood, upstream.ScopeUpstream),
	upstream.ByCode("50522", upstream.RefusedForGood, upstream.ScopeUpstream),
	upstream.ByCode("50215", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50400", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("50429", upstream.RefusedForNow, upstream.ScopeKey),
	upstream.ByCode("50430", upstream.RefusedForNow, upstream.ScopeKey),

	// A success without a task id: the upstream may well have a task.
	upstream.ByStatus(200, 299, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),

	// These redirects keep the method: the server asks for the same request
	// elsewhere and so has not acted on it. The others (302, 303) are also how a
	// server says "done, look there".
	upstream.ByStatus(301, 301, upstream.RefusedForGood, upstream.ScopeUpstream).AlsoUnread(),
	upstream.ByStatus(307, 308, upstream.RefusedForGood, upstream.ScopeUpstream).AlsoUnread(),
	upstream.ByStatus(300, 399, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),

	// Key, payment, permission; then a path, method or model that is not there.
	upstream.ByStatus(401, 403, upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByStatus(404, 405, upstream.RefusedForGood, upstream.ScopeUpstream).FirstOnly(),
	upstream.ByStatus(408, 408, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),
	upstream.ByStatus(425, 425, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),
	// Rate limiters stand before the work and often answer with a page.
	upstream.ByStatus(429, 429, upstream.RefusedForNow, upstream.ScopeKey).AlsoUnread(),
	upstream.ByStatus(400, 499, upstream.RefusedForGood, upstream.ScopeRequest).FirstOnly(), // 409 too, on a first submission
	upstream.ByStatus(500, 599, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),
}
