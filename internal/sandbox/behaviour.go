package sandbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	maxWait     = 10 * time.Minute
	maxChunks   = 1_000_000
	maxBigChunk = 64 << 20
	maxStatuses = 100
	maxDuration = 7 * 24 * 3600 * 1000 // milliseconds
	maxContent  = 1 << 40
)

// Values of Behaviour.Drop.
const (
	// DropBeforeAnswer resets the connection before anything is created.
	DropBeforeAnswer = "before_answer"
	// DropAfterCreate creates and counts the task, and then resets the connection.
	DropAfterCreate = "after_create"
)

// Behaviour controls how the sandbox treats a request. The zero value is correct behaviour. Fields
// marked "Fault" are subject to Times.
type Behaviour struct {
	// ID identifies the request for Times if it has no Idempotency-Key. A chat request with both is
	// counted by ID.
	ID string `json:"id,omitzero"`
	// Times limits the faults to the first N requests with the same key or ID. 0 means every
	// request.
	Times int `json:"times,omitzero"`

	// DelayMS delays the answer, in milliseconds. A create is counted and accepted before the
	// delay. Fault.
	DelayMS int `json:"delay_ms,omitzero"`
	// Status is the HTTP status of the answer. A status of 300 or above, or any status with Code,
	// is an error and creates nothing. A 3xx redirects to the same URL. Without Code, a 2xx is the
	// status of a successful create. Fault.
	Status int `json:"status,omitzero"`
	// RetryAfter is the Retry-After header sent with Status. Fault.
	RetryAfter string `json:"retry_after,omitzero"`
	// Code and Message replace the default code and message of Status. The vendors' paths send a
	// numeric code as a number. Fault.
	Code    string `json:"code,omitzero"`
	Message string `json:"message,omitzero"`
	// Drop is DropBeforeAnswer or DropAfterCreate. Fault.
	Drop string `json:"drop,omitzero"`
	// Hang leaves the request unanswered. The sandbox cuts the connection after ten minutes unless
	// the client closes it first. A create is accepted first, unless Status refuses it. Fault.
	Hang bool `json:"hang,omitzero"`
	// NoID omits the IDs from the answer to a create. Fault.
	NoID bool `json:"no_id,omitzero"`
	// Nested puts the answer to a create into {"result":...}. Fault.
	Nested bool `json:"nested,omitzero"`
	// Accept202 answers a create with 202. On the primary path the body contains only the ID,
	// status and polling URL.
	Accept202 bool `json:"accept_202,omitzero"`

	// DurationMS overrides Options.VideoDuration, in milliseconds.
	DurationMS *int `json:"duration_ms,omitzero"`
	// Statuses lists the status words that the task reports, spread evenly over its duration. It
	// reports the last word once the duration has passed. Words that mean completed come with video
	// URLs, and words that mean failed come with an error.
	Statuses []string `json:"statuses,omitzero"`
	// Fail makes the task fail with this message.
	Fail string `json:"fail,omitzero"`
	// FailCode is the code of a failed task. A numeric code is sent as a number. Default
	// "generation_failed", or 50413 on the Jimeng path.
	FailCode string `json:"fail_code,omitzero"`
	// PollStatus is the HTTP status of failing polls. Default 500 if PollCode or PollFailTimes is
	// set.
	PollStatus int `json:"poll_status,omitzero"`
	// PollCode is the error code sent with PollStatus.
	PollCode string `json:"poll_code,omitzero"`
	// PollFailTimes limits PollStatus to the first N polls. 0 means every poll.
	PollFailTimes int `json:"poll_fail_times,omitzero"`
	// PollDelayMS delays the answer to every poll, in milliseconds.
	PollDelayMS int `json:"poll_delay_ms,omitzero"`
	// Shape selects an alternative shape for poll answers on the primary path.
	Shape string `json:"shape,omitzero"`

	// ResultAfterMS leaves the URL out of a completed task's answer on the primary path until this
	// many milliseconds after it has completed.
	ResultAfterMS int `json:"result_after_ms,omitzero"`

	// Content is one of the Content constants. It selects how the file of a completed task is
	// served. By default, it is served correctly.
	Content string `json:"content,omitzero"`
	// ContentHost is the target host of ContentRedirect and ContentJSON, such as "127.0.0.1:9000"
	// or "http://cdn.example". The default is the same host.
	ContentHost string `json:"content_host,omitzero"`
	// ContentBytes is the length of the file. The clip is padded with zeros to this length.
	ContentBytes int64 `json:"content_bytes,omitzero"`
	// ContentAfterMS makes the file return 404 until this many milliseconds after the task has
	// completed.
	ContentAfterMS int `json:"content_after_ms,omitzero"`
	// GoneAfterMS makes the file return 404 this many milliseconds after the task has completed. 0
	// means never.
	GoneAfterMS int `json:"gone_after_ms,omitzero"`

	// Chunks is the number of content chunks. 0 means Options.ChunkCount.
	Chunks int `json:"chunks,omitzero"`
	// ChunkIntervalMS overrides the interval between chunks and between the pieces of a slow file,
	// in milliseconds. 0 means no pacing.
	ChunkIntervalMS *int `json:"chunk_interval_ms,omitzero"`
	// Timestamps replaces the text of each streamed chunk with the time it was written, in Unix
	// nanoseconds, followed by a space. A chunk enlarged by BigChunkBytes keeps its text after the
	// time.
	Timestamps bool `json:"timestamps,omitzero"`
	// BigChunkBytes is the length of the first content chunk.
	BigChunkBytes int `json:"big_chunk_bytes,omitzero"`

	// DropAfterChunks resets a stream after N content chunks. Fault.
	DropAfterChunks int `json:"drop_after_chunks,omitzero"`
	// ErrorAfterChunks sends an error event after N content chunks and ends the stream without
	// [DONE]. Fault.
	ErrorAfterChunks int `json:"error_after_chunks,omitzero"`
	// NoDone omits "data: [DONE]". Fault.
	NoDone bool `json:"no_done,omitzero"`
	// NoFinish omits the chunk with finish_reason. Fault.
	NoFinish bool `json:"no_finish,omitzero"`
	// JSONForStream answers a stream request with one JSON body. Fault.
	JSONForStream bool `json:"json_for_stream,omitzero"`
	// Comments inserts a comment line before each event. Fault.
	Comments bool `json:"comments,omitzero"`
	// BOM starts the stream with a byte order mark. Fault.
	BOM bool `json:"bom,omitzero"`
	// CRLF ends the lines of the stream with CR LF. Fault.
	CRLF bool `json:"crlf,omitzero"`
	// NoLastBlank omits the blank line after the last event. Fault.
	NoLastBlank bool `json:"no_last_blank,omitzero"`
	// NullError adds "error":null to each chunk. Fault.
	NullError bool `json:"null_error,omitzero"`
	// OddEvents inserts a text, a null and a heartbeat before each event. Fault.
	OddEvents bool `json:"odd_events,omitzero"`
	// NoChoices answers without a choice. Fault.
	NoChoices bool `json:"no_choices,omitzero"`
	// NoStreamOptions refuses a request with stream_options. Fault.
	NoStreamOptions bool `json:"no_stream_options,omitzero"`
}

// stringFields are the fields whose values in a model suffix are always strings.
var stringFields = map[string]bool{
	"id": true, "retry_after": true, "code": true, "message": true,
	"drop": true, "fail": true, "fail_code": true, "poll_code": true,
	"shape": true, "content": true, "content_host": true,
}

// splitModel splits "sandbox-video:status=429,times=2" into model and suffix.
func splitModel(model string) (base, suffix string) {
	base, suffix, _ = strings.Cut(model, ":")
	return base, suffix
}

func (b *Behaviour) applySuffix(suffix string) error {
	if suffix == "" {
		return nil
	}
	fields := map[string]any{}
	for pair := range strings.SplitSeq(suffix, ",") {
		name, value, hasValue := strings.Cut(strings.TrimSpace(pair), "=")
		fields[name] = suffixValue(name, value, hasValue)
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("model suffix: %w", err)
	}
	return b.applyJSON(raw)
}

func suffixValue(name, value string, hasValue bool) any {
	switch {
	case !hasValue:
		return true
	case name == "statuses":
		return strings.Split(value, "|")
	case stringFields[name]:
		return value
	case value == "true" || value == "false":
		return value == "true"
	case isInteger(value):
		return json.Number(value)
	default:
		return value
	}
}

// applyJSON sets the fields present in raw and keeps the others.
func (b *Behaviour) applyJSON(raw []byte) error {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(b); err != nil {
		return fmt.Errorf("sandbox behaviour: %w", err)
	}
	if d.More() {
		return errors.New("sandbox behaviour: text after the object")
	}
	return nil
}

func (b *Behaviour) validate() error {
	waitMS := int64(maxWait / time.Millisecond)
	for _, f := range []struct {
		name       string
		value, max int64
	}{
		{"times", int64(b.Times), maxChunks},
		{"delay_ms", int64(b.DelayMS), waitMS},
		{"poll_delay_ms", int64(b.PollDelayMS), waitMS},
		{"poll_fail_times", int64(b.PollFailTimes), maxChunks},
		{"chunk_interval_ms", int64(valueOf(b.ChunkIntervalMS)), waitMS},
		{"duration_ms", int64(valueOf(b.DurationMS)), maxDuration},
		{"result_after_ms", int64(b.ResultAfterMS), maxDuration},
		{"content_after_ms", int64(b.ContentAfterMS), maxDuration},
		{"gone_after_ms", int64(b.GoneAfterMS), maxDuration},
		{"content_bytes", b.ContentBytes, maxContent},
		{"chunks", int64(b.Chunks), maxChunks},
		{"big_chunk_bytes", int64(b.BigChunkBytes), maxBigChunk},
		{"drop_after_chunks", int64(b.DropAfterChunks), maxChunks},
		{"error_after_chunks", int64(b.ErrorAfterChunks), maxChunks},
		{"statuses", int64(len(b.Statuses)), maxStatuses},
	} {
		if f.value < 0 || f.value > f.max {
			return fmt.Errorf("sandbox behaviour: %s is %d, want 0 to %d", f.name, f.value, f.max)
		}
	}
	return b.validateWords()
}

func (b *Behaviour) validateWords() error {
	if b.Status != 0 && (b.Status < 200 || b.Status > 599) {
		return fmt.Errorf("sandbox behaviour: status is %d, want 200 to 599", b.Status)
	}
	if b.PollStatus != 0 && (b.PollStatus < 300 || b.PollStatus > 599) {
		return fmt.Errorf("sandbox behaviour: poll_status is %d, want 300 to 599", b.PollStatus)
	}
	if b.Drop != "" && b.Drop != DropBeforeAnswer && b.Drop != DropAfterCreate {
		return fmt.Errorf("sandbox behaviour: drop is %q, want %s or %s", b.Drop, DropBeforeAnswer, DropAfterCreate)
	}
	if _, known := shapes[b.Shape]; b.Shape != "" && !known {
		return fmt.Errorf("sandbox behaviour: shape is %q, want one of %s", b.Shape, strings.Join(slices.Sorted(maps.Keys(shapes)), ", "))
	}
	if b.Content != "" && !slices.Contains(contents, b.Content) {
		return fmt.Errorf("sandbox behaviour: content is %q, want one of %s", b.Content, strings.Join(contents, ", "))
	}
	return nil
}

// withoutFaults returns b with its faults cleared, for requests after the first Times. It keeps the
// task's script and the shape of the reply.
func (b Behaviour) withoutFaults() Behaviour {
	return Behaviour{
		ID: b.ID, Accept202: b.Accept202,
		DurationMS: b.DurationMS, Statuses: b.Statuses, Fail: b.Fail, FailCode: b.FailCode,
		PollStatus: b.PollStatus, PollCode: b.PollCode, PollFailTimes: b.PollFailTimes, PollDelayMS: b.PollDelayMS,
		Shape: b.Shape, Content: b.Content, ContentHost: b.ContentHost, ContentBytes: b.ContentBytes, GoneAfterMS: b.GoneAfterMS,
		ResultAfterMS: b.ResultAfterMS, ContentAfterMS: b.ContentAfterMS,
		Chunks: b.Chunks, ChunkIntervalMS: b.ChunkIntervalMS, Timestamps: b.Timestamps, BigChunkBytes: b.BigChunkBytes,
	}
}

func valueOf(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

// behaviourFor merges the behaviours of the model suffix, body and X-Sandbox header, in ascending
// priority. A behaviour from SetBehaviour replaces all of them.
func (s *Sandbox) behaviourFor(r *http.Request, body []byte, suffix string, inBody []byte) (Behaviour, error) {
	var b Behaviour
	if f := s.behave.Load(); f != nil {
		if set := (*f)(r, body); set != nil {
			return *set, set.validate()
		}
	}
	if err := b.applySuffix(suffix); err != nil {
		return b, err
	}
	if err := b.applyJSON(inBody); err != nil {
		return b, err
	}
	if err := b.applyJSON([]byte(r.Header.Get("X-Sandbox"))); err != nil {
		return b, err
	}
	return b, b.validate()
}

// limited returns b for the first b.Times requests with this name, and b without faults for later
// ones. It returns an error if Times is set and name is empty.
func (s *Sandbox) limited(b Behaviour, scope, name string) (Behaviour, error) {
	if b.Times == 0 {
		return b, nil
	}
	if name == "" {
		return b, errors.New("sandbox behaviour: times needs an Idempotency-Key or sandbox.id to count by")
	}
	used, ok := s.faults.claim(scope+" "+name, b.Times)
	if !ok {
		return b, errors.New("sandbox behaviour: too many names counted by times; raise MaxTasks or restart")
	}
	if used {
		return b, nil
	}
	return b.withoutFaults(), nil
}

// refuses reports whether b answers with an error and creates nothing. Some upstreams send refusals
// with status 200.
func (b Behaviour) refuses() bool {
	return b.Status >= 300 || b.Status != 0 && b.Code != ""
}

func (b Behaviour) acceptedStatus() int {
	switch {
	case b.Status != 0:
		return b.Status
	case b.Accept202:
		return http.StatusAccepted
	default:
		return http.StatusOK
	}
}

// sets reports whether b changes anything after the create.
func (b Behaviour) sets() bool {
	return cmp.Or(b.Fail, b.FailCode, b.PollCode, b.Shape, b.Content, b.ContentHost) != "" || len(b.Statuses) > 0 ||
		cmp.Or(b.PollStatus, b.PollFailTimes, b.PollDelayMS, b.ResultAfterMS, b.ContentAfterMS, b.GoneAfterMS) != 0 || b.ContentBytes != 0
}
