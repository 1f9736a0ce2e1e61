package upstreamtest

import (
	"net/http"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// poll is an error in the answer to a poll, and what it says about the task: "failed" (the same
// request would fail again), "failed, may pass", "expired", "cancelled", "missing" or "nothing".
type poll struct {
	name   string
	status int
	body   string
	want   string
}

// polls lists errors in answers to polls in every protocol.
var polls = []poll{
	{"OpenAI: moderation", 400, `{"error":{"code":"moderation_blocked","message":"x","type":"invalid_request_error"}}`, "failed"},
	{"OpenAI: moderation in words", 400, `{"error":{"message":"Your request was blocked by our moderation system.","type":"video_generation_user_error","param":null,"code":null}}`, "failed"},
	{"OpenAI: policy", 400, `{"error":{"code":"content_policy_violation","message":"x"}}`, "failed"},
	{"Azure: filter", 400, `{"error":{"code":"contentFilter","message":"x"}}`, "failed"},
	{"Ark: output", 400, `{"error":{"code":"OutputVideoSensitiveContentDetected","message":"x"}}`, "failed"},
	{"Ark: risk", 422, `{"error":{"code":"OutputVideoRiskDetection","message":"x"}}`, "failed"},
	{"DashScope: inspection", 400, `{"code":"DataInspectionFailed","message":"x","request_id":"r"}`, "failed"},
	{"MiniMax: output in 200", 200, `{"base_resp":{"status_code":1027,"status_msg":"output new_sensitive"}}`, "failed"},
	{"vendor A through a gateway", 400, `{"code":"fail_to_fetch_task","message":"{\"code\":1301,\"message\":\"x\"}","data":null}`, "failed"},
	{"vendor B: text", 400, `{"code":50413,"data":null,"message":"Post Text Risk Not Pass"}`, "failed"},
	{"vendor B: output", 400, `{"code":"50516","data":null,"message":"Post Video Risk Not Pass"}`, "failed, may pass"},
	{"failed", 400, `{"error":{"code":"generation_failed","message":"x"}}`, "failed"},
	{"failed, longer", 409, `{"error":{"code":"video_generation_failed","message":"x"}}`, "failed"},
	{"failed, in the type", 400, `{"error":{"type":"TaskFailed","message":"x"}}`, "failed"},
	{"failed, a list", 400, `[{"error":{"code":"task_failed","message":"x"}}]`, "failed"},
	{"failed, in words", 400, `{"error":{"message":"Video generation failed: out of memory","type":"invalid_request_error"}}`, "failed"},
	{"failed, in words with the ID", 400, `{"message":"Task 'abc-123' has failed"}`, "failed"},
	{"failed in 200", 200, `{"error":{"code":"generation_failed","message":"x"}}`, "failed"},
	{"expired", 410, `{"error":{"code":"task_expired","message":"x"}}`, "expired"},
	{"expired, in words", 400, `{"detail":"The task has expired"}`, "expired"},
	{"expired as 404", 404, `{"error":{"code":"video_expired","message":"x"}}`, "expired"},
	{"expired, a bare word", 400, `{"code":"expired","message":"x"}`, "expired"},
	{"cancelled", 409, `{"error":{"code":"task_cancelled","message":"x"}}`, "cancelled"},
	{"canceled, in words", 400, `{"error":"Job was canceled"}`, "canceled"},

	{"missing", 404, `{"error":{"message":"Video not found","type":"invalid_request_error"}}`, "missing"},
	{"missing, OpenAI", 404, `{"error":{"message":"Video with id 'video_1' not found.","type":"invalid_request_error","param":"id","code":null}}`, "missing"},
	{"missing, a list", 404, `[{"error":{"code":404,"message":"Requested entity was not found.","status":"NOT_FOUND"}}]`, "missing"},
	{"missing, FastAPI", 404, `{"detail":"Not Found"}`, "missing"},
	{"missing, with a state", 404, `{"status":"failed","message":"no such task"}`, "missing"},
	{"missing, new-api", 400, `{"code":"task_not_exist","message":"task_not_exist","data":null}`, "missing"},
	{"missing, vendor A", 400, `{"code":1201,"message":"Task not found by id/external id","request_id":"r"}`, "missing"},
	{"missing in 200", 200, `{"code":"task_not_exist","message":"x","data":null}`, "missing"},
	{"missing in the code of a 200", 200, `{"code":404,"message":"x"}`, "missing"},
	{"gone", 410, `{"message":"gone"}`, "missing"},

	{"a text in 200", 200, `{"error":"Video generation failed: out of memory"}`, "failed"},
	{"moderation in words in 200", 200, `{"error":{"message":"Your request was blocked by our moderation system."}}`, "failed"},
	{"moderation as 401", 401, `{"error":{"code":"moderation_blocked","message":"x"}}`, "nothing"},
	{"moderation as 402", 402, `{"error":{"code":"moderation_blocked","message":"x"}}`, "nothing"},
	{"moderation as 403", 403, `{"error":{"code":"moderation_blocked","message":"x"}}`, "nothing"},
	{"moderation as 429", 429, `{"error":{"code":"moderation_blocked","message":"x"}}`, "nothing"},
	{"moderation with 429 in a 200", 200, `{"code":429,"message":"blocked by our moderation system"}`, "nothing"},
	{"moderation out of order", 400, `{"error":{"message":"content moderation service is temporarily unavailable"}}`, "nothing"},
	{"a link to the policy", 400, `{"error":{"message":"unknown version, see our content policy at https://example.com"}}`, "nothing"},
	{"a mere message in 200", 200, `{"message":"Your request was blocked by our moderation system."}`, "nothing"},
	{"a mere message beside a success", 200, `{"code":"success","message":"Task has failed"}`, "nothing"},
	{"failed query", 400, `{"code":"failed","message":"query failed"}`, "nothing"},
	{"failed call in 200", 200, `{"code":401,"message":"x","status":"failed"}`, "nothing"},
	{"failed call in 200, around a state", 200, `{"code":500,"message":"x","data":{"status":"failed"}}`, "nothing"},
	{"failed as 500", 500, `{"error":{"code":"generation_failed","message":"x"}}`, "nothing"},
	{"expired as 503", 503, `{"error":{"code":"task_expired","message":"x"}}`, "nothing"},
	{"missing as 500", 500, `{"code":"task_not_exist","message":"x"}`, "nothing"},
	{"an envelope's status", 400, `{"status":"error","message":"bad version"}`, "nothing"},
	{"an envelope's status as 500", 500, `{"status":"failed","message":"database"}`, "nothing"},
	{"a success with a refusal", 400, `{"status":"success","message":"x"}`, "nothing"},
	{"about the poll", 400, `{"error":{"code":"get_task_failed","message":"get task failed"}}`, "nothing"},
	{"about the poll, in words", 400, `{"message":"Task failed to load"}`, "nothing"},
	{"a parameter", 400, `{"error":{"code":"invalid_parameter","message":"version is not supported"}}`, "nothing"},
	{"a key that expired", 400, `{"error":{"code":"api_key_expired","message":"API key expired"}}`, "nothing"},
	{"not ready", 404, `{"error":{"code":"model_not_found","message":"x"}}`, "nothing"},
	{"another path", 404, `{"error":{"message":"Invalid URL (GET /v1/x)","type":"invalid_request_error","param":"","code":""}}`, "nothing"},
	{"another path, Groq", 404, `{"error":{"message":"Unknown request URL: GET /x","type":"invalid_request_error","code":"unknown_url"}}`, "nothing"},
	{"a page for 404", 404, `<html><title>404 Not Found</title></html>`, "nothing"},
	{"a text for 404", 404, `404 page not found`, "nothing"},
	{"nothing for 404", 404, ``, "nothing"},
	{"a page that says it", 400, `<html>task expired</html>`, "nothing"},
	{"an error in 200", 200, `{"error":{"message":"upstream busy","code":502}}`, "nothing"},
}

// CheckPolls serves the errors in polls, and checks what the client makes of them.
func CheckPolls(t *testing.T, s Subject) {
	t.Helper()
	for _, p := range polls {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			client := s.serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(p.status)
				_, _ = w.Write([]byte(p.body))
			})
			state, err := client.Poll(t.Context(), s.Ref)
			if got := saysPoll(state, upstream.AsError(upstream.OpPoll, err)); got != p.want {
				t.Errorf("says %s, want %s: %+v, %v", got, p.want, state, err)
			}
			if e := state.Err; e != nil && (e.Op != upstream.OpPoll || e.HTTPStatus != p.status || !e.Reported || !e.Written || e.Message == "") {
				t.Errorf("the task's error is %+v", e)
			}
		})
	}
}

func saysPoll(s upstream.VideoState, e *upstream.Error) string {
	switch {
	case e != nil && e.Missing:
		return "missing"
	case e != nil:
		return "nothing"
	case s.Progression != upstream.Failed || s.Err == nil:
		return "a state"
	case s.Status == "" && s.Err.Final: // vendor B has no word for it
		return "failed"
	case (s.Status == "" || s.Status == "failed") && !s.Err.Final:
		return "failed, may pass"
	default:
		return s.Status
	}
}
