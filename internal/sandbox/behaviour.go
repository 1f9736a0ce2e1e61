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

// Limits of what a Behaviour may ask for.
const (
	maxWait     = 10 * time.Minute
	maxChunks   = 1_000_000
	maxBigChunk = 64 << 20
	maxStatuses = 100
	maxDuration = 7 * 24 * 3600 * 1000 // milliseconds
	maxContent  = 1 << 40
)

// The values of Behaviour.Drop.
const (
	// DropBeforeAnswer resets the connection; nothing is created.
	DropBeforeAnswer = "before_answer"
	// DropAfterCreate creates and counts the task, then resets the connection.
	DropAfterCreate = "after_create"
)

// Behaviour is what a request asks of the sandbox. The zero value is good
// behaviour. Fields marked "fault" obey Times.
type Behaviour struct {
	// ID names the request for Times where it has no Idempotency-Key. A chat
	// request that has both is counted by ID.
	ID string `json:"id,omitzero"`
	// Times limits the faults to the first N requests of one key or ID; 0 means
	// every request.
	Times int `json:"times,omitzero"`

	// DelayMS delays the answer, in milliseconds. A create is counted and
	// accepted before the delay. Fault.
	DelayMS int `json:"delay_ms,omitzero"`
	// Status answers this HTTP status. 300 and above, or any with Code: an error
	// (a 3xx points to the same URL) and nothing is created. 2xx alone: the status
	// of a good create answer. Fault.
	Status int `json:"status,omitzero"`
	// RetryAfter is the Retry-After header with Status. Fault.
	RetryAfter string `json:"retry_after,omitzero"`
	// Code and Message replace the text of the error with Status; a vendor's
	// code is sent as a number where it is one. Fault.
	Code    string `json:"code,omitzero"`
	Message string `json:"message,omitzero"`
	// Drop is DropBeforeAnswer or DropAfterCreate. Fault.
	Drop string `json:"drop,omitzero"`
	// Hang never answers, until the client leaves or ten minutes have passed. A
	// create is accepted first, unless Status refuses it. Fault.
	Hang bool `json:"hang,omitzero"`
	// NoID leaves the ids out of a create answer. Fault.
	NoID bool `json:"no_id,omitzero"`
	// Accept202 answers a create with 202; on the primary path with the id, the
	// status and the URL to poll alone.
	Accept202 bool `json:"accept_202,omitzero"`

	// DurationMS replaces Options.VideoDuration, in milliseconds.
	DurationMS *int `json:"duration_ms,omitzero"`
	// Statuses are the words that the task goes through, evenly spread; the last
	// applies from the task's duration on. Video addresses and errors appear with
	// the words that mean completed and failed.
	Statuses []string `json:"statuses,omitzero"`
	// Fail ends the task as failed with this message.
	Fail string `json:"fail,omitzero"`
	// FailCode is the code of a failed task; a number is sent as a number.
	// Default "generation_failed"; 50413 on Jimeng's path.
	FailCode string `json:"fail_code,omitzero"`
	// PollStatus answers polls with this HTTP status; default 500 when another
	// poll fault is set without it.
	PollStatus int `json:"poll_status,omitzero"`
	// PollCode is the error code with PollStatus.
	PollCode string `json:"poll_code,omitzero"`
	// PollFailTimes limits PollStatus to the first N polls; 0 means every poll.
	PollFailTimes int `json:"poll_fail_times,omitzero"`
	// PollDelayMS delays every poll's answer, in milliseconds.
	PollDelayMS int `json:"poll_delay_ms,omitzero"`
	// Shape names another shape of the answers to polls of the primary path.
	Shape string `json:"shape,omitzero"`

	// Content is how the file of a completed task is answered: one of the
	// Content constants. Default: well.
	Content string `json:"content,omitzero"`
	// ContentHost is where ContentRedirect and ContentJSON point to, such as
	// "127.0.0.1:9000" or "http://cdn.example". Default: the same host.
	ContentHost string `json:"content_host,omitzero"`
	// ContentBytes makes the file this long: the clip and then zeros.
	ContentBytes int64 `json:"content_bytes,omitzero"`
	// GoneAfterMS ends the file with 404 this long after the task has completed,
	// in milliseconds; 0 means never.
	GoneAfterMS int `json:"gone_after_ms,omitzero"`

	// Chunks is the number of content chunks; 0 means Options.ChunkCount.
	Chunks int `json:"chunks,omitzero"`
	// ChunkIntervalMS replaces the time between chunks, and between the pieces of
	// a slow file, in milliseconds; 0 means no pacing.
	ChunkIntervalMS *int `json:"chunk_interval_ms,omitzero"`
	// Timestamps makes the text of each streamed chunk the time of its writing,
	// in Unix nanoseconds, and a space. The chunk of BigChunkBytes follows
	// its time.
	Timestamps bool `json:"timestamps,omitzero"`
	// BigChunkBytes makes the first content chunk this long.
	BigChunkBytes int `json:"big_chunk_bytes,omitzero"`

	// DropAfterChunks resets a stream after N content chunks. Fault.
	DropAfterChunks int `json:"drop_after_chunks,omitzero"`
	// ErrorAfterChunks sends an error event after N content chunks and ends the
	// stream without [DONE]. Fault.
	ErrorAfterChunks int `json:"error_after_chunks,omitzero"`
	// NoDone leaves out "data: [DONE]". Fault.
	NoDone bool `json:"no_done,omitzero"`
	// NoFinish leaves out the chunk with finish_reason. Fault.
	NoFinish bool `json:"no_finish,omitzero"`
	// JSONForStream answers a stream request with one JSON body. Fault.
	JSONForStream bool `json:"json_for_stream,omitzero"`
	// Comments puts comment lines before each chunk. Fault.
	Comments bool `json:"comments,omitzero"`
	// BOM starts the stream with a byte order mark. Fault.
	BOM bool `json:"bom,omitzero"`
	// CRLF ends the lines of the stream with CR LF. Fault.
	CRLF bool `json:"crlf,omitzero"`
	// NoLastBlank ends the stream without the last blank line. Fault.
	NoLastBlank bool `json:"no_last_blank,omitzero"`
	// NullError puts "error":null into each chunk. Fault.
	NullError bool `json:"null_error,omitzero"`
}

// stringFields are the fields whose value in a model suffix is always text.
var stringFields = map[string]bool{
	"id": true, "retry_after": true, "code": true, "message": true,
	"drop": true, "fail": true, "fail_code": true, "poll_code": true,
	"shape": true, "content": true, "content_host": true,
}

// splitModel parts "sandbox-video:status=429,times=2" into the model and its
// suffix.
func splitModel(model string) (base, suffix string) {
	base, suffix, _ = strings.Cut(model, ":")
	return base, suffix
}

// applySuffix sets the fields that a model suffix names.
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

// applyJSON sets the fields that raw names and leaves the others.
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

// withoutFaults is b after its Times are used up: the script of the task and
// the shape of the reply stay.
func (b Behaviour) withoutFaults() Behaviour {
	return Behaviour{
		ID: b.ID, Accept202: b.Accept202,
		DurationMS: b.DurationMS, Statuses: b.Statuses, Fail: b.Fail, FailCode: b.FailCode,
		PollStatus: b.PollStatus, PollCode: b.PollCode, PollFailTimes: b.PollFailTimes, PollDelayMS: b.PollDelayMS,
		Shape: b.Shape, Content: b.Content, ContentHost: b.ContentHost, ContentBytes: b.ContentBytes, GoneAfterMS: b.GoneAfterMS,
		Chunks: b.Chunks, ChunkIntervalMS: b.ChunkIntervalMS, Timestamps: b.Timestamps, BigChunkBytes: b.BigChunkBytes,
	}
}

func valueOf(p *int) int {
	if p == nil {
		return 0
	}
	return *p
}

// behaviourFor gathers what a request asks for: suffix, then body, then header;
// or what SetBehaviour's function says.
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

// limited applies b.Times under name: the behaviour of this request. Without a
// name to count under, Times cannot be obeyed and is an error.
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

// refuses says whether b answers an error and creates nothing. Some upstreams
// refuse with status 200.
func (b Behaviour) refuses() bool {
	return b.Status >= 300 || b.Status != 0 && b.Code != ""
}

// acceptedStatus is the status of a good answer to a create.
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

// sets says whether b asks for anything of a task's later life.
func (b Behaviour) sets() bool {
	return cmp.Or(b.Fail, b.FailCode, b.PollCode, b.Shape, b.Content, b.ContentHost) != "" || len(b.Statuses) > 0 ||
		cmp.Or(b.PollStatus, b.PollFailTimes, b.PollDelayMS, b.GoneAfterMS) != 0 || b.ContentBytes != 0
}
