package videos

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// outcomeCase is one kind of answer to a create. first and again are the
// verdicts on a first submission and on a resubmission; the scope is the same.
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
	server  = upstream.ScopeUpstream
)

var outcomeCases = []outcomeCase{
	{"accepted", 200, `{"id":"v","status":"queued"}`, yes, yes, request},
	{"accepted 201", 201, `{"id":"v"}`, yes, yes, request},
	{"accepted 202", 202, `{"id":"v","status":"pending"}`, yes, yes, request},
	{"2xx without id", 200, `{"status":"queued"}`, who, who, request},
	{"2xx unreadable", 200, `<html>`, who, who, request},
	{"2xx empty", 204, ``, who, who, request},
	{"2xx error", 200, `{"error":{"code":"invalid_request","message":"x"}}`, who, who, request},

	{"unknown model", 404, `{"error":{"code":"model_not_found","type":"invalid_request_error","message":"x"}}`, good, good, server},
	{"no channel", 503, `{"error":{"code":"model_not_found","message":"No available channel","type":"new_api_error"}}`, good, good, server},
	{"missing prompt", 400, `{"code":"invalid_request","message":"prompt is required","data":null}`, good, good, request},
	{"invalid_request as 500", 500, `{"error":{"code":"invalid_request","message":"x"}}`, good, good, request},
	{"missing_model", 400, `{"code":"missing_model","message":"x","data":null}`, good, good, request},
	{"missing_prompt", 400, `{"code":"missing_prompt","message":"x","data":null}`, good, good, request},
	{"invalid_size", 400, `{"code":"invalid_size","message":"x","data":null}`, good, good, request},
	{"invalid_seconds", 400, `{"code":"invalid_seconds","message":"x","data":null}`, good, good, request},
	{"invalid_json", 400, `{"code":"invalid_json","message":"x","data":null}`, good, good, request},
	{"invalid_multipart_form", 400, `{"code":"invalid_multipart_form","message":"x","data":null}`, good, good, request},
	{"task_failed 400", 400, `{"code":"task_failed","message":"kling says no","data":null}`, good, good, request},
	{"task_failed 500", 500, `{"code":"task_failed","message":"x","data":null}`, who, who, server},
	{"content policy", 400, `{"error":{"code":"content_policy_violation","message":"x"}}`, good, good, request},
	{"moderation", 400, `{"error":{"code":"moderation_blocked","message":"x"}}`, good, good, request},
	{"moderation 403", 403, `{"error":{"code":"moderation_blocked","message":"x"}}`, good, good, request},

	{"invalid_api_key", 401, `{"error":{"code":"invalid_api_key","type":"invalid_request_error","message":"x"}}`, good, good, key},
	{"account deactivated", 401, `{"error":{"code":"account_deactivated","message":"x"}}`, good, good, key},
	{"bad key", 401, `{"error":{"code":"","message":"Invalid token (request id: 1)","type":"new_api_error"}}`, good, good, key},
	{"no credit", 402, `{"error":{"code":402,"message":"Insufficient credits"}}`, good, good, key},
	{"forbidden", 403, `{"error":{"message":"no"}}`, good, good, key},
	{"user quota", 403, `{"code":"insufficient_user_quota","message":"x","data":null}`, good, good, key},
	{"429 user quota", 429, `{"code":"insufficient_user_quota","message":"x"}`, good, good, key},
	{"429 quota", 429, `{"error":{"code":"insufficient_quota","message":"x"}}`, good, good, key},
	{"429 quota as type", 429, `{"error":{"type":"insufficient_quota","message":"x","code":null}}`, good, good, key},
	{"400 billing limit", 400, `{"error":{"code":"billing_hard_limit_reached","message":"x"}}`, good, good, key},
	{"429 billing limit", 429, `{"error":{"code":"billing_hard_limit_reached","message":"x"}}`, good, good, key},
	{"429 billing not active", 429, `{"error":{"code":"billing_not_active","message":"x"}}`, good, good, key},
	{"rate limit", 429, `{"error":{"code":"rate_limit_exceeded","type":"requests","message":"x"}}`, now, now, key},
	{"rate limit as 503", 503, `{"error":{"code":"rate_limit_exceeded","message":"x"}}`, now, now, key},
	{"rate limit of a gateway", 429, `{"code":"x","message":"当前分组上游负载已饱和","data":null}`, now, now, key},
	{"rate limit page", 429, `<html>slow down</html>`, now, now, key},
	{"rate limit empty", 429, ``, now, now, key},

	{"cpu overloaded", 503, `{"error":{"code":"system_cpu_overloaded","message":"x"}}`, now, now, server},
	{"memory overloaded", 503, `{"error":{"code":"system_memory_overloaded","message":"x"}}`, now, now, server},
	{"disk overloaded", 503, `{"error":{"code":"system_disk_overloaded","message":"x"}}`, now, now, server},
	{"server error", 500, `{"error":{"code":"server_error","message":"x"}}`, who, who, server},
	{"server error as type", 500, `{"error":{"code":null,"type":"server_error","message":"x"}}`, who, who, server},
	{"server error as 400", 400, `{"error":{"code":"server_error","message":"x"}}`, who, who, server},
	{"fail_to_fetch_task 500", 500, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, who, who, server},
	{"fail_to_fetch_task 502", 502, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, who, who, server},
	{"fail_to_fetch_task 400", 400, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, good, who, request},
	{"fail_to_fetch_task 429", 429, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, now, now, key},
	{"vendor image risk", 500, `{"code":50411,"message":"x","data":null}`, good, good, request},
	{"vendor text risk", 500, `{"code":"50412","message":"Text Risk","data":null}`, good, good, request},
	{"vendor post text risk", 500, `{"code":"50413","message":"x","data":null}`, good, good, request},
	{"vendor post text risk 2", 500, `{"code":"50512","message":"x","data":null}`, good, good, request},
	{"vendor copyright", 500, `{"code":"50518","message":"x","data":null}`, good, good, request},
	{"vendor input", 500, `{"code":"50215","message":"x","data":null}`, good, good, request},
	{"vendor access", 500, `{"code":"50400","message":"x","data":null}`, good, good, key},
	{"vendor qps", 500, `{"code":"50429","message":"x","data":null}`, now, now, key},
	{"vendor concurrency", 500, `{"code":"50430","message":"x","data":null}`, now, now, key},
	{"vendor internal", 500, `{"code":"50500","message":"x","data":null}`, who, who, server},

	{"other 400", 400, `{"error":{"code":"invalid_type","param":"seconds","message":"x"}}`, good, who, request},
	{"readable 422", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, good, who, request},
	{"wrong path", 404, `{"error":{"message":"Invalid URL (POST /v1/videos)","type":"invalid_request_error"}}`, good, who, server},
	{"wrong method", 405, `{"message":"method not allowed"}`, good, who, server},
	{"conflict", 409, `{"error":{"code":"conflict","message":"key in use"}}`, good, who, request},
	{"too large", 413, `{"message":"too large"}`, good, who, request},
	{"4xx page", 403, `<html><title>Blocked</title></html>`, who, who, key},
	{"4xx text", 400, `bad request`, who, who, request},
	{"4xx empty", 404, ``, who, who, server},
	{"4xx empty object", 400, `{}`, who, who, request},
	{"408", 408, `{"error":{"message":"timeout"}}`, who, who, server},
	{"425", 425, `{"error":{"message":"too early"}}`, who, who, server},
	{"500", 500, `{"error":{"message":"Panic detected","type":"new_api_panic"}}`, who, who, server},
	{"502 page", 502, `<html>Bad Gateway</html>`, who, who, server},
	{"503", 503, `{"message":"no"}`, who, who, server},
	{"504", 504, ``, who, who, server},
	{"520", 520, `error code: 520`, who, who, server},
	{"999", 999, `{"message":"?"}`, who, who, request},

	{"301", 301, ``, good, good, server},
	{"307", 307, ``, good, good, server},
	{"308", 308, ``, good, good, server},
	{"302 may follow an action", 302, ``, who, who, server},
	{"303 follows an action", 303, ``, who, who, server},
	{"304", 304, ``, who, who, server},
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
	if e := sub.Err; e != nil && (e.Final != (want == good) || !e.Written || e.HTTPStatus != c.status || e.RequestID != "req-1") {
		t.Errorf("error = %+v does not fit the verdict %v", e, want)
	}
	if sub.Err != nil && sub.Err.Scope != c.scope {
		t.Errorf("scope = %v, want %v", sub.Err.Scope, c.scope)
	}
	if n := len(requests); n != 1 {
		t.Errorf("the upstream got %d requests, want 1", n)
	}
	if key := (<-requests).Header.Get("Idempotency-Key"); key != "video_1" {
		t.Errorf("Idempotency-Key = %q, want the job's id", key)
	}
}

// TestOutcomeRows makes sure that each row of the table decides something, so
// that a row hidden by an earlier one does not go unnoticed, and that a case
// above tests it.
func TestOutcomeRows(t *testing.T) {
	t.Parallel()
	tested := map[int]bool{}
	for _, c := range outcomeCases {
		said, _ := upstream.ParseErrorBody([]byte(c.body))
		tested[outcomes.Find(&upstream.Error{HTTPStatus: c.status, Code: said.Code, Type: said.Type})] = true
	}
	for i, r := range outcomes {
		e := &upstream.Error{HTTPStatus: r.From, Code: r.Code, Said: true}
		if r.Code == "" {
			e.Code = "unlisted"
		}
		for status := r.From; status <= r.To; status++ {
			if e.HTTPStatus = status; outcomes.Find(e) == i {
				break
			}
		}
		if got := outcomes.Find(e); got != i {
			t.Errorf("row %d %+v never decides: row %d comes first", i, r, got)
		}
		if got := outcomes.Judge(e, false); got != r.Verdict || e.Scope != r.Scope {
			t.Errorf("row %d: outcome = %v about %v, want %v about %v", i, got, e.Scope, r.Verdict, r.Scope)
		}
		if !tested[i] {
			t.Errorf("row %d %+v has no case", i, r)
		}
	}
}
