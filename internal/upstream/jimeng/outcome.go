package jimeng

import "github.com/genbus/genbus/internal/upstream"

// outcomes is the outcome table of the protocol. Codes come before statuses. The
// vendor's business codes count with status 200 too, where the code alone
// refuses; a gateway passes them on with status 500.
var outcomes = upstream.Outcomes{
	// The review of texts and images refuses this request, its input or what came
	// of it.
	business("50411", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50412", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50413", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50511", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50512", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50513", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50514", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50516", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50517", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50518", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50519", upstream.RefusedForGood, upstream.ScopeRequest),
	// The review itself failed; the vendor says not to try again.
	business("50520", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50521", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50522", upstream.RefusedForGood, upstream.ScopeRequest),
	business("50215", upstream.RefusedForGood, upstream.ScopeRequest), // invalid for this model
	business("50400", upstream.RefusedForGood, upstream.ScopeKey),     // not activated, or no rights
	business("50429", upstream.RefusedForNow, upstream.ScopeKey),      // calls per second
	business("50430", upstream.RefusedForNow, upstream.ScopeKey),      // tasks at once
	// Internal errors: the job may have been taken.
	business("50500", upstream.Unknown, upstream.ScopeUpstream),
	business("50501", upstream.Unknown, upstream.ScopeUpstream),

	// The vendor's API gateway, in its own envelope. It stands before the service,
	// and sends some of these with status 400.
	upstream.ByCode("InvalidAuthorization", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("SignatureDoesNotMatch", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("InvalidAccessKey", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("InvalidCredential", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("InvalidTimestamp", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("FlowLimitExceeded", upstream.RefusedForNow, upstream.ScopeKey),

	// A gateway of the kind that opts.Gateway is about.
	upstream.ByCode("model_not_found", upstream.RefusedForGood, upstream.ScopeUpstream), // comes as 503
	upstream.ByCode(codeNoQueries, upstream.RefusedForGood, upstream.ScopeUpstream),     // cannot serve the protocol
	upstream.ByCode("invalid_request", upstream.RefusedForGood, upstream.ScopeRequest),  // comes as 400 and 500
	upstream.ByCode("insufficient_quota", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("insufficient_user_quota", upstream.RefusedForGood, upstream.ScopeKey),
	upstream.ByCode("system_cpu_overloaded", upstream.RefusedForNow, upstream.ScopeUpstream),
	upstream.ByCode("system_memory_overloaded", upstream.RefusedForNow, upstream.ScopeUpstream),
	upstream.ByCode("system_disk_overloaded", upstream.RefusedForNow, upstream.ScopeUpstream),

	upstream.ByStatus(200, 299, upstream.Unknown, upstream.ScopeUpstream), // no id, or a code that is not listed

	// These redirects keep the method: the server asks for the same request
	// elsewhere and so has not acted on it. The others (302, 303) are also how a
	// server says "done, look there".
	upstream.ByStatus(301, 301, upstream.RefusedForGood, upstream.ScopeUpstream).AlsoUnread(),
	upstream.ByStatus(307, 308, upstream.RefusedForGood, upstream.ScopeUpstream).AlsoUnread(),
	upstream.ByStatus(300, 399, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),

	upstream.ByStatus(401, 403, upstream.RefusedForGood, upstream.ScopeKey), // key, payment, permission
	upstream.ByStatus(408, 408, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),
	upstream.ByStatus(425, 425, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),
	// Rate limiters stand before the work and often answer with a page.
	upstream.ByStatus(429, 429, upstream.RefusedForNow, upstream.ScopeKey).AlsoUnread(),
	upstream.ByStatus(400, 499, upstream.RefusedForGood, upstream.ScopeRequest).FirstOnly(), // 409 too, on a first submission
	upstream.ByStatus(500, 599, upstream.Unknown, upstream.ScopeUpstream).AlsoUnread(),
}

// business makes a row for a code of the vendor's service.
func business(code string, v upstream.Verdict, s upstream.Scope) upstream.OutcomeRow {
	return upstream.ByCode(code, v, s).Within(200, 599)
}
