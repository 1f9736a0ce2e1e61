package jimeng

import (
	"fmt"
	"net/http"
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
	server  = upstream.ScopeUpstream
)

var outcomeCases = []outcomeCase{
	{"accepted", 200, `{"code":10000,"data":{"task_id":"t"}}`, yes, yes, request},
	{"accepted 201 by a gateway", 201, `{"id":"t","status":"queued"}`, yes, yes, request},
	{"200 without id", 200, `{"code":10000,"data":null,"message":"Success"}`, who, who, server},
	{"200 unreadable", 200, `<html>`, who, who, server},
	{"204", 204, ``, who, who, server},
	{"200 unlisted code", 200, `{"code":50999,"message":"x"}`, who, who, server},

	{"image before", 400, `{"code":50411,"data":null,"message":"Pre Img Risk Not Pass"}`, good, good, request},
	{"image before, in 200", 200, `{"code":50411,"data":null,"message":"Pre Img Risk Not Pass"}`, good, good, request},
	{"text before", 400, `{"code":50412,"message":"Text Risk Not Pass"}`, good, good, request},
	{"sensitive text", 400, `{"code":50413,"message":"Post Text Risk Not Pass"}`, good, good, request},
	{"image after", 400, `{"code":50511,"message":"Post Img Risk Not Pass"}`, good, good, request},
	{"text after", 400, `{"code":50512,"message":"Post Text Risk Not Pass"}`, good, good, request},
	{"video before", 400, `{"code":50513,"message":"Pre Video Risk Not Pass"}`, good, good, request},
	{"audio before", 400, `{"code":50514,"message":"Pre Audio Risk Not Pass"}`, good, good, request},
	{"video after", 400, `{"code":50516,"message":"Post Video Risk Not Pass"}`, good, good, request},
	{"audio after", 400, `{"code":50517,"message":"Post Audio Risk Not Pass"}`, good, good, request},
	{"copyright before", 400, `{"code":50518,"message":"Pre Img Risk Not Pass: Copyright"}`, good, good, request},
	{"copyright after", 400, `{"code":50519,"message":"Post Img Risk Not Pass: Copyright"}`, good, good, request},
	{"review broke", 400, `{"code":50520,"message":"Risk Internal Error"}`, good, good, request},
	{"word review broke", 400, `{"code":50521,"message":"Antidirt Internal Error"}`, good, good, request},
	{"copyright review broke", 400, `{"code":50522,"message":"Image Copyright Internal Error"}`, good, good, request},
	{"input invalid", 400, `{"code":50215,"message":"Input invalid for this service."}`, good, good, request},
	{"access denied", 400, `{"code":50400,"message":"Access Denied: Internal Error"}`, good, good, key},
	{"access denied in 401", 401, `{"code":50400,"message":"Access Denied"}`, good, good, key},
	{"qps", 429, `{"code":50429,"message":"Request Has Reached API Limit"}`, now, now, key},
	{"qps in 200", 200, `{"code":50429,"message":"Request Has Reached API Limit"}`, now, now, key},
	{"concurrency", 429, `{"code":50430,"message":"Request Has Reached API Concurrent Limit"}`, now, now, key},
	{"concurrency in 400", 400, `{"code":50430,"message":"x"}`, now, now, key},
	{"internal", 500, `{"code":50500,"message":"Internal Error"}`, who, who, server},
	{"internal in 400", 400, `{"code":50500,"message":"Internal Error"}`, who, who, server},
	{"internal in 200", 200, `{"code":50500,"message":"Internal Error"}`, who, who, server},
	{"internal rpc", 500, `{"code":50501,"message":"Internal RPC Error"}`, who, who, server},

	{"authorization", 400, envelope(100024, "InvalidAuthorization"), good, good, key},
	{"authorization 401", 401, envelope(100024, "InvalidAuthorization"), good, good, key},
	{"signature", 403, envelope(100010, "SignatureDoesNotMatch"), good, good, key},
	{"access key", 401, envelope(100009, "InvalidAccessKey"), good, good, key},
	{"credential", 400, envelope(100025, "InvalidCredential"), good, good, key},
	{"timestamp", 400, envelope(100006, "InvalidTimestamp"), good, good, key},
	{"flow limit", 429, envelope(100018, "FlowLimitExceeded"), now, now, key},
	{"flow limit in 400", 400, envelope(100018, "FlowLimitExceeded"), now, now, key},
	{"policy", 403, envelope(100012, "LackPolicy"), good, good, key},
	{"action", 404, envelope(100008, "InvalidActionOrVersion"), good, who, request},
	{"service timeout", 504, envelope(100016, "InternalServiceTimeout"), who, who, server},

	{"gateway, vendor code", 500, `{"code":"50411","message":"x","data":null}`, good, good, request},
	{"gateway, vendor limit", 500, `{"code":"50430","message":"x","data":null}`, now, now, key},
	{"gateway, vendor internal", 500, `{"code":"50500","message":"x","data":null}`, who, who, server},
	{"gateway, bad key", 401, `{"error":{"code":"","message":"Invalid token","type":"new_api_error"}}`, good, good, key},
	{"gateway, no credit", 402, `{"error":{"message":"no credit"}}`, good, good, key},
	{"gateway, no channel", 503, `{"error":{"code":"model_not_found","message":"x"}}`, good, good, server},
	{"gateway, platform", 400, `{"code":"invalid_api_platform","message":"x","data":null}`, good, good, server},
	{"gateway, no prompt", 400, `{"code":"invalid_request","message":"prompt is required","data":null}`, good, good, request},
	{"gateway, invalid in 500", 500, `{"error":{"code":"invalid_request","message":"x"}}`, good, good, request},
	{"gateway, quota", 403, `{"code":"insufficient_user_quota","message":"x","data":null}`, good, good, key},
	{"gateway, quota in 429", 429, `{"error":{"code":"insufficient_quota","message":"x"}}`, good, good, key},
	{"gateway, cpu", 503, `{"error":{"code":"system_cpu_overloaded","message":"x"}}`, now, now, server},
	{"gateway, memory", 503, `{"error":{"code":"system_memory_overloaded","message":"x"}}`, now, now, server},
	{"gateway, disk", 503, `{"error":{"code":"system_disk_overloaded","message":"x"}}`, now, now, server},
	{"gateway, saturated", 429, `{"code":"x","message":"当前分组上游负载已饱和","data":null}`, now, now, key},
	{"gateway, vendor unread", 500, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, who, who, server},
	{"gateway, no action", 400, `{"error":{"message":"Action query parameter is required","type":"new_api_error"}}`, good, who, request},

	{"other 4xx", 422, `{"message":"x"}`, good, who, request},
	{"conflict", 409, `{"message":"x"}`, good, who, request},
	{"4xx page", 403, `<html><title>Blocked</title></html>`, who, who, key},
	{"4xx empty", 400, ``, who, who, request},
	{"408", 408, `{"message":"timeout"}`, who, who, server},
	{"425", 425, `{"message":"early"}`, who, who, server},
	{"429 page", 429, `<html>slow down</html>`, now, now, key},
	{"502 page", 502, `<html>Bad Gateway</html>`, who, who, server},
	{"999", 999, `{"message":"?"}`, who, who, request},

	{"301", 301, ``, good, good, server},
	{"307", 307, ``, good, good, server},
	{"308", 308, ``, good, good, server},
	{"302", 302, ``, who, who, server},
	{"304", 304, ``, who, who, server},
}

func envelope(codeN int, code string) string {
	return fmt.Sprintf(`{"ResponseMetadata":{"RequestId":"r","Action":"CVSync2AsyncSubmitTask","Version":"2022-08-31","Service":"cv",`+
		`"Region":"cn-north-1","Error":{"CodeN":%d,"Code":%q,"Message":"text"}}}`, codeN, code)
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
	client := serve(t, upstream.Options{}, func(w http.ResponseWriter, r *http.Request) {
		requests <- r
		if c.status/100 == 3 {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(c.status)
		_, _ = w.Write([]byte(c.body))
	})
	create := testCreate
	create.Resubmission = again
	sub := client.Create(t.Context(), create)
	want := c.first
	if again {
		want = c.again
	}
	if sub.Verdict != want {
		t.Errorf("verdict = %v, want %v (%v)", sub.Verdict, want, sub.Err)
	}
	if (sub.Err == nil) != (want == yes) || (sub.UpstreamID != "") != (want == yes) || (sub.Ticket != "") != (want == yes) {
		t.Errorf("submission %+v does not fit the verdict %v", sub, want)
	}
	if e := sub.Err; e != nil && (e.Final != (want == good) || !e.Written || e.HTTPStatus != c.status || e.Scope != c.scope) {
		t.Errorf("error = %+v (scope %v) does not fit verdict %v and scope %v", e, e.Scope, want, c.scope)
	}
	if n := len(requests); n != 1 {
		t.Errorf("the upstream got %d requests, want 1", n)
	}
}

// TestOutcomeRows makes sure that each row of the table decides something, so
// that a row hidden by an earlier one does not go unnoticed, and that every row
// has a case above.
func TestOutcomeRows(t *testing.T) {
	t.Parallel()
	covered := make(map[int]bool)
	for _, c := range outcomeCases {
		said, _ := upstream.ParseErrorBody([]byte(c.body))
		covered[outcomes.Find(&upstream.Error{HTTPStatus: c.status, Code: upstream.Meaningful(said.Code), Type: said.Type})] = true
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
		if got := outcomes.Judge(e, false); got != r.Verdict {
			t.Errorf("row %d: outcome = %v, want %v", i, got, r.Verdict)
		}
		if !covered[i] {
			t.Errorf("row %d %+v has no case", i, r)
		}
	}
}

// TestFailuresAreRefusals: what fails a task on a query refuses a create for
// good.
func TestFailuresAreRefusals(t *testing.T) {
	t.Parallel()
	for code := range failures {
		e := &upstream.Error{HTTPStatus: http.StatusBadRequest, Code: code, Said: true}
		if got := outcomes.Judge(e, true); got != good || e.Scope != request {
			t.Errorf("%s: %v, scope %v", code, got, e.Scope)
		}
	}
}
