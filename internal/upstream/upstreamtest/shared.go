package upstreamtest

import "github.com/genbus/genbus/internal/upstream"

const (
	good = upstream.RefusedForGood
	now  = upstream.RefusedForNow
	who  = upstream.Unknown

	request = upstream.ScopeRequest
	key     = upstream.ScopeKey
	server  = upstream.ScopeUpstream
)

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
	{"gateway: user quota", 403, `{"code":"insufficient_user_quota","message":"x","data":null}`, good, good, key},
	{"gateway: user quota as 429", 429, `{"code":"insufficient_user_quota","message":"x"}`, good, good, key},
	{"gateway: quota as 429", 429, `{"error":{"code":"insufficient_quota","message":"x"}}`, good, good, key},
	{"gateway: quota as type", 429, `{"error":{"type":"insufficient_quota","message":"x","code":null}}`, good, good, key},
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
	{"4xx empty", 404, ``, who, who, server},
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
