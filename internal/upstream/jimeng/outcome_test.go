package jimeng

import (
	"fmt"
	"net/http"
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
	upstreamtest.Answer("accepted", 200, `{"code":10000,"data":{"task_id":"t"}}`, yes, yes, request),
	upstreamtest.Answer("accepted 201 by a gateway", 201, `{"id":"t","status":"queued"}`, yes, yes, request),
	upstreamtest.Answer("200 without id", 200, `{"code":10000,"data":null,"message":"Success"}`, who, who, server),
	upstreamtest.Answer("200 unlisted code", 200, `{"code":50999,"message":"x"}`, who, who, server),

	upstreamtest.Answer("image before", 400, `{"code":50411,"data":null,"message":"Pre Img Risk Not Pass"}`, good, good, request),
	upstreamtest.Answer("image before, in 200", 200, `{"code":50411,"data":null,"message":"Pre Img Risk Not Pass"}`, good, good, request),
	upstreamtest.Answer("text before", 400, `{"code":50412,"message":"Text Risk Not Pass"}`, good, good, request),
	upstreamtest.Answer("sensitive text", 400, `{"code":50413,"message":"Post Text Risk Not Pass"}`, good, good, request),
	upstreamtest.Answer("image after", 400, `{"code":50511,"message":"Post Img Risk Not Pass"}`, good, good, request),
	upstreamtest.Answer("text after", 400, `{"code":50512,"message":"Post Text Risk Not Pass"}`, good, good, request),
	upstreamtest.Answer("video before", 400, `{"code":50513,"message":"Pre Video Risk Not Pass"}`, good, good, request),
	upstreamtest.Answer("audio before", 400, `{"code":50514,"message":"Pre Audio Risk Not Pass"}`, good, good, request),
	upstreamtest.Answer("video after", 400, `{"code":50516,"message":"Post Video Risk Not Pass"}`, good, good, request),
	upstreamtest.Answer("audio after", 400, `{"code":50517,"message":"Post Audio Risk Not Pass"}`, good, good, request),
	upstreamtest.Answer("copyright before", 400, `{"code":50518,"message":"Pre Img Risk Not Pass: Copyright"}`, good, good, request),
	upstreamtest.Answer("copyright after", 400, `{"code":50519,"message":"Post Img Risk Not Pass: Copyright"}`, good, good, request),
	upstreamtest.Answer("review broke", 400, `{"code":50520,"message":"Risk Internal Error"}`, good, good, request),
	upstreamtest.Answer("word review broke", 400, `{"code":50521,"message":"Antidirt Internal Error"}`, good, good, request),
	upstreamtest.Answer("copyright review broke", 400, `{"code":50522,"message":"Image Copyright Internal Error"}`, good, good, request),
	upstreamtest.Answer("input invalid", 400, `{"code":50215,"message":"Input invalid for this service."}`, good, good, request),
	upstreamtest.Answer("access denied", 400, `{"code":50400,"message":"Access Denied: Internal Error"}`, good, good, key),
	upstreamtest.Answer("access denied in 401", 401, `{"code":50400,"message":"Access Denied"}`, good, good, key),
	upstreamtest.Answer("qps", 429, `{"code":50429,"message":"Request Has Reached API Limit"}`, now, now, key),
	upstreamtest.Answer("qps in 200", 200, `{"code":50429,"message":"Request Has Reached API Limit"}`, now, now, key),
	upstreamtest.Answer("concurrency", 429, `{"code":50430,"message":"Request Has Reached API Concurrent Limit"}`, now, now, key),
	upstreamtest.Answer("concurrency in 400", 400, `{"code":50430,"message":"x"}`, now, now, key),
	upstreamtest.Answer("internal", 500, `{"code":50500,"message":"Internal Error"}`, who, who, server),
	upstreamtest.Answer("internal in 400", 400, `{"code":50500,"message":"Internal Error"}`, who, who, server),
	upstreamtest.Answer("internal in 200", 200, `{"code":50500,"message":"Internal Error"}`, who, who, server),
	upstreamtest.Answer("internal rpc", 500, `{"code":50501,"message":"Internal RPC Error"}`, who, who, server),

	upstreamtest.Answer("authorization", 400, envelope(100024, "InvalidAuthorization"), good, good, key),
	upstreamtest.Answer("authorization 401", 401, envelope(100024, "InvalidAuthorization"), good, good, key),
	upstreamtest.Answer("signature", 403, envelope(100010, "SignatureDoesNotMatch"), good, good, key),
	upstreamtest.Answer("access key", 401, envelope(100009, "InvalidAccessKey"), good, good, key),
	upstreamtest.Answer("credential", 400, envelope(100025, "InvalidCredential"), good, good, key),
	upstreamtest.Answer("timestamp", 400, envelope(100006, "InvalidTimestamp"), good, good, key),
	upstreamtest.Answer("flow limit", 429, envelope(100018, "FlowLimitExceeded"), now, now, key),
	upstreamtest.Answer("flow limit in 400", 400, envelope(100018, "FlowLimitExceeded"), now, now, key),
	upstreamtest.Answer("policy", 403, envelope(100012, "LackPolicy"), good, good, key),
	upstreamtest.Answer("action", 404, envelope(100008, "InvalidActionOrVersion"), good, who, server),
	upstreamtest.Answer("service timeout", 504, envelope(100016, "InternalServiceTimeout"), who, who, server),

	upstreamtest.Answer("gateway, vendor code", 500, `{"code":"50411","message":"x","data":null}`, good, good, request),
	upstreamtest.Answer("gateway, vendor limit", 500, `{"code":"50430","message":"x","data":null}`, now, now, key),
	upstreamtest.Answer("gateway, vendor internal", 500, `{"code":"50500","message":"x","data":null}`, who, who, server),
	upstreamtest.Answer("gateway, platform", 400, `{"code":"invalid_api_platform","message":"x","data":null}`, good, good, server),
	upstreamtest.Answer("gateway, no action", 400, `{"error":{"message":"Action query parameter is required","type":"new_api_error"}}`, good, who, request),
}

func envelope(codeN int, code string) string {
	return fmt.Sprintf(`{"ResponseMetadata":{"RequestId":"r","Action":"CVSync2AsyncSubmitTask","Version":"2022-08-31","Service":"cv",`+
		`"Region":"cn-north-1","Error":{"CodeN":%d,"Code":%q,"Message":"text"}}}`, codeN, code)
}

func TestCreateOutcome(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckOutcomes(t, subject, outcomeCases)
}

func TestDenials(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckDenials(t, subject,
		upstreamtest.Denied{Status: 400, Body: `{"code":50400,"message":"Access Denied"}`, Want: upstream.KeyDenied},
		upstreamtest.Denied{Status: 400, Body: envelope(100010, "SignatureDoesNotMatch"), Want: upstream.KeyDenied},
		upstreamtest.Denied{Status: 403, Body: envelope(100012, "LackPolicy"), Want: upstream.KeyDenied},
		upstreamtest.Denied{Status: 429, Body: `{"code":50430,"message":"x"}`, Want: upstream.NotDenied},
	)
}

func TestOutcomeRows(t *testing.T) {
	t.Parallel()
	upstreamtest.CheckRows(t, outcomes, outcomeCases, upstream.VisualRows(200, 599), upstream.SharedRows())
}

// TestFailuresAreRefusals checks that a code that fails a task also refuses a create for good.
func TestFailuresAreRefusals(t *testing.T) {
	t.Parallel()
	for code := range failures {
		e := &upstream.Error{HTTPStatus: http.StatusBadRequest, Code: code, Reported: true}
		if got := outcomes.Judge(e, true); got != good || e.Scope != request {
			t.Errorf("%s: %v, scope %v", code, got, e.Scope)
		}
	}
}
