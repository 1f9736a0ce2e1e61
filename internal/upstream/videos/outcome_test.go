package videos

import (
	"slices"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/upstreamtest"
)

const (
	good = upstream.RefusedForGood
	now  = upstream.RefusedForNow
	who  = upstream.Unknown
	yes  = upstream.Accepted

	request = upstream.ScopeRequest
	key     = upstream.ScopeKey
	server  = upstream.ScopeUpstream
)

var outcomeCases = []upstreamtest.Outcome{
	upstreamtest.Answer("accepted", 200, `{"id":"v","status":"queued"}`, yes, yes, request),
	upstreamtest.Answer("accepted 201", 201, `{"id":"v"}`, yes, yes, request),
	upstreamtest.Answer("accepted 202", 202, `{"id":"v","status":"pending"}`, yes, yes, request),
	upstreamtest.Answer("2xx without id", 200, `{"status":"queued"}`, who, who, server),
	upstreamtest.Answer("2xx error", 200, `{"error":{"code":"invalid_request","message":"x"}}`, who, who, server),

	upstreamtest.Answer("missing_model", 400, `{"code":"missing_model","message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("missing_prompt", 400, `{"code":"missing_prompt","message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("invalid_size", 400, `{"code":"invalid_size","message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("invalid_seconds", 400, `{"code":"invalid_seconds","message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("invalid_json", 400, `{"code":"invalid_json","message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("invalid_multipart_form", 400, `{"code":"invalid_multipart_form","message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("content policy", 400, `{"error":{"code":"content_policy_violation","message":"x"}}`, good, good, request),
	upstreamtest.Answer("moderation", 400, `{"error":{"code":"moderation_blocked","message":"x"}}`, good, good, request),
	upstreamtest.Answer("moderation 403", 403, `{"error":{"code":"moderation_blocked","message":"x"}}`, good, good, request),

	upstreamtest.Answer("invalid_api_key", 401, `{"error":{"code":"invalid_api_key","type":"invalid_request_error","message":"x"}}`, good, good, key),
	upstreamtest.Answer("account deactivated", 401, `{"error":{"code":"account_deactivated","message":"x"}}`, good, good, key),
	upstreamtest.Answer("400 billing limit", 400, `{"error":{"code":"billing_hard_limit_reached","message":"x"}}`, good, good, key),
	upstreamtest.Answer("429 billing limit", 429, `{"error":{"code":"billing_hard_limit_reached","message":"x"}}`, good, good, key),
	upstreamtest.Answer("429 billing not active", 429, `{"error":{"code":"billing_not_active","message":"x"}}`, good, good, key),
	upstreamtest.Answer("rate limit", 429, `{"error":{"code":"rate_limit_exceeded","type":"requests","message":"x"}}`, now, now, key),
	upstreamtest.Answer("rate limit as 503", 503, `{"error":{"code":"rate_limit_exceeded","message":"x"}}`, now, now, key),

	upstreamtest.Answer("server error", 500, `{"error":{"code":"server_error","message":"x"}}`, who, who, server),
	upstreamtest.Answer("server error as type", 500, `{"error":{"code":null,"type":"server_error","message":"x"}}`, who, who, server),
	upstreamtest.Answer("server error as 400", 400, `{"error":{"code":"server_error","message":"x"}}`, who, who, server),
	upstreamtest.Answer("fail_to_fetch_task 401", 401, `{"code":"fail_to_fetch_task","message":"{\"code\":1002}","data":null}`, good, good, server),
	upstreamtest.Answer("vendor image risk", 500, `{"code":50411,"message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("vendor text risk", 500, `{"code":"50412","message":"Text Risk","data":null}`, good, good, request),
	upstreamtest.Answer("vendor input", 500, `{"code":"50215","message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("vendor access", 500, `{"code":"50400","message":"x","data":null}`, good, good, key),
	upstreamtest.Answer("vendor concurrency", 500, `{"code":"50430","message":"x","data":null}`, now, now, key),
	upstreamtest.Answer("vendor output risk", 500, `{"code":"50511","message":"Post Img Risk Not Pass","data":null}`, good, good, request),
	upstreamtest.Answer("vendor risk service", 500, `{"code":"50520","message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("vendor internal", 500, `{"code":"50500","message":"x","data":null}`, who, who, server),
}

func TestCreateOutcome(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckOutcomes(t, subject, slices.Concat(outcomeCases, upstreamtest.MiniMaxOutcomes))
}

func TestDenials(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckDenials(t, subject,
		upstreamtest.Denied{Status: 200, Body: `{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, Want: upstream.QuotaDenied},
		upstreamtest.Denied{Status: 200, Body: `{"base_resp":{"status_code":2049,"status_msg":"invalid api key"}}`, Want: upstream.KeyDenied},
	)
}

func TestOutcomeRows(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckRows(t, outcomes, outcomeCases, upstream.VisualRows(400, 599), upstream.MiniMaxRows, upstream.SharedRows())
}
