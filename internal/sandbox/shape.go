package sandbox

import (
	"encoding/base64"
	"strconv"
	"time"
)

// shape is a variant of the primary path's poll answers. Real servers use these variants in
// addition to the shapes of the two models.
type shape struct {
	words words
	// enveloped puts the task into {"code":"success","data":{...}}.
	enveloped bool
	created   func(b []byte, at time.Time) []byte
	// open, between and close surround the URLs of a completed task. If between is empty, only the
	// first URL is written.
	open, between, close string
	url                  func(t *task, b []byte, base string, k int) []byte
	// unfailed replaces the error of a task that has not failed.
	unfailed string
}

var (
	lowWords     = words{waiting: "queued", running: "running", completed: "succeeded", failed: "failed"}
	oldWords     = words{waiting: "processing", running: "processing", completed: "succeeded", failed: "failed"}
	simpleWords  = words{waiting: "queued", running: "processing", completed: "succeeded", failed: "failed"}
	pendingWords = words{waiting: "pending", running: "in_progress", completed: "completed", failed: "failed"}
)

// shapes maps values of Behaviour.Shape to shapes.
var shapes = map[string]*shape{
	"old":          {words: oldWords, created: unixSeconds, url: fileURL, open: `"url":`, unfailed: `"error":null`},
	"result_url":   {words: flatWords, created: unixSeconds, url: fileURL, open: `"result_url":`},
	"video_url":    {words: flatWords, created: unixSeconds, url: fileURL, open: `"video_url":`},
	"metadata_url": {words: flatWords, created: unixMillis, url: fileURL, open: `"metadata":{"url":`, close: `}`},
	"data_uri":     {words: flatWords, created: unixSeconds, url: dataURI, open: `"url":`},
	"huawei": {
		words: lowWords, created: unixMillis, url: fileURL, open: `"content":{"result_url":`, close: `}`,
		unfailed: `"error":{"code":0,"message":""}`,
	},
	"ark":        {words: lowWords, created: unixSeconds, url: fileURL, open: `"content":{"video_url":`, close: `}`},
	"output":     {words: pendingWords, created: unixSeconds, url: fileURL, open: `"output":{"video_url":`, close: `}`},
	"together":   {words: flatWords, created: isoTime, url: fileURL, open: `"outputs":{"video_url":`, close: `}`},
	"openrouter": {words: pendingWords, created: unixSeconds, url: fileURL, open: `"unsigned_urls":[`, between: `,`, close: `]`},

	"realtime": {
		words: simpleWords, enveloped: true, created: unixSeconds, url: fileURL,
		open: `"format":"mp4","metadata":null,"url":`, unfailed: `"error":null`,
	},
	"fail_reason":  {words: envelopeWords, enveloped: true, created: unixSeconds, url: fileURL, open: `"fail_reason":`},
	"content_path": {words: envelopeWords, enveloped: true, created: unixSeconds, url: contentURL, open: `"fail_reason":"","result_url":`},
	"task_result": {
		words: envelopeWords, enveloped: true, created: unixSeconds, url: fileURL,
		open: `"data":{"task_result":{"videos":[{"url":`, between: `},{"url":`, close: `}]}}`,
	},
	"vendor_video_url": {
		words: envelopeWords, enveloped: true, created: unixSeconds, url: fileURL,
		open: `"data":{"code":10000,"data":{"status":"done","video_url":`, close: `}}`,
	},
}

// appendShaped appends the answer to a poll in the shape of the task's script.
func (t *task) appendShaped(b []byte, now time.Duration, start time.Time, base string) []byte {
	sh := t.script.shape
	st := t.at(now, &sh.words)
	b = append(b, '{')
	if sh.enveloped {
		b = append(b, `"code":"success","message":"","data":{`...)
	}
	b = append(b, `"task_id":`...)
	b = appendJSON(b, t.id)
	b = appendField(b, "status", st.word)
	b = sh.appendProgress(b, st.progress)
	b = append(b, `,"created_at":`...)
	b = sh.created(b, start.Add(t.created))
	b = t.appendShapedEnd(b, st, sh, base)
	if sh.enveloped {
		b = append(b, '}')
	}
	return append(b, '}')
}

func (t *task) appendShapedEnd(b []byte, st state, sh *shape, base string) []byte {
	if st.outcome == failed {
		return sh.appendFailure(b, t)
	}
	if sh.unfailed != "" {
		b = append(b, ',')
		b = append(b, sh.unfailed...)
	}
	if st.outcome != completed {
		return b
	}
	b = append(b, ',')
	b = append(b, sh.open...)
	for k := range int(t.videos) {
		if k > 0 && sh.between == "" {
			break
		}
		if k > 0 {
			b = append(b, sh.between...)
		}
		b = sh.url(t, b, base, k)
	}
	return append(b, sh.close...)
}

// appendFailure appends the failure in the fields that the shape uses.
func (sh *shape) appendFailure(b []byte, t *task) []byte {
	code, message := t.failure()
	if sh.enveloped && sh.unfailed == "" {
		return appendField(b, "fail_reason", message)
	}
	b = append(b, `,"error":{"code":`...)
	b = appendCode(b, code)
	b = appendField(b, "message", message)
	return append(b, '}')
}

func (sh *shape) appendProgress(b []byte, percent int) []byte {
	if !sh.enveloped {
		return appendIntField(b, "progress", int64(percent))
	}
	return appendField(b, "progress", strconv.Itoa(percent)+"%")
}

func unixSeconds(b []byte, at time.Time) []byte { return strconv.AppendInt(b, at.Unix(), 10) }
func unixMillis(b []byte, at time.Time) []byte  { return strconv.AppendInt(b, at.UnixMilli(), 10) }
func isoTime(b []byte, at time.Time) []byte {
	return at.UTC().AppendFormat(b, `"2006-01-02T15:04:05Z"`)
}

func fileURL(t *task, b []byte, base string, k int) []byte { return t.appendFileURL(b, base, k) }

// contentURL writes the content path, which requires the key. Gateways return it for vendors whose
// files require a key.
func contentURL(t *task, b []byte, base string, _ int) []byte {
	return appendJSON(b, base+"/v1/videos/"+t.id+"/content")
}

func dataURI(_ *task, b []byte, _ string, _ int) []byte {
	return appendJSON(b, "data:video/mp4;base64,"+base64.StdEncoding.EncodeToString(clip))
}
