package videos

import "github.com/genbus/genbus/internal/upstream"

// outcomes is the outcome table of the protocol. Codes come before statuses:
// servers send permanent refusals as 503, 500 and 429. An answer without a code
// is matched by its type.
var outcomes = upstream.Outcomes{
	upstream.ByCode("model_not_found", upstream.RefusedForGood, upstream.ScopeUpstream), // comes as 404 and 503
	// The program in the field judges the request before it does anything.
	upstream.ByCode("invalid_request", upstream.RefusedForGood, upstream.ScopeRequest), // comes as 400 and 500
	upstream.ByCode("missing_model", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("missing_prompt", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("invalid_size", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("invalid_seconds", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("invalid_json", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("invalid_multipart_form", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("task_failed", upstream.RefusedForGood, upstream.ScopeRequest).Within(400, 400), // the vendor's own refusal
	upstream.ByCode("content_policy_violation", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("moderation_blocked", upstream.RefusedForGood, upstream.ScopeRequest),

	// The account, its key and its money; quota comes as 403 and 429.
	upstream.ByCode("invalid_api_key", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("account_deactivated", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("insufficient_quota", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("insufficient_user_quota", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("billing_hard_limit_reached", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("billing_not_active", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("rate_limit_exceeded", upstream.RefusedForNow, upstream.ScopeKey),

	upstream.ByCode("system_cpu_overloaded", upstream.RefusedForNow, upstream.ScopeUpstream),
	upstream.ByCode("system_memory_overloaded", upstream.RefusedForNow, upstream.ScopeUpstream),
	upstream.ByCode("system_disk_overloaded", upstream.RefusedForNow, upstream.ScopeUpstream),
	// The upstream broke, whatever the status: it may have taken the job.
	upstream.ByCode("server_error", upstream.Unknown, upstream.ScopeUpstream),
	// A gateway that could not read what its vendor said: the vendor may have
	// taken the job.
	upstream.ByCode("fail_to_fetch_task", upstream.Unknown, upstream.ScopeUpstream).Within(500, 599),
	// A vendor's codes, passed on with status 500: input refused (content,
	// copyright, parameters, access), then rate and concurrency.
	upstream.ByCode("50411", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50412", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50413", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50512", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50518", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50215", upstream.RefusedForGood, upstream.ScopeRequest),
	upstream.ByCode("50400", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("50429", upstream.RefusedForNow, upstream.ScopeKey),
	upstream.ByCode("50430", upstream.RefusedForNow, upstream.ScopeKey),

	// These redirects keep the method: the server asks for the same request
	// elsewhere and so has not acted on it. The others (302, 303) are also how a
	// server says "done, look there".
	upstream.ByStatus(301, 301, upstream.RefusedForGood, upstream.ScopeUpstream).AlsoUnread(),
	upstream.ByStatus(307, 308, upstream.RefusedForGood, upstream.ScopeUpstream).AlsoUnread(),
	upstream.ByStatus(300, 399, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),

	upstream.ByStatus(401, 403, upstream.RefusedForGood, upstream.ScopeKey), // key, payment, permission
	// No such path, or not this method: another upstream may serve it.
	upstream.ByStatus(404, 405, upstream.RefusedForGood, upstream.ScopeUpstream).FirstOnly(),
	upstream.ByStatus(408, 408, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),
	upstream.ByStatus(425, 425, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),
	// Rate limiters stand before the work and often answer with a page.
	upstream.ByStatus(429, 429, upstream.RefusedForNow, upstream.ScopeKey).AlsoUnread(),
	upstream.ByStatus(400, 499, upstream.RefusedForGood, upstream.ScopeRequest).FirstOnly(), // 409 too, on a first submission
	upstream.ByStatus(500, 599, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),
}
