package primary

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// outcomeCase is one kind of answer to a create. first and again are the
// verdicts on a first submission and on a resubmission; scope says whom a refusal
// is about.
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

	byRequest  = upstream.ScopeRequest
	byKey      = upstream.ScopeKey
	byUpstream = upstream.ScopeUpstream
)

var outcomeCases = []outcomeCase{
	{"accepted", 200, `{"task_id":"t","status":"queued"}`, yes, yes, byRequest},
	{"accepted 201", 201, `{"id":"t"}`, yes, yes, byRequest},
	{"accepted 202", 202, `{"id":"t","status":"pending"}`, yes, yes, byRequest},
	{"2xx without id", 200, `{"status":"queued"}`, who, who, byUpstream},
	{"2xx unreadable", 200, `<html>`, who, who, byUpstream},
	{"2xx empty", 204, ``, who, who, byUpstream},
	{"2xx error", 200, `{"error":{"code":"invalid_request","message":"x"}}`, who, who, byUpstream},

	{"old documents, bad request", 400, `{"code":null,"message":"bad","param":"","type":""}`, good, who, byRequest},
	{"old documents, no key", 401, `{"code":null,"message":"no key","param":"","type":""}`, good, good, byKey},
	{"old documents, forbidden", 403, `{"code":null,"message":"no","param":"","type":""}`, good, good, byKey},
	{"old documents, failure", 500, `{"code":null,"message":"failed","param":"","type":""}`, who, who, byUpstream},
	{"bad key", 401, `{"error":{"code":"","message":"Invalid token (request id: 1)","type":"new_api_error"}}`, good, good, byKey},
	{"no credit", 402, `{"error":{"code":402,"message":"Insufficient credits"}}`, good, good, byKey},
	{"forbidden", 403, `{"error":{"message":"no"}}`, good, good, byKey},
	{"no model", 400, `{"error":{"code":"","message":"Model name not specified","type":"new_api_error"}}`, good, who, byRequest},
	{"missing prompt", 400, `{"code":"invalid_request","message":"prompt is required","data":null}`, good, good, byRequest},
	{"invalid_request as 500", 500, `{"error":{"code":"invalid_request","message":"x"}}`, good, good, byRequest},
	{"unknown model", 503, `{"error":{"code":"model_not_found","message":"No available channel","type":"new_api_error"}}`, good, good, byUpstream},
	{"cpu overloaded", 503, `{"error":{"code":"system_cpu_overloaded","message":"x"}}`, now, now, byUpstream},
	{"memory overloaded", 503, `{"error":{"code":"system_memory_overloaded","message":"x"}}`, now, now, byUpstream},
	{"disk overloaded", 503, `{"error":{"code":"system_disk_overloaded","message":"x"}}`, now, now, byUpstream},
	{"user quota", 403, `{"code":"insufficient_user_quota","message":"x","data":null}`, good, good, byKey},
	{"rate limit", 429, `{"code":"x","message":"当前分组上游负载已饱和","data":null}`, now, now, byKey},
	{"rate limit page", 429, `<html>slow down</html>`, now, now, byKey},
	{"rate limit empty", 429, ``, now, now, byKey},
	{"429 quota", 429, `{"error":{"code":"insufficient_quota","message":"x"}}`, good, good, byKey},
	{"429 quota as type", 429, `{"error":{"type":"insufficient_quota","message":"x","code":null}}`, good, good, byKey},
	{"429 user quota", 429, `{"code":"insufficient_user_quota","message":"x"}`, good, good, byKey},
	{"task_failed 400", 400, `{"code":"task_failed","message":"kling says no","data":null}`, good, good, byRequest},
	{"task_failed 500", 500, `{"code":"task_failed","message":"x","data":null}`, who, who, byUpstream},
	{"fail_to_fetch_task 500", 500, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, who, who, byUpstream},
	{"fail_to_fetch_task 502", 502, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, who, who, byUpstream},
	{"fail_to_fetch_task 400", 400, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, good, who, byRequest},
	{"fail_to_fetch_task 429", 429, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, now, now, byKey},
	{"fail_to_fetch_task 401", 401, `{"code":"fail_to_fetch_task","message":"{\"code\":1002}","data":null}`, good, good, byUpstream},
	{"fail_to_fetch_task 403", 403, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, good, good, byUpstream},
	{"fail_to_fetch_task 404", 404, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, good, who, byUpstream},
	{"vendor text risk", 500, `{"code":"50412","message":"Text Risk","data":null}`, good, good, byRequest},
	{"vendor image risk", 500, `{"code":50411,"message":"x","data":null}`, good, good, byRequest},
	{"vendor concurrency", 500, `{"code":"50430","message":"x","data":null}`, now, now, byKey},
	{"vendor qps", 500, `{"code":"50429","message":"x","data":null}`, now, now, byKey},
	{"vendor access", 500, `{"code":"50400","message":"Access Denied: Internal Error","data":null}`, good, good, byKey},
	{"vendor parameter", 500, `{"code":"50215","message":"Input invalid for this service.","data":null}`, good, good, byRequest},
	{"vendor output risk", 500, `{"code":"50511","message":"Post Img Risk Not Pass","data":null}`, good, good, byRequest},
	{"vendor risk service", 500, `{"code":"50520","message":"x","data":null}`, good, good, byUpstream},
	{"vendor internal", 500, `{"code":"50500","message":"x","data":null}`, who, who, byUpstream},

	{"other readable 4xx", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, good, who, byRequest},
	{"not found", 404, `{"error":{"message":"Invalid URL (POST /v1/x)"}}`, good, who, byUpstream},
	{"method", 405, `{"error":{"message":"Method Not Allowed"}}`, good, who, byUpstream},
	{"task_not_exist", 400, `{"code":"task_not_exist","message":"task_not_exist","data":null}`, good, who, byRequest},
	{"conflict", 409, `{"error":{"code":"conflict","message":"key in use"}}`, good, who, byRequest},
	{"too large", 413, `{"message":"too large"}`, good, who, byRequest},
	{"4xx page", 403, `<html><title>Blocked</title></html>`, who, who, byKey},
	{"4xx text", 400, `bad request`, who, who, byRequest},
	{"4xx empty", 404, ``, who, who, byUpstream},
	{"4xx empty object", 400, `{}`, who, who, byRequest},
	{"408", 408, `{"error":{"message":"timeout"}}`, who, who, byUpstream},
	{"425", 425, `{"error":{"message":"too early"}}`, who, who, byUpstream},
	{"500", 500, `{"error":{"message":"Panic detected","type":"new_api_panic"}}`, who, who, byUpstream},
	{"502 page", 502, `<html>Bad Gateway</html>`, who, who, byUpstream},
	{"503", 503, `{"message":"no"}`, who, who, byUpstream},
	{"504", 504, ``, who, who, byUpstream},
	{"520", 520, `error code: 520`, who, who, byUpstream},
	{"999", 999, `{"message":"?"}`, who, who, byRequest},

	{"301", 301, ``, good, good, byUpstream},
	{"307", 307, ``, good, good, byUpstream},
	{"308", 308, ``, good, good, byUpstream},
	{"302 may follow an action", 302, ``, who, who, byUpstream},
	{"303 follows an action", 303, ``, who, who, byUpstream},
	{"304", 304, ``, who, who, byUpstream},
}

func TestCreateOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range outcomeCases {
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
	client, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		if c.status/100 == 3 {
			w.Header().Set("Location", "/v1/elsewhere")
		}
		w.Header().Set("X-Request-Id", "req-1")
		w.WriteHeader(c.status)
		_, _ = w.Write([]byte(c.body))
	})
	sub := client.Create(t.Context(), upstream.VideoCreate{JobID: "video_1", Body: []byte(`{"model":"m"}`), Resubmission: again})
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
	if e := sub.Err; e != nil && e.Scope != c.scope {
		t.Errorf("the error is about the %v, want the %v", e.Scope, c.scope)
	}
	if e := sub.Err; e != nil && (e.Final != (want == good) || !e.Written || e.HTTPStatus != c.status || e.RequestID != "req-1") {
		t.Errorf("error = %+v does not fit the verdict %v", e, want)
	}
	if n := len(requests); n != 1 {
		t.Errorf("the upstream got %d requests, want 1", n)
	}
	if key := (<-requests).Header.Get("Idempotency-Key"); key != "video_1" {
		t.Errorf("Idempotency-Key = %q, want the job's id", key)
	}
}

// TestOutcomeRows makes sure that each row of the table decides something, so
// that a row hidden by an earlier one does not go unnoticed.
func TestOutcomeRows(t *testing.T) {
	t.Parallel()
	for i, r := range outcomes {
		e := &upstream.Error{HTTPStatus: r.From, Code: r.Code, Said: true}
		if r.Code == "" {
			e.Code = "unlisted"
		}
		for status := r.From; status <= r.To; status++ {
			if e.HTTPStatus = status; decides(e) == i {
				break
			}
		}
		if got := decides(e); got != i {
			t.Errorf("row %d %+v never decides: row %d comes first", i, r, got)
		}
		if got := outcomes.Judge(e, false); got != r.Verdict {
			t.Errorf("row %d: outcome = %v, want %v", i, got, r.Verdict)
		}
		if e.Scope != r.Scope {
			t.Errorf("row %d: about the %v, want the %v", i, e.Scope, r.Scope)
		}
	}
}

func decides(e *upstream.Error) int { return outcomes.Find(e) }
