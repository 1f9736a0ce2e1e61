// Package sandbox is a fake upstream for video tasks and chat completions. It speaks real HTTP and
// SSE, serves a playable MP4, and produces faults on request. It generates nothing. Every video is
// the same one-second clip.
//
// # Endpoints
//
// The primary path, whose GET also finds tasks created on the other paths:
//
//	POST /v1/video/generations        create a task
//	GET  /v1/video/generations/{id}   read a task
//
// The OpenAI-compatible Videos API. A create may be JSON or a form:
//
//	POST, GET    /v1/videos                create a task; list those of sandbox-videos
//	GET, DELETE  /v1/videos/{id}           read a task; delete an ended one
//	GET          /v1/videos/{id}/content   the MP4 (HEAD and Range work)
//
// Kling's API, also served below /kling. The kind is text2video or image2video:
//
//	POST, GET  /v1/videos/{kind}        create a task; list the tasks
//	GET        /v1/videos/{kind}/{id}   read a task by its id or external_task_id
//
// Jimeng's API, also served at /jimeng/. Calls need Version=2022-08-31:
//
//	POST /?Action=CVSync2AsyncSubmitTask   create a task
//	POST /?Action=CVSync2AsyncGetResult    read a task
//
// Shared paths:
//
//	GET  /files/{id}.mp4              the MP4 without a key
//	POST /v1/chat/completions         JSON or SSE
//	GET  /v1/models, /v1/models/{id}  the models below
//	GET  /stats                       counters; ?keys=0 omits the per-key maps
//	GET  /tasks                       the newest 100 tasks; ?key= only those of one
//	                                  Idempotency-Key
//	GET  /readyz                      always ready
//
// Options.Key is the bearer key of all paths except /files/, /stats, /tasks and /readyz. The
// sandbox does not verify vendor signatures and tokens. It accepts them if Key is empty and refuses
// them otherwise.
//
// # Models
//
//	sandbox-video             GET answers the documented flat shape
//	sandbox-video-enveloped   GET answers {"code":"success","data":{...}} with
//	                          upper-case states and "37%" as progress
//	sandbox-videos            the Video object as OpenAI gives it, without a URL
//	sandbox-videos-gateway    as the common gateway program gives it: states
//	                          unknown and processing, milliseconds, metadata.url;
//	                          input_reference is a string
//	sandbox-kling...          model_name of Kling's own envelope
//	sandbox-kling-gateway     Kling behind that gateway: requires "model" and reads
//	                          the vendor's parameters from the metadata
//	sandbox-jimeng...         req_key of Jimeng; sandbox_jimeng... as well
//	sandbox-chat              one chunk every Options.ChunkInterval
//	sandbox-chat-fast         no pacing
//
// # Controlling its behaviour
//
// Every request may include a [Behaviour] as JSON:
//
//	{"sandbox": {"status": 429, "retry_after": "2", "times": 2}}
//
// In a video request, the object belongs in metadata.sandbox. In a chat request, it belongs at the
// top level. Any request may send it in the header X-Sandbox, without the outer "sandbox". If you
// cannot change the body, append the behaviour to the model name (model_name, req_key):
//
//	"model": "sandbox-video:status=429,times=2"
//	"model": "sandbox-chat:chunks=100,chunk_interval_ms=5,drop_after_chunks=5"
//
// A bare word in a suffix means true. Separate the words of a list with "|"
// (statuses=NOT_START|weird_word|SUCCESS). The header overrides the body and the body overrides the
// suffix, field by field. [Sandbox.SetBehaviour] replaces all of them. Unknown fields are refused
// with 400, so a misspelt fault is not ignored.
//
// Common cases:
//
//	slow                    {"delay_ms": 500} or {"duration_ms": 8000}
//	refuse twice, then work {"status": 429, "retry_after": "1", "times": 2}
//	fail                    {"fail": "text risk", "fail_code": "50413"}
//	never answer            {"hang": true}
//	cut before accepting    {"drop": "before_answer"}
//	cut after accepting     {"drop": "after_create"}
//	cut a stream            {"drop_after_chunks": 5}
//	error inside a stream   {"error_after_chunks": 3}
//	odd states              {"statuses": ["NOT_START", "weird_word", "SUCCESS"]}
//	failing polls           {"poll_status": 500, "poll_fail_times": 2}
//	a vendor's refusal      {"status": 429, "code": "1303"}
//	the same with 200       {"status": 200, "code": "1303"}
//	another shape of polls  {"shape": "huawei"}
//	a large file            {"content_bytes": 2147483648}
//	a file elsewhere        {"content": "redirect", "content_host": "127.0.0.1:9000"}
package sandbox
