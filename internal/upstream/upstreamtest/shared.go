package upstreamtest

import (
	"slices"

	"github.com/genbus/genbus/internal/upstream"
)

const (
	good = upstream.RefusedForGood
	now  = upstream.RefusedForNow
	who  = upstream.Unknown

	request = upstream.ScopeRequest
	key     = upstream.ScopeKey
	server  = upstream.ScopeUpstream
)

// sharedOutcomes lists answers to creates in every protocol.
var sharedOutcomes = slices.Concat(gatewayOutcomes, wordOutcomes, formOutcomes, statusOutcomes)

// wordOutcomes lists answers that name their cause, as vendors send them.
var wordOutcomes = []Outcome{
	{"OpenAI: key", 401, `{"error":{"code":"invalid_api_key","type":"invalid_request_error","message":"x"}}`, good, good, key},
	{"OpenAI: account", 401, `{"error":{"code":"account_deactivated","message":"x"}}`, good, good, key},
	{"OpenAI: billing limit as 400", 400, `{"error":{"code":"billing_hard_limit_reached","message":"x"}}`, good, good, key},
	{"OpenAI: billing limit as 429", 429, `{"error":{"code":"billing_hard_limit_reached","message":"x"}}`, good, good, key},
	{"OpenAI: billing not active", 429, `{"error":{"code":"billing_not_active","message":"x"}}`, good, good, key},
	{"OpenAI: rate", 429, `{"error":{"code":"rate_limit_exceeded","type":"requests","message":"x"}}`, now, now, key},
	{"OpenAI: rate as 503", 503, `{"error":{"code":"rate_limit_exceeded","message":"x"}}`, now, now, key},
	{"OpenAI: key as 500", 500, `{"error":{"code":"invalid_api_key","message":"x"}}`, good, good, key},
	{"OpenAI: quota as 503", 503, `{"error":{"code":"insufficient_quota","message":"x"}}`, good, good, key},
	{"another word with a rate limit as 500", 500, `{"error":{"code":"worker_rate_limit_lost","message":"x"}}`, who, who, server},
	{"another word with a key as 502", 502, `{"error":{"code":"render_api_key_rotated","message":"x"}}`, who, who, server},
	{"another word with a quota as 500", 500, `{"error":{"type":"insufficient_gpu_quota_left","message":"x"}}`, who, who, server},
	{"a refused output as 500", 500, `{"error":{"code":"OutputVideoSensitiveContentDetected","message":"x"}}`, who, who, server},
	{"OpenAI: policy", 400, `{"error":{"code":"content_policy_violation","message":"x"}}`, good, good, request},
	{"OpenAI: moderation", 403, `{"error":{"code":"moderation_blocked","message":"x"}}`, good, good, request},
	{"Azure: content filter", 400, `{"error":{"message":"x","type":null,"param":"prompt","code":"content_filter","status":400,"innererror":{"code":"ResponsibleAIPolicyViolation"}}}`, good, good, request},
	{"Azure: rate", 429, `{"error":{"code":"RateLimitReached","message":"Please wait 30 seconds before retrying."}}`, now, now, key},
	{"Anthropic: rate as 500", 500, `{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`, now, now, key},
	{"Anthropic: permission", 400, `{"type":"error","error":{"type":"permission_error","message":"x"}}`, good, good, key},
	{"Anthropic: key", 400, `{"type":"error","error":{"type":"authentication_error","message":"x"},"request_id":"req_1"}`, good, good, key},
	{"Cerebras: key", 400, `{"message":"Wrong API Key","type":"invalid_request_error","param":"api_key","code":"wrong_api_key"}`, good, good, key},
	{"Cerebras: too many", 400, `{"message":"x","type":"too_many_requests_error","param":"queue","code":"queue_exceeded"}`, now, now, key},
	{"too many as 503", 503, `{"code":"TooManyRequests","message":"x"}`, now, now, key},
	{"Moonshot: key", 400, `{"error":{"message":"x","type":"invalid_authentication_error"}}`, good, good, key},
	{"Moonshot: balance as 429", 429, `{"error":{"message":"suspended","type":"exceeded_current_quota_error"}}`, good, good, key},
	{"gateway: user quota", 403, `{"code":"insufficient_user_quota","message":"x","data":null}`, good, good, key},
	{"gateway: user quota as 500", 500, `{"code":"insufficient_user_quota","message":"x","data":null}`, good, good, key},
	{"gateway: another quota", 400, `{"code":"insufficient_token_quota","message":"x"}`, good, good, key},
	{"gateway: balance as 500", 500, `{"code":"insufficient_balance","message":"x"}`, good, good, key},
	{"gateway: user quota as 429", 429, `{"code":"insufficient_user_quota","message":"x"}`, good, good, key},
	{"gateway: quota as 429", 429, `{"error":{"code":"insufficient_quota","message":"x"}}`, good, good, key},
	{"gateway: quota as type", 429, `{"error":{"type":"insufficient_quota","message":"x","code":null}}`, good, good, key},
	{"gateway: quota of a token", 500, `{"error":{"code":"pre_consume_token_quota_failed","message":"x"}}`, good, good, key},
	{"OpenRouter: credits in 200", 200, `{"error":{"code":"insufficient_credits","message":"x"}}`, good, good, key},
	{"Google: key", 400, `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID","domain":"googleapis.com"}]}}]`, good, good, key},
	{"Google: key, older", 400, `{"error":{"code":400,"message":"x","errors":[{"message":"x","domain":"usageLimits","reason":"keyInvalid"}],"status":"INVALID_ARGUMENT"}}`, good, good, key},
	{"Google: service", 403, `{"error":{"code":403,"message":"x","status":"PERMISSION_DENIED","details":[{"reason":"SERVICE_DISABLED"}]}}`, good, good, key},
	{"Google: billing", 403, `{"error":{"code":403,"message":"x","status":"PERMISSION_DENIED","details":[{"reason":"BILLING_DISABLED"}]}}`, good, good, key},
	{"Google: consumer", 400, `{"error":{"code":400,"message":"x","details":[{"reason":"CONSUMER_SUSPENDED"}]}}`, good, good, key},
	{"Google: token", 500, `{"error":{"code":401,"message":"x","status":"UNAUTHENTICATED","details":[{"reason":"ACCESS_TOKEN_EXPIRED"}]}}`, good, good, key},
	{"Google: unknown reason", 500, `{"error":{"code":401,"message":"x","status":"UNAUTHENTICATED","details":[{"reason":"SOMETHING_NEW"}]}}`, good, good, key},
	{"Google: permission as 500", 500, `{"error":{"code":403,"message":"x","status":"PERMISSION_DENIED"}}`, good, good, key},
	{"Google: quota", 429, `[{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}]`, now, now, key},
	{"Google: quota as 503", 503, `{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}`, who, who, server},
	{"Google: location", 400, `[{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}]`, good, good, server},
	{"Connect: key", 401, `{"code":"unauthenticated","message":"x"}`, good, good, key},
	{"DashScope: key", 400, `{"code":"InvalidApiKey","message":"x","request_id":"r"}`, good, good, key},
	{"DashScope: arrears as 400", 400, `{"code":"Arrearage","message":"Access denied, please make sure your account is in good standing.","request_id":"r"}`, good, good, key},
	{"DashScope: rate", 429, `{"code":"Throttling.RateQuota","message":"x","request_id":"r"}`, now, now, key},
	{"DashScope: policy", 400, `{"code":"DataInspectionFailed","message":"x","request_id":"r"}`, good, good, request},
	{"Ark: arrears", 400, `{"error":{"code":"AccountOverdueError","message":"x","param":"","type":""}}`, good, good, key},
	{"Ark: rate", 429, `{"error":{"code":"RateLimitExceeded.EndpointRPMExceeded","message":"x","param":"","type":""}}`, now, now, key},
	{"Ark: policy", 400, `{"error":{"code":"InputTextSensitiveContentDetected","message":"x","param":"","type":"BadRequest"}}`, good, good, request},
	{"Ark: risk", 400, `{"error":{"code":"InputTextRiskDetection","message":"x"}}`, good, good, request},
	{"MiniMax: balance as 429", 429, `{"type":"error","error":{"type":"insufficient_balance_error","message":"insufficient balance (1008)","http_code":"429"},"request_id":"r"}`, good, good, key},
	{"MiniMax: balance as 500", 500, `{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"},"request_id":"r"}`, good, good, key},
	{"LiteLLM: budget as 400", 400, `{"error":{"message":"Budget has been exceeded! Current cost: 1","type":"budget_exceeded","param":null,"code":"400"}}`, good, good, key},
	{"Novita: balance", 400, `{"code":403,"reason":"NOT_ENOUGH_BALANCE","message":"not enough balance","metadata":{}}`, good, good, key},
	{"Zhipu: arrears as 429", 429, `{"error":{"code":"1113","message":"x"}}`, good, good, key},
	{"xAI: key as 400", 400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***xx. You can obtain an API key from https://console.x.ai."}`, good, good, key},
	{"a request that quotes a refusal", 400, `{"error":{"message":"Invalid value: 'Incorrect API key provided'","type":"invalid_request_error","param":"size"}}`, good, who, request},
	{"DeepSeek: key", 401, `{"error":{"message":"Authentication Fails","type":"authentication_error","param":null,"code":"invalid_request_error"}}`, good, good, key},
	{"DeepSeek: balance", 402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, good, good, key},
}

// MiniMaxOutcomes lists answers with MiniMax's base_resp.
var MiniMaxOutcomes = []Outcome{
	{"MiniMax: balance in 200", 200, `{"task_id":"","base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`, good, good, key},
	{"MiniMax: key in 200", 200, `{"base_resp":{"status_code":2049,"status_msg":"invalid api key"}}`, good, good, key},
	{"MiniMax: no key in 200", 200, `{"base_resp":{"status_code":1004,"status_msg":"login fail: Please carry the API secret key in the 'Authorization' field of the request header"}}`, good, good, key},
	{"MiniMax: rate in 200", 200, `{"base_resp":{"status_code":1002,"status_msg":"rate limit exceeded(RPM)"}}`, now, now, key},
	{"MiniMax: policy in 200", 200, `{"base_resp":{"status_code":1026,"status_msg":"input new_sensitive"}}`, good, good, request},
	{"MiniMax: parameters in 200", 200, `{"base_resp":{"status_code":2013,"status_msg":"invalid params, model"}}`, good, good, request},
	{"MiniMax: success", 200, `{"task_id":"","base_resp":{"status_code":0,"status_msg":"success"}}`, who, who, server},
}

// formOutcomes lists answers whose errors have other forms than those of gateways.
var formOutcomes = []Outcome{
	{"list of errors", 400, `{"success":false,"errors":[{"code":7003,"message":"x"}],"result":null}`, good, who, request},
	{"list of texts", 400, `{"id":"1","name":"bad_request","errors":["prompt: is required"]}`, good, who, request},
	{"bare text", 401, `"Invalid token"`, good, good, key},
	{"problem details", 422, `{"type":"about:blank","title":"Unprocessable","status":422}`, good, who, request},
	{"error_code", 400, `{"error_code":336003,"error_msg":"messages cannot be empty"}`, good, who, request},
	{"err_code", 401, `{"error":{"err_code":-10003,"message":"x","type":"api_error"}}`, good, good, key},
	{"event", 400, "id:1\nevent:error\n:HTTP_STATUS/400\ndata:{\"code\":\"InvalidParameter\",\"message\":\"x\",\"request_id\":\"r\"}\n\n", good, who, request},
	{"two lines", 400, "{\"error\":\"x\"}\n{\"done\":true}\n", good, who, request},
	{"status in the code of a 200", 200, `{"code":402,"msg":"insufficient credits","data":null}`, good, good, key},
	{"rate in the code of a 200", 200, `{"code":429,"msg":"slow down"}`, now, now, key},
	{"failure in the code of a 200", 200, `{"code":500,"msg":"x"}`, who, who, server},
	{"Google's error inside another", 400, `{"error":{"message":"{\n  \"error\": {\n    \"code\": 400,\n    \"message\": \"API key not valid.\",\n    \"status\": \"INVALID_ARGUMENT\",\n    \"details\": [{\"reason\": \"API_KEY_INVALID\"}]\n  }\n}\n","code":400,"status":"Bad Request"}}`, good, good, key},
	{"passed on: policy", 500, `{"code":"fail_to_fetch_task","message":"{\"error\":{\"code\":\"moderation_blocked\",\"message\":\"x\"}}","data":null}`, good, good, request},
	{"passed on: key", 400, `{"code":"fail_to_fetch_task","message":"[{\"error\":{\"code\":400,\"details\":[{\"reason\":\"API_KEY_INVALID\"}]}}]","data":null}`, good, good, server},
	{"passed on: key, in a sentence", 400, `{"error":{"code":"bad_response_status_code","message":"bad response status code 400, body: [{\"error\":{\"code\":400,\"details\":[{\"reason\":\"API_KEY_INVALID\"}]}}]"}}`, good, good, server},
	{"passed on: unknown", 500, `{"code":"fail_to_fetch_task","message":"{\"error\":{\"code\":\"oops\",\"message\":\"x\"}}","data":null}`, who, who, server},
}

// gatewayOutcomes lists answers that common gateways give to creates in every protocol.
var gatewayOutcomes = []Outcome{
	{"gateway: no channel", 503, `{"error":{"code":"model_not_found","message":"No available channel","type":"new_api_error"}}`, good, good, server},
	{"gateway: unknown model", 404, `{"error":{"code":"model_not_found","type":"invalid_request_error","message":"x"}}`, good, good, server},
	{"gateway: no model", 400, `{"error":{"code":"","message":"Model name not specified","type":"new_api_error"}}`, good, who, request},
	{"gateway: no prompt", 400, `{"code":"invalid_request","message":"prompt is required","data":null}`, good, good, request},
	{"gateway: invalid_request as 500", 500, `{"error":{"code":"invalid_request","message":"x"}}`, good, good, request},
	{"gateway: bad key", 401, `{"error":{"code":"","message":"Invalid token (request id: 1)","type":"new_api_error"}}`, good, good, key},
	{"gateway: no credit", 402, `{"error":{"code":402,"message":"Insufficient credits"}}`, good, good, key},
	{"gateway: forbidden", 403, `{"error":{"message":"no"}}`, good, good, key},
	{"gateway: cpu", 503, `{"error":{"code":"system_cpu_overloaded","message":"x"}}`, now, now, server},
	{"gateway: memory", 503, `{"error":{"code":"system_memory_overloaded","message":"x"}}`, now, now, server},
	{"gateway: disk", 503, `{"error":{"code":"system_disk_overloaded","message":"x"}}`, now, now, server},
	{"gateway: saturated", 429, `{"code":"x","message":"当前分组上游负载已饱和","data":null}`, now, now, key},
	{"gateway: task_failed", 400, `{"code":"task_failed","message":"kling says no","data":null}`, good, good, request},
	{"gateway: task_failed as 500", 500, `{"code":"task_failed","message":"x","data":null}`, who, who, server},
	{"gateway: task_not_exist", 400, `{"code":"task_not_exist","message":"task_not_exist","data":null}`, good, who, request},
	{"gateway: passed on, 500", 500, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, who, who, server},
	{"gateway: passed on, 502", 502, `{"code":"fail_to_fetch_task","message":"<html>","data":null}`, who, who, server},
	{"gateway: passed on, 400", 400, `{"code":"fail_to_fetch_task","message":"no","data":null}`, good, who, request},
	{"gateway: passed on, 401", 401, `{"code":"fail_to_fetch_task","message":"no","data":null}`, good, good, server},
	{"gateway: passed on, 403", 403, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, good, good, server},
	{"gateway: passed on, 404", 404, `{"code":"fail_to_fetch_task","message":"{}","data":null}`, good, who, server},
	{"gateway: passed on, 429", 429, `{"code":"fail_to_fetch_task","message":"slow down","data":null}`, now, now, key},
	{"gateway: panic", 500, `{"error":{"message":"Panic detected","type":"new_api_panic"}}`, who, who, server},
	{"gateway: wrong path", 404, `{"error":{"message":"Invalid URL (POST /x)","type":"invalid_request_error","param":"","code":""}}`, good, who, server},
}

// statusOutcomes lists answers that are judged by their status alone.
var statusOutcomes = []Outcome{
	{"2xx page", 200, `<html>`, who, who, server},
	{"2xx empty", 204, ``, who, who, server},
	{"2xx array", 200, `[{"id":"t"}]`, who, who, server},

	{"other 400", 400, `{"error":{"code":"invalid_type","param":"seconds","message":"x"}}`, good, who, request},
	{"other 422", 422, `{"detail":[{"loc":["body"],"msg":"field required"}]}`, good, who, request},
	{"wrong method", 405, `{"message":"method not allowed"}`, good, who, server},
	{"conflict", 409, `{"error":{"code":"conflict","message":"key in use"}}`, good, who, request},
	{"too large", 413, `{"message":"too large"}`, good, who, request},
	{"4xx page", 403, `<html><title>Blocked</title></html>`, who, who, key},
	{"4xx text", 400, `bad request`, who, who, request},
	{"404 empty", 404, ``, now, now, server},
	{"404 page", 404, `<html><title>404 Not Found</title></html>`, now, now, server},
	{"404 text", 404, `404 page not found`, now, now, server},
	{"405 page", 405, `<html>`, now, now, server},
	{"4xx empty object", 400, `{}`, who, who, request},
	{"408", 408, `{"error":{"message":"timeout"}}`, who, who, server},
	{"425", 425, `{"error":{"message":"too early"}}`, who, who, server},
	{"429 page", 429, `<html>slow down</html>`, now, now, key},
	{"429 empty", 429, ``, now, now, key},
	{"500", 500, `{"message":"no"}`, who, who, server},
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
