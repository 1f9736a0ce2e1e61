package sandbox

import (
	"strconv"
	"time"
)

// appendCreated appends the answer to a create, which is flat in both dialects.
func (t *task) appendCreated(b []byte, startUnix int64, withID bool) []byte {
	b = append(b, '{')
	if withID {
		b = append(b, `"id":`...)
		b = appendJSON(b, t.id)
		b = appendField(b, "task_id", t.id)
		b = append(b, ',')
	}
	b = append(b, `"object":"video"`...)
	b = appendField(b, "model", t.model)
	b = appendField(b, "status", flatWords[waiting])
	b = append(b, `,"progress":0`...)
	b = appendIntField(b, "created_at", startUnix+int64(t.created/time.Second))
	return append(b, '}')
}

// appendAccepted appends the answer to a create as sent by servers that answer 202.
func (t *task) appendAccepted(b []byte, base string, withID bool) []byte {
	b = append(b, '{')
	if withID {
		b = append(b, `"id":`...)
		b = appendJSON(b, t.id)
		b = append(b, ',')
	}
	b = append(b, `"status":"pending"`...)
	b = appendField(b, "polling_url", base+t.pollPath())
	return append(b, '}')
}

// pollPath returns the path of the task on the primary path.
func (t *task) pollPath() string { return "/v1/video/generations/" + t.id }

// appendFlat appends the documented answer to a poll.
func (t *task) appendFlat(b []byte, st state, startUnix int64, base string) []byte {
	b = append(b, `{"id":`...)
	b = appendJSON(b, t.id)
	b = appendField(b, "task_id", t.id)
	b = append(b, `,"object":"video"`...)
	b = appendField(b, "model", t.model)
	b = appendField(b, "status", st.word)
	b = appendIntField(b, "progress", int64(st.progress))
	b = appendIntField(b, "created_at", startUnix+int64(t.created/time.Second))
	if st.outcome.ended() {
		b = appendIntField(b, "completed_at", startUnix+int64((t.created+t.duration)/time.Second))
	}
	switch st.outcome {
	case completed:
		if !st.withheld {
			b = t.appendResult(b, base)
		}
	case failed:
		code, message := t.failure()
		b = append(b, `,"error":{"code":`...)
		b = appendCode(b, code)
		b = appendField(b, "message", message)
		b = append(b, '}')
	default: // still running
	}
	return append(b, '}')
}

func (t *task) appendResult(b []byte, base string) []byte {
	b = append(b, `,"url":`...)
	b = t.appendFileURL(b, base, 0)
	b = append(b, `,"format":"mp4"`...)
	if t.videos > 1 {
		b = t.appendVideos(b, base)
	}
	b = append(b, `,"metadata":{"duration":`...)
	b = appendSeconds(b, t.seconds)
	b = appendIntField(b, "fps", int64(t.fps))
	b = t.appendSize(b)
	b = appendIntField(b, "seed", t.seed)
	return append(b, '}')
}

func (t *task) appendVideos(b []byte, base string) []byte {
	b = append(b, `,"videos":[`...)
	for k := range int(t.videos) {
		if k > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"url":`...)
		b = t.appendFileURL(b, base, k)
		b = append(b, `,"format":"mp4","duration":`...)
		b = appendSeconds(b, t.seconds)
		b = t.appendSize(b)
		b = append(b, '}')
	}
	return append(b, ']')
}

func (t *task) appendSize(b []byte) []byte {
	b = appendIntField(b, "width", int64(t.width))
	return appendIntField(b, "height", int64(t.height))
}

// appendEnvelope appends the answer to a poll by the common gateway program. If the task has
// failed, result_url holds the error message.
func (t *task) appendEnvelope(b []byte, st state, startUnix, nowUnix int64, base string) []byte {
	created := startUnix + int64(t.created/time.Second)
	b = append(b, `{"code":"success","message":"","data":{"id":`...)
	b = strconv.AppendInt(b, t.row, 10)
	b = appendIntField(b, "created_at", created)
	b = appendIntField(b, "updated_at", nowUnix)
	b = appendField(b, "task_id", t.id)
	b = append(b, `,"platform":"50","user_id":1,"group":"default","channel_id":3,"quota":9375000`...)
	b = appendField(b, "action", t.action())
	b = appendField(b, "status", st.word)
	b = t.appendEnvelopeResult(b, st, base)
	b = appendIntField(b, "submit_time", created)
	b = t.appendEnvelopeTimes(b, st, startUnix)
	b = append(b, `,"progress":"`...)
	b = strconv.AppendInt(b, int64(st.progress), 10)
	b = append(b, `%","properties":{"input":"","upstream_model_name":`...)
	b = appendJSON(b, t.model)
	b = appendField(b, "origin_model_name", t.model)
	b = append(b, `},"data":`...)
	b = t.appendVendor(b, st, base)
	return append(b, `}}`...)
}

func (t *task) action() string {
	if t.fromImage {
		return "generate"
	}
	return "textGenerate"
}

func (t *task) appendEnvelopeResult(b []byte, st state, base string) []byte {
	switch {
	case st.outcome == completed && !st.withheld:
		b = append(b, `,"fail_reason":"","result_url":`...)
		return t.appendFileURL(b, base, 0)
	case st.outcome == failed:
		_, message := t.failure()
		b = appendField(b, "fail_reason", message)
		return appendField(b, "result_url", message)
	default:
		return append(b, `,"fail_reason":"","result_url":""`...)
	}
}

func (t *task) appendEnvelopeTimes(b []byte, st state, startUnix int64) []byte {
	started, finished := int64(0), int64(0)
	if st.outcome != waiting {
		started = startUnix + int64((t.created+t.duration/10)/time.Second)
	}
	if st.outcome.ended() {
		finished = startUnix + int64((t.created+t.duration)/time.Second)
	}
	b = appendIntField(b, "start_time", started)
	return appendIntField(b, "finish_time", finished)
}

// appendVendor appends the raw answer of the vendor behind the gateway.
func (t *task) appendVendor(b []byte, st state, base string) []byte {
	switch {
	case st.outcome == completed && !st.withheld:
		b = append(b, `{"code":0,"message":"SUCCEED","data":{"task_status":"succeed","task_result":{"videos":[`...)
		for k := range int(t.videos) {
			if k > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"id":"`...)
			b = strconv.AppendInt(b, int64(k+1), 10)
			b = append(b, `","url":`...)
			b = t.appendFileURL(b, base, k)
			b = append(b, `,"duration":"`...)
			b = appendSeconds(b, t.seconds)
			b = append(b, `"}`...)
		}
		return append(b, `]}}}`...)
	case st.outcome == failed:
		code, message := t.failure()
		b = append(b, `{"code":`...)
		b = appendCode(b, code)
		b = appendField(b, "message", message)
		return append(b, `,"data":null}`...)
	default:
		return append(b, `{"code":0,"message":"SUCCEED","data":{"task_status":"processing"}}`...)
	}
}
