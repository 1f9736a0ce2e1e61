package contract

import (
	"strings"

	"github.com/genbus/genbus/internal/subject"
)

// channel is a family of subjects.
type channel struct {
	id, address, title, description string
	// stream is the stream that keeps its messages. It is empty for core NATS.
	stream string
	// action is what genbus does with messages: "send", "receive", or both.
	action string
	// messages lists the messages of the channel, and replies lists the possible replies.
	messages, replies []string
}

// Placeholders in addresses.
const (
	aKind   = subject.Kind("{kind}")
	aTenant = "{tenant}"
	aRoute  = "{route}"
	aStatus = "{status}"
	anID    = "{id}"
	aSlot   = "{slot}"

	aSequence = "{sequence}"
	anAction  = "{action}"
)

var statuses = []any{"queued", "in_progress", "completed", "failed", "cancelled"}

// parameters describes the placeholders.
var parameters = map[string]object{
	"slot":   {"description": "A number, or \"large\" for dead letters above 4 KiB. It limits the dead letters kept per tenant."},
	"kind":   {"description": "Kind of the job.", "enum": []any{"video", "chat"}},
	"tenant": {"description": "Tenant of the job: 1 to 64 characters of [A-Za-z0-9_-]."},
	"route":  {"description": "Name of the route that serves the job."},
	"status": {"description": "Terminal status of the job.", "enum": []any{"completed", "failed", "cancelled"}},
	"id":     {"description": "Job id."},

	"sequence": {"description": "Sequence of the dead letter, in decimal; 0 for an action without a valid one."},
}

// channels returns all channels. Where messages differ by kind, each kind has its own channel.
func channels(n subject.Space) []channel {
	var out []channel
	for _, k := range subject.Kinds {
		out = append(out, ofKind(n, k)...)
	}
	return append(out, []channel{
		{
			id: "chunk", address: n.Chunk(aTenant, anID), title: "Chunks of a chat", stream: n.Chunks(), action: "send",
			description: "The blocks of a streamed chat, in order, each with its attempt and index; in memory, for 15 minutes.", messages: both("ChatChunk"),
		},
		{
			id: "liveChunk", address: n.LiveChunk(aTenant, anID), title: "Live chunks", action: "send",
			description: "A copy of each chunk over core NATS. Read lost chunks from the stream.", messages: both("ChatChunk"),
		},
		{
			id: "content", address: n.Content(aTenant), title: "Content of results", action: "receive",
			description: "Several replies: pieces of the file in order, each with its position, and a last one without bytes. A reply with an error is also the last one. " +
				"One request returns at most 16 pieces of 128 KiB.",
			messages: both("ContentGet"), replies: append([]string{"ContentPiece", "ContentEnd"}, both("Refused")...),
		},
		{
			id: "models", address: n.Models(aTenant), title: "Models", action: "receive",
			description: "The reply lists the models of all routes, as JSON each ID once.", messages: both("ModelsList"), replies: append(both("Models"), both("Refused")...),
		},
		{
			id: "usage", address: n.Usage(aKind, aTenant, anID), title: "Usage", stream: n.UsageStream(), action: "send",
			description: "Usage of each ended job, for billing.", messages: both("UsageEvent"),
		},
		{
			id: "dead", address: withTenant(n.DeadLetter(aKind, "tenant", anID)), title: "Dead letters", stream: n.Dead(), action: "send",
			description: "Accepted jobs that could not be processed, complete, with the reason.", messages: []string{"DeadLetter"},
		},
		{
			id: "rejected", address: withTenant(n.RejectedDeadLetter(aKind, "tenant", aSlot)), title: "Rejected requests", stream: n.Rejected(), action: "send",
			description: "Rejected inbox messages with the reason; only the beginning of a large one. " +
				"The latest of each tenant are kept. An invalid tenant is " + subject.InvalidTenant + ".", messages: []string{"DeadLetter"},
		},
		{
			id: "auditRoute", address: n.AuditRoute(aKind, aRoute), title: "Operator actions on a route", stream: n.Ops(), action: "send",
			description: "Operator actions on the route. Only genbus writes it.", messages: []string{"AuditRecord"},
		},
		{
			id: "auditJob", address: n.AuditJob(aKind, aTenant, anID), title: "Operator actions on a job", stream: n.Ops(), action: "send",
			description: "Operator actions on the job. Only genbus writes it.", messages: []string{"AuditRecord"},
		},
		{
			id: "auditLetter", address: n.AuditDeadLetter(aSequence), title: "Operator actions on a dead letter", stream: n.Ops(), action: "send",
			description: "Operator actions on the dead letter, by its sequence. Only genbus writes it.", messages: []string{"AuditRecord"},
		},
		{
			id: "auditBulk", address: n.AuditBulk(anAction), title: "Bulk actions", stream: n.Ops(), action: "send",
			description: "A bulk action that an operator ran, such as CancelJobs, with its filter and counts. Only genbus writes it.", messages: []string{"AuditRecord"},
		},
		{
			id: "work", address: n.WorkItem(aKind, aRoute, aTenant, anID), title: "Work", stream: n.Work(), action: "send receive",
			description: "Accepted, unfinished jobs. Only genbus writes and reads it.", messages: []string{"WorkItem"},
		},
		{
			id: "wait", address: n.WaitItem(aKind, aRoute, aTenant, anID), title: "Waiting work", stream: n.Wait(), action: "send receive",
			description: "Accepted jobs waiting for their turn. Only genbus writes and reads it.", messages: []string{"WorkItem"},
		},
	}...)
}

// withTenant inserts the tenant placeholder, because the builders of dead letter subjects accept
// only legal tenants.
func withTenant(address string) string {
	return strings.Replace(address, ".tenant.", "."+aTenant+".", 1)
}

// both returns the names of a message in both encodings. The setting events.encoding selects one.
func both(message string) []string { return []string{message, message + "JSON"} }

func ofKind(n subject.Space, k subject.Kind) []channel {
	request, reply, event := "VideoRequest", "VideoAccepted", "VideoTaskEvent"
	noun := "Video" // begins the names of messages
	called := " Without another request ID, the header Nats-Msg-Id is the request ID."
	if k == subject.Chat {
		called = ""
		request, reply, event, noun = "ChatRequest", "ChatAccepted", "ChatEvent", "Chat"
	}
	kind := string(k)
	return []channel{
		{
			id: kind + "Request", address: n.Request(k, aTenant), title: "Inbox for " + kind + "s", stream: n.Requests(), action: "receive",
			description: "Publish with JetStream: the PubAck confirms that the request is stored for admission; the queued event confirms its acceptance. An invalid request becomes a dead letter.",
			messages:    both(request),
		},
		{
			id: kind + "Call", address: n.Call(k, aTenant), title: "Request-reply for " + kind + "s", action: "receive",
			description: "The reply is the accepted job or the error, in the encoding of the request." + called,
			messages:    both(request), replies: append(both(reply), both("Refused")...),
		},
		{
			id: kind + "Get", address: n.Get(k, aTenant), title: "Reading a " + kind, action: "receive",
			description: "The reply is the current state of the job or the error, in the encoding of the request. A reply of a chat that may not fit into a message is only referenced.",
			messages:    both(noun + "Get"), replies: append(both(noun+"State"), both("Refused")...),
		},
		{
			id: kind + "List", address: n.List(k, aTenant), title: "List of " + kind + "s", action: "receive",
			description: "The reply is a page of the tenant's jobs, newest first, chats without their replies. As JSON, status may also be a word such as completed. " +
				"A page that may not fit into a message is shorter.",
			messages: both(noun + "List"), replies: append(both(noun+"Page"), both("Refused")...),
		},
		{
			id: kind + "Cancel", address: n.Cancel(k, aTenant), title: "Cancelling a " + kind, action: "receive",
			description: "The reply is the job after the cancel. An ended job is unchanged.",
			messages:    both(noun + "Cancel"), replies: append([]string{noun + "Cancelled", noun + "StateJSON"}, both("Refused")...),
		},
		{
			id: kind + "Task", address: n.Task(k, aTenant, anID), title: "Log of a " + kind, stream: n.Tasks(), action: "send",
			description: "Every event of the job, in order. The last one is its state; together they are its history.", messages: both(event),
		},
		{
			id: kind + "Done", address: n.Done(k, aTenant, aStatus, anID), title: "Feed of finished " + kind + "s", stream: n.Tasks(), action: "send",
			description: "A copy of each finished job's terminal event, with the same ce-id.", messages: both(event),
		},
		{
			id: kind + "Live", address: n.LiveTask(k, aTenant, anID), title: "Events of " + kind + "s, live", action: "send",
			description: "A copy of each event over core NATS, just after it was stored. Read lost events from the log.", messages: both(event),
		},
	}
}
