package chat

import "testing"

func TestIsFinal(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status          int
		code, errorType string
		want            bool
	}{
		// The status alone.
		{400, "", "", true}, {401, "", "", true}, {402, "", "", true}, {403, "", "", true}, {404, "", "", true},
		{405, "", "", true}, {413, "", "", true}, {415, "", "", true}, {422, "", "", true}, {301, "", "", true}, {307, "", "", true},
		{408, "", "", false}, {409, "", "", false}, {425, "", "", false}, {429, "", "", false},
		{500, "", "", false}, {502, "", "", false}, {503, "", "", false}, {504, "", "", false}, {520, "", "", false}, {529, "", "", false},
		// The code before the status.
		{503, "model_not_found", "new_api_error", true},
		{500, "invalid_request", "new_api_error", true},
		{500, "context_length_exceeded", "", true},
		{429, "insufficient_quota", "insufficient_quota", true},
		{403, "insufficient_user_quota", "", true},
		{400, "content_policy_violation", "", true},
		{400, "rate_limit_exceeded", "", false},
		{403, "overloaded_error", "", false},
		{503, "system_cpu_overloaded", "new_api_error", false},
		{500, "server_error", "invalid_request_error", false},
		// The type where there is no such code.
		{500, "", "invalid_request_error", true},
		{500, "whatever", "BadRequestError", true},
		{429, "", "invalid_request_error", false},
		{401, "", "new_api_error", true},
		{500, "", "new_api_panic", false},
		// An error within a stream: the status was 200.
		{200, "", "", false}, {200, "server_error", "", false}, {200, "invalid_api_key", "", true},
		{200, "502", "", false}, {200, "429", "", false}, {200, "400", "", true}, {200, "404", "x", true},
		{200, "1234", "", false}, {200, "", "BadRequestError", true},
		// A number beside a status that speaks for itself.
		{503, "400", "", false}, {400, "502", "", true},
	} {
		if got := isFinal(tc.status, tc.code, tc.errorType); got != tc.want {
			t.Errorf("%d %q %q: final %v, want %v", tc.status, tc.code, tc.errorType, got, tc.want)
		}
	}
	for code, want := range finalCode {
		for _, status := range []int{200, 400, 429, 500} {
			if isFinal(status, code, "") != want {
				t.Errorf("%d %s is not %v", status, code, want)
			}
		}
	}
}
