package faultinject

import "slices"

// Op is the kind of a request to the upstream.
type Op string

// The requests that can meet a fault.
const (
	OpCreate Op = "create" // a video create, in any protocol
	OpPoll   Op = "poll"   // a read of a video task, in any protocol
	OpChat   Op = "chat"   // a chat completion
)

// Fault is what an Upstream does to a request.
type Fault string

// The faults. Where "accepted" is said of one, the work was taken on and is paid
// for: a create has made its task, a chat has run to its end.
const (
	// None is good behaviour.
	None Fault = ""
	// Latency answers well, but late by up to Timing.Latency.
	Latency Fault = "latency"
	// Drip answers well, in pieces of a few bytes with Timing.Drip between them.
	Drip Fault = "drip"

	// TooMany answers 429, TooManyLater with Retry-After: 1. Nothing is accepted.
	TooMany      Fault = "429"
	TooManyLater Fault = "429_retry_after"
	// BadGateway and Unavailable answer 502 and 503. Nothing is accepted, which the
	// caller cannot know.
	BadGateway  Fault = "502"
	Unavailable Fault = "503"
	// InternalAfter answers 500. Accepted.
	InternalAfter Fault = "500_accepted"
	// Redirect answers 307 with another path of this upstream, below movedPath. A
	// request that arrives there is counted like every other and served well.
	Redirect Fault = "redirect"

	// ResetBefore resets the connection with the headers read and the body unread, of which
	// something has arrived.
	ResetBefore Fault = "reset_before"
	// ResetDuring resets it with half of the body read.
	ResetDuring Fault = "reset_during"
	// ResetAccepted resets it instead of an answer. Accepted.
	ResetAccepted Fault = "reset_accepted"
	// CutAnswer resets it in the middle of the answer; of a stream, after some
	// events. Accepted.
	CutAnswer Fault = "cut_answer"

	// HTML answers 200 with a page, TruncatedJSON with the start of the good answer
	// (its Content-Length fits), Binary with random bytes, GzipBomb with 256 MiB of
	// spaces behind Content-Encoding: gzip. Accepted.
	HTML          Fault = "html"
	TruncatedJSON Fault = "truncated_json"
	Binary        Fault = "binary"
	GzipBomb      Fault = "gzip_bomb"

	// TaskNeverEnds, TaskLate, TaskBackwards and TaskFails answer a create well and
	// make a task that runs for a week; that completes Timing.Late after the create;
	// whose words go from running to waiting to running to completed; that fails.
	TaskNeverEnds Fault = "task_never_ends"
	TaskLate      Fault = "task_late"
	TaskBackwards Fault = "task_backwards"
	TaskFails     Fault = "task_fails"

	// NotFound, PollErrors and PollGarbage answer some polls of a task in a row with
	// 404, with 5xx, and with what is no answer.
	NotFound    Fault = "404"
	PollErrors  Fault = "poll_errors"
	PollGarbage Fault = "poll_garbage"

	// StreamStall stops a chat's answer in its middle and leaves the connection
	// open, OversizedLine makes one line of it 48 MiB long.
	StreamStall   Fault = "stream_stall"
	OversizedLine Fault = "oversized_line"
)

// answerFaults can meet every op.
var answerFaults = []Fault{
	Latency, Drip, TooMany, TooManyLater, BadGateway, Unavailable, InternalAfter, Redirect,
	ResetBefore, ResetDuring, ResetAccepted, CutAnswer, HTML, TruncatedJSON, Binary, GzipBomb,
}

var opFaults = map[Op][]Fault{
	OpCreate: slices.Concat(answerFaults, []Fault{TaskNeverEnds, TaskLate, TaskBackwards, TaskFails}),
	OpPoll:   slices.Concat(answerFaults, outages),
	OpChat:   slices.Concat(answerFaults, []Fault{StreamStall, OversizedLine}),
}

// outages meet outageLength polls of a task in a row.
var outages = []Fault{NotFound, PollErrors, PollGarbage}

const outageLength = 5

// FaultsOf lists the faults that op can meet, always in the same order.
func FaultsOf(op Op) []Fault { return slices.Clone(opFaults[op]) }
