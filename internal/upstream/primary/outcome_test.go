package primary

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
}

const (
	good = upstream.RefusedForGood
	now  = upstream.RefusedForNow
	who  = upstream.Unknown
	yes  = upstream.Accepted
)

var outcomeCases = []outcomeCase{
	{"accepted", 200, `{"task_id":"t","status":"queued"}`, yes, yes},
	{"accepted 201", 201, `{"id":"t"}`, yes, yes},
	{"accepted 202", 202, `{"id":"t","status":"pending"}`, yes, yes},
	{"2xx without id", 200, `{"status":"queued"}`, who, who},
	{"2xx unreadable", 200, `<html>`, who, who},
	{"2xx empty", 204, ``, who, who},
	{"2xx error", 200, `{"error":{"code":"invalid_request","message":"x"}}`, who, who},

	{"bad key", 401, `{"error":{"code":"","message":"Invalid token (request id: 1)","type":"new_api_error"}}`, good, good},
	{"no credit", 402, `{"error":{"code":402,"message":"Insufficient credits"}}`, good, good},
	{"forbidden", 403, `{"error":{"message":"no"}}`, good, good},
	{"no model", 400, `{"error":{"code":"","message":"Model name not specified","type":"new_api_error"}}`, good, who},
	{"missing prompt", 400, `{"code":"invalid_request","message":"prompt is required","data":null}`, good, good},
	{"invalid_request as 500", 500, `{"error":{"code":"invalid_request","message":"x"}}`, good, good},
	{"unknown model", 503, `{"error":{"code":"model_not_found","message":"No available channel","type":"new_api_error"}}`, good, good},
	{"cpu overloaded", 503, `{"error":{"code":"system_cpu_overloaded","message":"x"}}`, now, now},
	{"memory overloaded", 503, `{"error":{"code":"system_memory_overloaded","message":"x"}}`, now, now},
	{"disk overloaded", 503, `{"error":{"code":"system_disk_overloaded","message":"x"}}`, now, now},
	{"user quota", 403, `{"code":"insufficient_user_quota","message":"x","data":null}`, good, good},
	{"rate limit", 429, `{"code":"x","message":"当前分组上游负载已饱和","data":null}`, now, now},
	{"rate limit page", 429, `<html>slow down</html>`, now, now},
	{"rate limit empty", 429, ``, now, now},
	{"429 quota", 429, `{"error":{"code":"insufficient_quota","message":"x"}}`, good, good},
	{"429 quota as type", 429, `{"error":{"type":"insufficient_quota","message":"x","code":null}}`, good, good},
	{"429 user quota", 429, `{"code":"insufficient_user_quota","message":"x"}`, good, good},
	{"task_failed 400", 400, `{"code":"task_failed","message":"kling says no","data":null}`, good, good},
	{"task_failed 500", 500, `{"code":"task_failed","message":"x","data":null}`, who, who},
	{"fail_to_fetch_task 500", 500, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, who, who},
	{"fail_to_fetch_task 502", 502, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, who, who},
	{"fail_to_fetch_task 400", 400, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, good, who},
	{"fail_to_fetch_task 429", 429, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, now, now},
	{"vendor text risk", 500, `{"code":"50412","message":"Text Risk","data":null}`, good, good},
	{"vendor image risk", 500, `{"code":50411,"message":"x","data":null}`, good, good},
	{"vendor concurrency", 500, `{"code":"50430","message":"x","data":null}`, now, now},
	{"vendor qps", 500, `{"code":"50429","message":"x","data":null}`, now, now},
	{"vendor internal", 500, `{"code":"50500","message":"x","data":null}`, who, who},

	{"other readable 4xx", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, good, who},
	{"not found", 404, `{"error":{"message":"Invalid URL (POST /v1/x)"}}`, good, who},
	{"conflict", 409, `{"error":{"code":"conflict","message":"key in use"}}`, good, who},
	{"too large", 413, `{"message":"too large"}`, good, who},
	{"4xx page", 403, `<html><title>Blocked</title></html>`, who, who},
	{"4xx text", 400, `bad request`, who, who},
	{"4xx empty", 404, ``, who, who},
	{"4xx empty object", 400, `{}`, who, who},
	{"408", 408, `{"error":{"message":"timeout"}}`, who, who},
	{"425", 425, `{"error":{"message":"too early"}}`, who, who},
	{"500", 500, `{"error":{"message":"Panic detected","type":"new_api_panic"}}`, who, who},
	{"502 page", 502, `<html>Bad Gateway</html>`, who, who},
	{"503", 503, `{"message":"no"}`, who, who},
	{"504", 504, ``, who, who},
	{"520", 520, `error code: 520`, who, who},
	{"999", 999, `{"message":"?"}`, who, who},

	{"301", 301, ``, good, good},
	{"307", 307, ``, good, good},
	{"308", 308, ``, good, good},
	{"302 may follow an action", 302, ``, who, who},
	{"303 follows an action", 303, ``, who, who},
	{"304", 304, ``, who, who},
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
		e := &upstream.Error{HTTPStatus: r.from, Code: r.code, Said: true}
		if r.code == "" {
			e.Code = "unlisted"
		}
		for status := r.from; status <= r.to; status++ {
			if e.HTTPStatus = status; decides(e) == i {
				break
			}
		}
		if got := decides(e); got != i {
			t.Errorf("row %d %+v never decides: row %d comes first", i, r, got)
		}
		if got := outcome(e, false); got != r.verdict {
			t.Errorf("row %d: outcome = %v, want %v", i, got, r.verdict)
		}
	}
}

func decides(e *upstream.Error) int {
	return slices.IndexFunc(outcomes, func(r row) bool { return r.matches(e.HTTPStatus, e.Code) })
}
