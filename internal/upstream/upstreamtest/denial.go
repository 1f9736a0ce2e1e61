package upstreamtest

import (
	"net/http"
	"slices"
	"strconv"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// Denied is an answer to a create, and what it says about the account behind the key.
type Denied struct {
	Status int
	Body   string
	Want   upstream.Denial
}

// sharedDenials holds answers to creates in every protocol.
var sharedDenials = []Denied{
	{401, `{"error":{"code":"invalid_api_key","message":"x"}}`, upstream.KeyDenied},
	{401, `{"error":{"message":"Invalid token","type":"new_api_error"}}`, upstream.KeyDenied},
	{403, `{"error":{"message":"no"}}`, upstream.KeyDenied},
	{400, `[{"error":{"code":400,"message":"x","details":[{"reason":"API_KEY_INVALID"}]}}]`, upstream.KeyDenied},
	{401, `{"code":"fail_to_fetch_task","message":"no","data":null}`, upstream.KeyDenied},
	{400, `{"code":"fail_to_fetch_task","message":"{\"error\":{\"code\":\"invalid_api_key\",\"message\":\"x\"}}","data":null}`, upstream.KeyDenied},

	{402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}`, upstream.QuotaDenied},
	{402, `{"message":"no"}`, upstream.QuotaDenied},
	{402, `{"code":"fail_to_fetch_task","message":"no","data":null}`, upstream.QuotaDenied},
	{200, `{"code":402,"msg":"x","data":null}`, upstream.QuotaDenied},
	{429, `{"error":{"type":"insufficient_quota","message":"x","code":null}}`, upstream.QuotaDenied},
	{403, `{"code":"insufficient_user_quota","message":"x","data":null}`, upstream.QuotaDenied},
	{403, `{"error":{"code":403,"message":"x","status":"PERMISSION_DENIED","details":[{"reason":"BILLING_DISABLED"}]}}`, upstream.QuotaDenied},
	{400, `{"code":"Arrearage","message":"x","request_id":"r"}`, upstream.QuotaDenied},
	{500, `{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"}}`, upstream.QuotaDenied},

	{403, `{"error":{"code":"moderation_blocked","message":"x"}}`, upstream.NotDenied},
	{429, `{"error":{"code":"rate_limit_exceeded","message":"x"}}`, upstream.NotDenied},
	{400, `{"error":{"message":"Invalid value: 'Incorrect API key provided'","type":"invalid_request_error","param":"size"}}`, upstream.NotDenied},
	{503, `{"error":{"code":"model_not_found","message":"x"}}`, upstream.NotDenied},
}

// CheckDenials serves the answers in cases and those shared by all protocols, and checks which of
// them deny the key or its quota.
func CheckDenials(t *testing.T, s Subject, cases ...Denied) {
	t.Helper()
	for _, c := range slices.Concat(cases, sharedDenials) {
		t.Run(strconv.Itoa(c.Status)+" "+c.Body, func(t *testing.T) {
			t.Parallel()
			client := s.serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.Status)
				_, _ = w.Write([]byte(c.Body))
			})
			if sub := client.Create(t.Context(), s.Create); sub.Err == nil || sub.Err.Denial != c.Want {
				t.Errorf("got %+v, want denial %d", sub, c.Want)
			}
		})
	}
}
