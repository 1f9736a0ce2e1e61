package faultinject

import "slices"

// Op is the kind of a request to the upstream.
type Op string

// The kinds of requests that can have a fault.
const (
	OpCreate Op = "create" // video create, in any protocol
	OpPoll   Op = "poll"   // read of a video task, in any protocol
	OpChat   Op = "chat"   // chat completion
)

// Fault is what an Upstream does to a request.
type Fault string

// The faults. "Accepted" means that the work was accepted and is paid for. A create has created its
// task, and a chat has run to its end.
const (
	// None answers without a fault.
	None Fault = ""
	// Latency answers correctly, but up to Timing.Latency late.
	Latency Fault = "latency"
	// Drip answers correctly, in pieces of a few bytes with Timing.Drip between them.
	Drip Fault = "drip"

	// TooMany answers 429. TooManyLater also sends Retry-After: 1. Not accepted.
	TooMany      Fault = "429"
	TooManyLater Fault = "429_retry_after"
	// BadGateway answers 502, and Unavailable answers 503. Not accepted, but the caller cannot know
	// this.
	BadGateway  Fault = "502"
	Unavailable Fault = "503"
	// InternalAfter answers 500. Accepted.
	InternalAfter Fault = "500_accepted"
	// Redirect answers 307 with another path of this upstream, below movedPath. A request to that
	// path is counted like any other and answered without a fault.
	Redirect Fault = "redirect"

	// ResetBefore resets the connection when the headers have been read and the body has begun to
	// arrive but has not been read.
	ResetBefore Fault = "reset_before"
	// ResetDuring resets the connection when half of the body has been read.
	ResetDuring Fault = "reset_during"
	// ResetAccepted resets the connection instead of answering. Accepted.
	ResetAccepted Fault = "reset_accepted"
	// CutAnswer resets the connection in the middle of the answer, or after some events of a
	// stream. Accepted.
	CutAnswer Fault = "cut_answer"

	// HTML answers 200 with a page, TruncatedJSON with the beginning of the correct answer and a
	// matching Content-Length, Binary with random bytes, and GzipBomb with 256 MiB of spaces
	// encoded with Content-Encoding: gzip. Accepted.
	HTML          Fault = "html"
	TruncatedJSON Fault = "truncated_json"
	Binary        Fault = "binary"
	GzipBomb      Fault = "gzip_bomb"

	// NestedID answers a create correctly, one level down: {"result":{"id":..}}.
	NestedID Fault = "nested_id"

	// TaskNeverEnds, TaskLate, TaskBackwards, TaskFails, TaskRefused and TaskResultLate answer a
	// create correctly. The task of TaskNeverEnds runs for a week. That of TaskLate completes
	// Timing.Late after the create. That of TaskBackwards reports running, waiting, running and
	// completed. That of TaskFails fails. Polls of the task of TaskRefused answer 400 with the code
	// moderation_blocked. That of TaskResultLate has its result a second after it has completed.
	TaskNeverEnds  Fault = "task_never_ends"
	TaskLate       Fault = "task_late"
	TaskBackwards  Fault = "task_backwards"
	TaskFails      Fault = "task_fails"
	TaskRefused    Fault = "task_refused"
	TaskResultLate Fault = "task_result_late"

	// NotFound, PollErrors and PollGarbage answer several consecutive polls of a task with 404,
	// with 5xx, or with invalid answers.
	NotFound    Fault = "404"
	PollErrors  Fault = "poll_errors"
	PollGarbage Fault = "poll_garbage"

	// StreamStall stops a chat's answer in the middle and keeps the connection open. OversizedLine
	// makes one line of the answer 48 MiB long.
	StreamStall   Fault = "stream_stall"
	OversizedLine Fault = "oversized_line"
	// OddEvents answers a chat correctly. After each event of a stream it sends others that are no
	// JSON objects, also after the last.
	OddEvents Fault = "odd_events"
	// NoChoice answers a chat with 200 and an empty list of choices. Accepted.
	NoChoice Fault = "no_choice"
)

// answerFaults apply to every op.
var answerFaults = []Fault{
	Latency, Drip, TooMany, TooManyLater, BadGateway, Unavailable, InternalAfter, Redirect,
	ResetBefore, ResetDuring, ResetAccepted, CutAnswer, HTML, TruncatedJSON, Binary, GzipBomb,
}

var opFaults = map[Op][]Fault{
	OpCreate: slices.Concat(answerFaults, []Fault{NestedID, TaskNeverEnds, TaskLate, TaskBackwards, TaskFails, TaskRefused, TaskResultLate}),
	OpPoll:   slices.Concat(answerFaults, outages),
	OpChat:   slices.Concat(answerFaults, []Fault{StreamStall, OversizedLine, OddEvents, NoChoice}),
}

// outages affect outageLength consecutive polls of a task.
var outages = []Fault{NotFound, PollErrors, PollGarbage}

const outageLength = 5

// FaultsOf lists the faults that apply to op, always in the same order.
func FaultsOf(op Op) []Fault { return slices.Clone(opFaults[op]) }
