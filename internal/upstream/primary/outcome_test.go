package primary

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
	upstreamtest.Answer("accepted", 200, `{"task_id":"t","status":"queued"}`, yes, yes, request),
	upstreamtest.Answer("accepted 201", 201, `{"id":"t"}`, yes, yes, request),
	upstreamtest.Answer("accepted 202", 202, `{"id":"t","status":"pending"}`, yes, yes, request),
	upstreamtest.Answer("2xx without id", 200, `{"status":"queued"}`, who, who, server),
	upstreamtest.Answer("2xx error", 200, `{"error":{"code":"invalid_request","message":"x"}}`, who, who, server),

	upstreamtest.Answer("old documents, bad request", 400, `{"code":null,"message":"bad","param":"","type":""}`, good, who, request),
	upstreamtest.Answer("old documents, no key", 401, `{"code":null,"message":"no key","param":"","type":""}`, good, good, key),
	upstreamtest.Answer("old documents, forbidden", 403, `{"code":null,"message":"no","param":"","type":""}`, good, good, key),
	upstreamtest.Answer("old documents, failure", 500, `{"code":null,"message":"failed","param":"","type":""}`, who, who, server),
	upstreamtest.Answer("fail_to_fetch_task 401", 401, `{"code":"fail_to_fetch_task","message":"{\"code\":1002}","data":null}`, good, good, server),
	upstreamtest.Answer("vendor text risk", 500, `{"code":"50412","message":"Text Risk","data":null}`, good, good, request),
	upstreamtest.Answer("vendor image risk", 500, `{"code":50411,"message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("vendor concurrency", 500, `{"code":"50430","message":"x","data":null}`, now, now, key),
	upstreamtest.Answer("vendor qps", 500, `{"code":"50429","message":"x","data":null}`, now, now, key),
	upstreamtest.Answer("vendor access", 500, `{"code":"50400","message":"Access Denied: Internal Error","data":null}`, good, good, key),
	upstreamtest.Answer("vendor parameter", 500, `{"code":"50215","message":"Input invalid for this service.","data":null}`, good, good, request),
	upstreamtest.Answer("vendor output risk", 500, `{"code":"50511","message":"Post Img Risk Not Pass","data":null}`, good, good, request),
	upstreamtest.Answer("vendor risk service", 500, `{"code":"50520","message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("vendor video risk", 500, `{"code":"50513","message":"x","data":null}`, good, good, request),
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
