package kling

import (
	"fmt"
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

// vendorCodes lists the vendor's documented codes and statuses.
var vendorCodes = []struct {
	status  int
	code    string
	verdict upstream.Verdict
	scope   upstream.Scope
}{
	{401, "1000", good, key},
	{401, "1001", good, key},
	{401, "1002", good, key},
	{401, "1003", good, key},
	{401, "1004", good, key},
	{429, "1100", good, key},
	{429, "1101", good, key},
	{429, "1102", good, key},
	{403, "1103", good, key},
	{400, "1200", good, request},
	{400, "1201", good, request},
	{404, "1202", good, server},
	{404, "1203", good, server},
	{400, "1300", good, request},
	{400, "1301", good, request},
	{429, "1302", now, key},
	{429, "1303", now, key},
	{429, "1304", good, key},
	{500, "5000", who, server},
	{503, "5001", who, server},
	{504, "5002", who, server},
}

var otherOutcomes = []upstreamtest.Outcome{
	upstreamtest.Answer("accepted", 200, `{"code":0,"data":{"task_id":"t","task_status":"submitted"}}`, yes, yes, request),
	upstreamtest.Answer("accepted 201", 201, `{"code":0,"data":{"task_id":"t"}}`, yes, yes, request),
	upstreamtest.Answer("accepted by a gateway", 202, `{"id":"t","status":"queued"}`, yes, yes, request),
	upstreamtest.Answer("2xx without id", 200, `{"code":0,"data":{}}`, who, who, server),
	upstreamtest.Answer("2xx unlisted code", 200, `{"code":1999,"message":"x"}`, who, who, server),
	upstreamtest.Answer("2xx code and task", 200, `{"code":5001,"message":"x","data":{"task_id":"t"}}`, who, who, server),

	upstreamtest.Answer("own id is used", 400, `{"code":1201,"message":"External_task_id video_x already exists","request_id":"r"}`, who, who, request),
	upstreamtest.Answer("passed on: own id is used", 400, `{"code":"fail_to_fetch_task","message":"{\"code\":1201,\"message\":\"External_task_id x already exists\"}","data":null}`, who, who, request),
	upstreamtest.Answer("passed on: internal error", 500, `{"code":"fail_to_fetch_task","message":"{\"code\":5000,\"message\":\"x\"}","data":null}`, who, who, server),
	upstreamtest.Answer("passed on: arrears", 429, `{"code":"fail_to_fetch_task","message":"{\"code\":1101,\"message\":\"in arrears\"}","data":null}`, good, good, server),
	upstreamtest.Answer("passed on: parallel", 500, `{"code":"fail_to_fetch_task","message":"{\"code\":1303,\"message\":\"x\"}","data":null}`, now, now, key),
	upstreamtest.Answer("passed on: timeout", 504, `{"code":"fail_to_fetch_task","message":"{\"code\":5002,\"message\":\"x\"}","data":null}`, who, who, server),
	upstreamtest.Answer("passed on: bad token", 401, `{"code":"fail_to_fetch_task","message":"{\"code\":1002,\"message\":\"x\"}","data":null}`, good, good, server),
	upstreamtest.Answer("passed on: unlisted 401", 401, `{"code":"fail_to_fetch_task","message":"{\"code\":1999,\"message\":\"x\"}","data":null}`, good, good, server),
	upstreamtest.Answer("passed on: unlisted", 500, `{"code":"fail_to_fetch_task","message":"{\"code\":1999,\"message\":\"x\"}","data":null}`, who, who, server),
}

// outcomeCases returns all cases, with each vendor code also under status 200.
func outcomeCases() []upstreamtest.Outcome {
	cases := slices.Clone(otherOutcomes)
	for _, v := range vendorCodes {
		body := fmt.Sprintf(`{"code":%s,"message":"x","request_id":"r"}`, v.code)
		cases = append(cases,
			upstreamtest.Answer(v.code, v.status, body, v.verdict, v.verdict, v.scope),
			upstreamtest.Answer(v.code+" in 200", 200, body, v.verdict, v.verdict, v.scope))
	}
	return cases
}

func TestCreateOutcome(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckOutcomes(t, subject, outcomeCases())
}

func TestDenials(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckDenials(t, subject,
		upstreamtest.Denied{Status: 401, Body: `{"code":1002,"message":"x"}`, Want: upstream.KeyDenied},
		upstreamtest.Denied{Status: 403, Body: `{"code":1103,"message":"x"}`, Want: upstream.KeyDenied},
		upstreamtest.Denied{Status: 429, Body: `{"code":1304,"message":"x"}`, Want: upstream.KeyDenied},
		upstreamtest.Denied{Status: 429, Body: `{"code":1101,"message":"x"}`, Want: upstream.QuotaDenied},
		upstreamtest.Denied{Status: 429, Body: `{"code":1102,"message":"x"}`, Want: upstream.QuotaDenied},
		upstreamtest.Denied{Status: 429, Body: `{"code":"fail_to_fetch_task","message":"{\"code\":1101,\"message\":\"x\"}","data":null}`, Want: upstream.QuotaDenied},
		upstreamtest.Denied{Status: 429, Body: `{"code":1302,"message":"x"}`, Want: upstream.NotDenied},
	)
}

func TestOutcomeRows(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckRows(t, outcomes, outcomeCases(), upstream.SharedRows())
}
