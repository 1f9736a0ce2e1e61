// Package sandbox is a fake upstream for video tasks and chat completions: real
// HTTP, real SSE and a playable MP4, with faults on request. It is not a model
// and generates nothing; every video is the same one-second clip.
//
// # Endpoints
//
//	POST /v1/video/generations        create a task
//	GET  /v1/video/generations/{id}   read a task
//	GET  /v1/videos/{id}/content      the MP4 (HEAD and Range work)
//	GET  /files/{id}.mp4              the same, without a key
//	POST /v1/chat/completions         JSON or SSE
//	GET  /v1/models, /v1/models/{id}  the models below
//	GET  /stats                       counters; ?keys=0 leaves the per-key maps out
//
// # Models
//
//	sandbox-video             GET answers the documented flat shape
//	sandbox-video-enveloped   GET answers {"code":"success","data":{...}} with
//	                          upper-case states and "37%" as progress
//	sandbox-chat              one chunk every Options.ChunkInterval
//	sandbox-chat-fast         no pacing at all
//
// # Controlling its behaviour
//
// Every request may ask for a [Behaviour], written as JSON:
//
//	{"sandbox": {"status": 429, "retry_after": "2", "times": 2}}
//
// The object stands in metadata.sandbox of a video request, at the top level of
// a chat request, or (without the outer "sandbox") in the header X-Sandbox of
// any request. A suffix of the model does the same where the body is fixed:
//
//	"model": "sandbox-video:status=429,times=2"
//	"model": "sandbox-chat:chunks=100,chunk_interval_ms=5,drop_after_chunks=5"
//
// A bare word in a suffix means true, and the words of a list are separated by
// "|" (statuses=NOT_START|weird_word|SUCCESS). Where several ways are used, the
// header overrides the body and the body overrides the suffix, field by field.
// [Sandbox.SetBehaviour] replaces all of them. An unknown field is refused with
// 400, so that a misspelt fault does not pass as good behaviour.
//
// What each does, for the common cases:
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
package sandbox
