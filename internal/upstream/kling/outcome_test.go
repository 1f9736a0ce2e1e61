package kling

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// outcomeCase is one kind of answer to a create. first and again are the
// verdicts on a first submission and on a resubmission.
type outcomeCase struct {
	name         string
	status       int
	body         string
	first, again upstream.Verdict
	scope        upstream.Scope
}

const (
	good = upstream.RefusedForGood
	now  = upstream.RefusedForNow
	who  = upstream.Unknown
	yes  = upstream.Accepted

	request = upstream.ScopeRequest
	key     = upstream.ScopeKey
	all     = upstream.ScopeUpstream
)

// vendorCodes are the vendor's documented codes with their documented status.
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
	{404, "1202", good, all},
	{404, "1203", good, all},
	{400, "1300", good, request},
	{400, "1301", good, request},
	{429, "1302", now, key},
	{429, "1303", now, key},
	{429, "1304", good, key},
	{500, "5000", now, all},
	{503, "5001", now, all},
	{504, "5002", who, all},
}

var otherOutcomes = []outcomeCase{
	{"accepted", 200, `{"code":0,"data":{"task_id":"t","task_status":"submitted"}}`, yes, yes, request},
	{"accepted 201", 201, `{"code":0,"data":{"task_id":"t"}}`, yes, yes, request},
	{"accepted by a gateway", 202, `{"id":"t","status":"queued"}`, yes, yes, request},
	{"2xx without id", 200, `{"code":0,"data":{}}`, who, who, request},
	{"2xx unreadable", 200, `<html>`, who, who, request},
	{"2xx empty", 204, ``, who, who, request},
	{"2xx unlisted code", 200, `{"code":1999,"message":"x"}`, who, who, request},
	{"2xx code and task", 200, `{"code":5001,"message":"x","data":{"task_id":"t"}}`, who, who, all},

	{"gateway: model_not_found", 503, `{"error":{"code":"model_not_found","message":"x","type":"new_api_error"}}`, good, good, all},
	{"gateway: invalid_request", 400, `{"code":"invalid_request","message":"prompt is required","data":null}`, good, good, request},
	{"gateway: invalid_request as 500", 500, `{"error":{"code":"invalid_request","message":"x"}}`, good, good, request},
	{"gateway: insufficient_quota", 429, `{"error":{"type":"insufficient_quota","message":"x","code":null}}`, good, good, key},
	{"gateway: insufficient_user_quota", 403, `{"code":"insufficient_user_quota","message":"x","data":null}`, good, good, key},
	{"gateway: task_failed", 400, `{"code":"task_failed","message":"kling says no","data":null}`, good, good, request},
	{"gateway: task_failed as 500", 500, `{"code":"task_failed","message":"x","data":null}`, who, who, all},
	{"gateway: cpu", 503, `{"error":{"code":"system_cpu_overloaded","message":"x"}}`, now, now, all},
	{"gateway: memory", 503, `{"error":{"code":"system_memory_overloaded","message":"x"}}`, now, now, all},
	{"gateway: disk", 503, `{"error":{"code":"system_disk_overloaded","message":"x"}}`, now, now, all},
	{"gateway: saturated", 429, `{"code":"x","message":"当前分组上游负载已饱和","data":null}`, now, now, key},
	{"gateway: no model", 400, `{"error":{"code":"","message":"Model name not specified","type":"new_api_error"}}`, good, who, request},
	{"gateway: no token", 401, `{"error":{"code":"","message":"Invalid token","type":"new_api_error"}}`, good, good, key},
	{"gateway: panic", 500, `{"error":{"message":"Panic detected","type":"new_api_panic"}}`, who, who, all},

	{"passed on: unreadable 500", 500, `{"code":"fail_to_fetch_task","message":"<html>","data":null}`, who, who, all},
	{"passed on: unreadable 502", 502, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, who, who, all},
	{"passed on: unreadable 429", 429, `{"code":"fail_to_fetch_task","message":"slow down","data":null}`, now, now, key},
	{"passed on: unreadable 400", 400, `{"code":"fail_to_fetch_task","message":"no","data":null}`, good, who, request},
	{"passed on: arrears", 429, `{"code":"fail_to_fetch_task","message":"{\"code\":1101,\"message\":\"in arrears\"}","data":null}`, good, good, key},
	{"passed on: parallel", 500, `{"code":"fail_to_fetch_task","message":"{\"code\":1303,\"message\":\"x\"}","data":null}`, now, now, key},
	{"passed on: timeout", 504, `{"code":"fail_to_fetch_task","message":"{\"code\":5002,\"message\":\"x\"}","data":null}`, who, who, all},
	{"passed on: unlisted", 500, `{"code":"fail_to_fetch_task","message":"{\"code\":1999,\"message\":\"x\"}","data":null}`, who, who, all},

	{"other readable 4xx", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, good, who, request},
	{"conflict", 409, `{"code":"conflict","message":"x"}`, good, who, request},
	{"wrong path", 404, `{"error":{"message":"Invalid URL (POST /kling/v1/x)","type":"invalid_request_error","code":""}}`, good, who, all},
	{"4xx page", 403, `<html><title>Blocked</title></html>`, who, who, key},
	{"4xx empty", 404, ``, who, who, all},
	{"408", 408, `{"message":"timeout"}`, who, who, all},
	{"425", 425, `{"message":"too early"}`, who, who, all},
	{"rate limit page", 429, `<html>slow down</html>`, now, now, key},
	{"rate limit empty", 429, ``, now, now, key},
	{"502 page", 502, `<html>Bad Gateway</html>`, who, who, all},
	{"503 page", 503, `<html>maintenance</html>`, who, who, all},
	{"504", 504, ``, who, who, all},
	{"520", 520, `error code: 520`, who, who, all},
	{"999", 999, `{"message":"?"}`, who, who, request},

	{"301", 301, ``, good, good, all},
	{"307", 307, ``, good, good, all},
	{"308", 308, ``, good, good, all},
	{"302 may follow an action", 302, ``, who, who, all},
	{"303 follows an action", 303, ``, who, who, all},
}

// outcomeCases are all of them; each of the vendor's codes also comes with
// status 200.
func outcomeCases() []outcomeCase {
	cases := slices.Clone(otherOutcomes)
	for _, v := range vendorCodes {
		body := fmt.Sprintf(`{"code":%s,"message":"x","request_id":"r"}`, v.code)
		cases = append(cases,
			outcomeCase{v.code, v.status, body, v.verdict, v.verdict, v.scope},
			outcomeCase{v.code + " in 200", 200, body, v.verdict, v.verdict, v.scope})
	}
	return cases
}

func TestCreateOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range outcomeCases() {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/again=%v", c.name, again), func(t *testing.T) {
				t.Parallel()
				checkOutcome(t, c, again)
			})
		}
	}
}

func checkOutcome(t *testing.T, c outcomeCase, again bool) {
	t.Helper()
	requests := make(chan *http.Request, 4)
	client := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		if c.status/100 == 3 {
			w.Header().Set("Location", "/v1/elsewhere")
		}
		w.Header().Set("X-Request-Id", "req-1")
		w.WriteHeader(c.status)
		_, _ = w.Write([]byte(c.body))
	})
	create := aCreate
	create.Resubmission = again
	sub := client.Create(t.Context(), create)
	want := c.first
	if again {
		want = c.again
	}
	if sub.Verdict != want {
		t.Errorf("verdict = %v, want %v (%v)", sub.Verdict, want, sub.Err)
	}
	if (sub.Err == nil) != (want == yes) || (sub.UpstreamID != "") != (want == yes) {
		t.Errorf("id %q and error %v do not fit the verdict %v", sub.UpstreamID, sub.Err, want)
	}
	if e := sub.Err; e != nil {
		if e.Final != (want == good) || !e.Written || e.HTTPStatus != c.status || e.RequestID != "req-1" || e.Scope != c.scope {
			t.Errorf("error = %+v does not fit the verdict %v and the scope %v", e, want, c.scope)
		}
	}
	if n := len(requests); n != 1 {
		t.Errorf("the upstream got %d requests, want 1", n)
	}
	if got := (<-requests).Header.Get("Idempotency-Key"); got != "video_1" {
		t.Errorf("Idempotency-Key = %q, want the job's id", got)
	}
}

// TestOutcomeRows makes sure that each row of the table decides something, so
// that a row hidden by an earlier one does not go unnoticed.
func TestOutcomeRows(t *testing.T) {
	t.Parallel()
	for i, r := range outcomes {
		e := &upstream.Error{Code: r.Code, Said: true}
		if r.Code == "" {
			e.Code = "unlisted"
		}
		for e.HTTPStatus = r.From; e.HTTPStatus < r.To; e.HTTPStatus++ {
			if outcomes.Find(e) == i {
				break
			}
		}
		if got := outcomes.Find(e); got != i {
			t.Errorf("row %d %+v never decides: row %d comes first", i, r, got)
		}
		if got := outcomes.Judge(e, false); got != r.Verdict || e.Scope != r.Scope {
			t.Errorf("row %d: outcome = %v for %v, want %v for %v", i, got, e.Scope, r.Verdict, r.Scope)
		}
	}
}
