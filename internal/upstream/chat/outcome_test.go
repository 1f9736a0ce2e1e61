package chat

import (
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

const (
	aboutRequest  = upstream.ScopeRequest
	aboutKey      = upstream.ScopeKey
	aboutUpstream = upstream.ScopeUpstream
)

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status          int
		code, errorType string
		final           bool
		scope           upstream.Scope
	}{
		// The status alone.
		{400, "", "", true, aboutRequest}, {406, "", "", true, aboutRequest}, {413, "", "", true, aboutRequest},
		{415, "", "", true, aboutRequest}, {422, "", "", true, aboutRequest}, {499, "", "", true, aboutRequest},
		{401, "", "", true, aboutKey}, {402, "", "", true, aboutKey}, {403, "", "", true, aboutKey},
		{301, "", "", true, aboutUpstream}, {307, "", "", true, aboutUpstream},
		{404, "", "", true, aboutUpstream}, {405, "", "", true, aboutUpstream}, {410, "", "", true, aboutUpstream},
		{408, "", "", false, aboutUpstream}, {425, "", "", false, aboutUpstream},
		{409, "", "", false, aboutRequest}, {429, "", "", false, aboutKey},
		{500, "", "", false, aboutUpstream}, {501, "", "", false, aboutUpstream}, {502, "", "", false, aboutUpstream},
		{503, "", "", false, aboutUpstream}, {504, "", "", false, aboutUpstream}, {520, "", "", false, aboutUpstream},
		{529, "", "", false, aboutUpstream}, {599, "", "", false, aboutUpstream}, {999, "", "", false, aboutUpstream},
		{0, "", "", false, aboutUpstream},

		// The code before the status.
		{503, "model_not_found", "new_api_error", true, aboutUpstream},
		{404, "model_not_found", "invalid_request_error", true, aboutUpstream},
		{400, "model_not_supported", "invalid_request_error", true, aboutUpstream},
		{500, "invalid_request", "new_api_error", true, aboutRequest},
		{500, "context_length_exceeded", "", true, aboutRequest},
		{400, "context_length_exceeded", "invalid_request_error", true, aboutRequest},
		{400, "content_filter", "", true, aboutRequest},
		{400, "content_policy_violation", "", true, aboutRequest},
		{403, "insufficient_user_quota", "", true, aboutKey},
		{429, "insufficient_quota", "insufficient_quota", true, aboutKey},
		{429, "billing_hard_limit_reached", "", true, aboutKey},
		{401, "account_deactivated", "", true, aboutKey},
		{401, "invalid_api_key", "invalid_request_error", true, aboutKey},
		{400, "permission_denied", "", true, aboutKey},
		{400, "rate_limit_exceeded", "", false, aboutKey},
		{403, "overloaded_error", "", false, aboutUpstream},
		{503, "system_cpu_overloaded", "new_api_error", false, aboutUpstream},
		{503, "system_memory_overloaded", "new_api_error", false, aboutUpstream},
		{503, "system_disk_overloaded", "new_api_error", false, aboutUpstream},
		{500, "server_error", "invalid_request_error", false, aboutUpstream},

		// A quota in the type, without a code.
		{429, "", "insufficient_quota", true, aboutKey},
		{429, "", "insufficient_user_quota", true, aboutKey},
		{429, "", "billing_not_active", true, aboutKey},

		// Other types count only if neither code nor status decide.
		{500, "", "invalid_request_error", true, aboutRequest},
		{500, "whatever", "BadRequestError", true, aboutRequest},
		{429, "", "invalid_request_error", false, aboutKey},
		{401, "", "invalid_request_error", true, aboutKey},
		{404, "", "invalid_request_error", true, aboutUpstream},
		{401, "", "new_api_error", true, aboutKey},
		{500, "", "new_api_panic", false, aboutUpstream},
		{500, "", "rate_limit_error", false, aboutKey},
		{500, "", "NotFoundError", true, aboutUpstream},

		// An error within a stream that began with 200.
		{200, "", "", false, aboutUpstream}, {200, "1234", "", false, aboutUpstream},
		{200, "server_error", "", false, aboutUpstream}, {200, "invalid_api_key", "", true, aboutKey},
		{200, "502", "", false, aboutUpstream}, {200, "429", "", false, aboutKey}, {200, "400", "", true, aboutRequest},
		{200, "402", "", true, aboutKey}, {200, "404", "NotFoundError", true, aboutUpstream},
		{200, "", "BadRequestError", true, aboutRequest}, {200, "", "authentication_error", true, aboutKey},
		{200, "", "permission_error", true, aboutKey}, {200, "", "not_found_error", true, aboutUpstream},
		// MiniMax's codes have another meaning at other vendors.
		{200, "1002", "", false, aboutUpstream}, {200, "1008", "", false, aboutUpstream},
		// The word of a finish_reason.
		{200, "network_error", "finish_reason", false, aboutUpstream},
		// A number as the code does not override an error status.
		{503, "400", "", false, aboutUpstream}, {400, "502", "", true, aboutRequest},

		// Words that some servers send with any refusal.
		{401, "invalid_request_error", "authentication_error", true, aboutKey},
		{401, "invalid_request_error", "", true, aboutKey},
		{402, "invalid_request_error", "unknown_error", true, aboutKey},
		{429, "invalid_request_error", "", false, aboutKey},
		{404, "invalid_request_error", "", true, aboutUpstream},
		{400, "invalid_request_error", "", true, aboutRequest},

		// Other spellings, and the words of other vendors.
		{400, "API_KEY_INVALID", "INVALID_ARGUMENT", true, aboutKey}, {400, "InvalidApiKey", "", true, aboutKey},
		{400, "wrong_api_key", "invalid_request_error", true, aboutKey}, {400, "Arrearage", "", true, aboutKey},
		{400, "INVALID_ARGUMENT", "", true, aboutRequest}, {400, "FAILED_PRECONDITION", "", true, aboutUpstream},
		{429, "RESOURCE_EXHAUSTED", "", false, aboutKey}, {429, "insufficient_balance_error", "", true, aboutKey},
		{429, "", "exceeded_current_quota_error", true, aboutKey}, {429, "", "engine_overloaded_error", false, aboutUpstream},
		{429, "1113", "", true, aboutKey}, {429, "Throttling.RateQuota", "", false, aboutKey},
		{400, "model_decommissioned", "invalid_request_error", true, aboutUpstream},
		{404, "NOT_FOUND", "", true, aboutUpstream}, {503, "UNAVAILABLE", "", false, aboutUpstream},
		{200, "INVALID_ARGUMENT", "", true, aboutRequest}, {200, "UNAVAILABLE", "", false, aboutUpstream},
		{200, "UNAUTHENTICATED", "", true, aboutKey}, {200, "NOT_FOUND", "", true, aboutUpstream},
		{200, "RESOURCE_EXHAUSTED", "", false, aboutKey}, {500, "SOMETHING_NEW", "PERMISSION_DENIED", true, aboutKey},

		// Detected by this package.
		{200, CodeTooLarge, "", true, aboutRequest}, {200, CodeTotalTimeout, "", false, aboutRequest},
		{0, CodeCancelled, "", false, aboutRequest}, {0, CodeFirstByteTimeout, "", false, aboutUpstream},
		{200, CodeIdleTimeout, "", false, aboutUpstream}, {200, CodeStreamTruncated, "", false, aboutUpstream},
		{200, CodeUnreadable, "", false, aboutUpstream},
	} {
		e := judge(&upstream.Error{HTTPStatus: tc.status, Code: tc.code, Type: tc.errorType, Reported: true})
		if e.Final != tc.final || e.Scope != tc.scope {
			t.Errorf("%d %q %q: final %v about the %v, want %v about the %v", tc.status, tc.code, tc.errorType, e.Final, e.Scope, tc.final, tc.scope)
		}
	}
}

func TestDenials(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status          int
		code, errorType string
		want            upstream.Denial
	}{
		{401, "", "", upstream.KeyDenied}, {403, "", "", upstream.KeyDenied}, {400, "API_KEY_INVALID", "", upstream.KeyDenied},
		{200, "", "authentication_error", upstream.KeyDenied},
		{402, "", "", upstream.QuotaDenied}, {402, "invalid_request_error", "", upstream.QuotaDenied}, {200, "402", "", upstream.QuotaDenied},
		{429, "insufficient_quota", "", upstream.QuotaDenied}, {403, "billing_stopped", "", upstream.QuotaDenied},
		{429, "", "", upstream.NotDenied}, {400, "", "", upstream.NotDenied}, {403, "moderation_blocked", "", upstream.NotDenied},
		{500, "", "", upstream.NotDenied},
	} {
		if e := judge(&upstream.Error{HTTPStatus: tc.status, Code: tc.code, Type: tc.errorType, Reported: true}); e.Denial != tc.want {
			t.Errorf("%d %q %q: denial %d, want %d", tc.status, tc.code, tc.errorType, e.Denial, tc.want)
		}
	}
}

// TestOutcomeRows checks that no row is hidden by an earlier one.
func TestOutcomeRows(t *testing.T) {
	t.Parallel()
	for i, o := range outcomes {
		e := &upstream.Error{HTTPStatus: o.From, Code: o.Code, Message: o.Text, Reported: true}
		for e.HTTPStatus < o.To && outcomes.Find(e) != i {
			e.HTTPStatus++
		}
		if got := outcomes.Find(e); got != i {
			t.Errorf("row %d %+v never decides: row %d comes first", i, o, got)
		}
		if e = judge(e); e.Final != (o.Verdict == final) || e.Scope != o.Scope {
			t.Errorf("row %d %+v judges %v, %v", i, o, e.Final, e.Scope)
		}
	}
}
