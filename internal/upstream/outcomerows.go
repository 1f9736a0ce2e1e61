package upstream

import (
	"slices"
	"strings"
)

// SharedRows ends each protocol's table.
func SharedRows() Outcomes { return slices.Concat(GatewayRows, WordRows, StatusRows) }

// passedOn is a gateway's code for a vendor's error that it passes on as its message.
const passedOn = "fail_to_fetch_task"

// gateways holds the codes with which gateways pass on a vendor's error. They call the vendor with
// keys of their own.
var gateways = map[string]bool{passedOn: true, "bad_response_status_code": true, "bad_response": true}

// GatewayRows covers the codes that common gateways send in every protocol.
var GatewayRows = Outcomes{
	ByCode("model_not_found", RefusedForGood, ScopeUpstream),             // sent as 404 and 503
	ByCode("invalid_request", RefusedForGood, ScopeRequest),              // sent as 400 and 500, before any work starts
	ByCode("task_failed", RefusedForGood, ScopeRequest).Within(400, 400), // the vendor's refusal, without its code
	ByCode("system_cpu_overloaded", RefusedForNow, ScopeUpstream),
	ByCode("system_memory_overloaded", RefusedForNow, ScopeUpstream),
	ByCode("system_disk_overloaded", RefusedForNow, ScopeUpstream),
	// The gateway could not read the vendor's answer, so the vendor may have accepted the job.
	ByCode(passedOn, Unknown, ScopeUpstream).Within(500, 599),
	// The gateway passes on the vendor's status. The vendor refused the gateway's key, not ours.
	ByCode(passedOn, RefusedForGood, ScopeUpstream).Within(402, 402).Denying(QuotaDenied),
	ByCode(passedOn, RefusedForGood, ScopeUpstream).Within(401, 403).Denying(KeyDenied),
}.WithSource("new-api, read and measured")

// named returns a row for a word that names a cause, with any status of an answer. Vendors send such
// words with 200, 400 and 500, too. A pattern is not for 5xx: a word of an unknown server may match it
// by chance, and work may have begun.
func named(code string, v Verdict, s Scope) OutcomeRow {
	if strings.Contains(code, "*") {
		return ByCode(code, v, s).Within(200, 499)
	}
	return ByCode(code, v, s).Within(200, 599)
}

// quota returns a row for a word that names a used-up quota or balance, like named.
func quota(code string) OutcomeRow { return named(code, RefusedForGood, ScopeKey).Denying(QuotaDenied) }

// WordRows covers the words by which vendors name a cause that they check before work starts.
var WordRows = slices.Concat(Outcomes{
	// First, because such a word can also contain one of those below.
	named("rate_limit_exceeded", RefusedForNow, ScopeKey),
	named("rate_limit_error", RefusedForNow, ScopeKey),
	named("*rate_limit*", RefusedForNow, ScopeKey),
	named("too_many_requests", RefusedForNow, ScopeKey),
	named("too_many_requests*", RefusedForNow, ScopeKey),
	named("invalid_api_key", RefusedForGood, ScopeKey),
	named("*api_key*", RefusedForGood, ScopeKey), // wrong_api_key; Google sends API_KEY_INVALID as 400
	named("authentication_error", RefusedForGood, ScopeKey),
	named("invalid_authentication*", RefusedForGood, ScopeKey),
	named("permission_denied", RefusedForGood, ScopeKey),
	named("permission_*", RefusedForGood, ScopeKey),
	named("account_deactivated", RefusedForGood, ScopeKey),
	quota("billing_hard_limit*"), // sent as 400 and 429
	quota("billing_not_active"),
	quota("insufficient_quota"),
	quota("insufficient_user_quota"),
	quota("*insufficient*quota*"), // sent as 403 and 429, also as a type
	quota("insufficient_balance"),
	quota("*insufficient*balance*"), // MiniMax sends it as 429
	quota("*insufficient*credit*"),
	quota("exceeded_current_quota*"), // sent as 429
	named("content_policy_violation", RefusedForGood, ScopeRequest),
	named("moderation_blocked", RefusedForGood, ScopeRequest),
	named("content_filter", RefusedForGood, ScopeRequest),
}.WithSource("error codes of OpenAI and of servers compatible with it"), Outcomes{
	ByCode("resource_exhausted", RefusedForNow, ScopeKey).Within(400, 499), // with 5xx, work may have begun
	named("unauthenticated", RefusedForGood, ScopeKey),
	named("access_token_expired", RefusedForGood, ScopeKey),
	named("service_disabled", RefusedForGood, ScopeKey),
	quota("billing_disabled"),
	named("consumer_*", RefusedForGood, ScopeKey), // invalid, suspended
	named("key_invalid", RefusedForGood, ScopeKey),
	ByCode("failed_precondition", RefusedForGood, ScopeUpstream).Within(400, 499), // not offered in the caller's country
}.WithSource("google.rpc.Code, google.api.ErrorReason"), Outcomes{
	named("throttling*", RefusedForNow, ScopeKey),
	quota("arrearage"), // sent as 400
	named("data_inspection_failed", RefusedForGood, ScopeRequest),
}.WithSource("DashScope's error codes"), Outcomes{
	quota("account_overdue*"),
	named("*sensitive_content*", RefusedForGood, ScopeRequest),
	named("*risk_detection", RefusedForGood, ScopeRequest),
}.WithSource("Ark's error codes"), Outcomes{
	quota("budget_exceeded"), // sent as 400
	quota("pre_consume_token_quota_failed"),
	quota("not_enough_balance"),
	quota("1113"), // in arrears; sent as 429
}.WithSource("LiteLLM, new-api, Novita and Zhipu"), Outcomes{
	ByStatus(400, 400, RefusedForGood, ScopeKey).Beginning("incorrect api key"),
}.WithSource("xAI; openai/codex#1352"), Outcomes{
	ByStatus(400, 599, RefusedForGood, ScopeKey).Beginning("insufficient balance").Denying(QuotaDenied), // sent as 500
}.WithSource("MiniMax-AI/MiniMax-M2#62"))

// MiniMaxRows covers the numbers in MiniMax's base_resp, which come with status 200. Vendor A's
// numbers mean something else, so these rows are not for its protocol.
var MiniMaxRows = Outcomes{
	named("1002", RefusedForNow, ScopeKey).WithText("rate limit"),
	named("1004", RefusedForGood, ScopeKey).WithText("login fail"),
	quota("1008").WithText("balance"),
	named("1039", RefusedForNow, ScopeKey).WithText("limit"), // tokens
	named("1041", RefusedForNow, ScopeKey).WithText("limit"), // connections
	named("2045", RefusedForNow, ScopeKey).WithText("limit"), // growth of the rate
	named("2049", RefusedForGood, ScopeKey).WithText("api key"),
	quota("2056").WithText("limit"), // of a 5-hour window
	named("1026", RefusedForGood, ScopeRequest).WithText("sensitive"),
	named("1027", RefusedForGood, ScopeRequest).WithText("sensitive"),
	named("1042", RefusedForGood, ScopeRequest).WithText("invisible"),
	named("2013", RefusedForGood, ScopeRequest).WithText("invalid param"),
}.WithSource("MiniMax's error codes")

// StatusRows judges an answer by its status alone. It comes last in every table, after all codes,
// because servers send permanent refusals as 503, 500 and 429.
var StatusRows = slices.Concat(Outcomes{
	// A success without a task ID. The upstream may have created a task.
	ByStatus(200, 299, Unknown, ScopeUpstream),
}.WithSource(Inference), Outcomes{
	// These redirects keep the method, so the server has not acted on the request and wants it sent
	// elsewhere. Others (302, 303) may mean that the request was carried out.
	ByStatus(301, 301, RefusedForGood, ScopeUpstream).Unread(RefusedForGood),
	ByStatus(307, 308, RefusedForGood, ScopeUpstream).Unread(RefusedForGood),
	ByStatus(300, 399, Unknown, ScopeUpstream),
}.WithSource("RFC 9110"), Outcomes{
	ByStatus(402, 402, RefusedForGood, ScopeKey).Denying(QuotaDenied),
	ByStatus(401, 403, RefusedForGood, ScopeKey), // key, permission
	// Unknown path or method; another upstream may support it. If the body is not an error, a proxy
	// may have no server to ask right now.
	ByStatus(404, 405, RefusedForGood, ScopeUpstream).Unread(RefusedForNow).FirstOnly(),
	ByStatus(408, 408, Unknown, ScopeUpstream),
	ByStatus(425, 425, Unknown, ScopeUpstream),
	// Rate limiters act before any work starts and often answer with an HTML page.
	ByStatus(429, 429, RefusedForNow, ScopeKey).Unread(RefusedForNow),
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
