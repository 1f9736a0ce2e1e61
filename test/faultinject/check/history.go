package check

import (
	"slices"
	"time"
)

// History is everything known about a run. All times are from one machine.
type History struct {
	Config Config `json:"config"`
	// Calls holds the clients' requests and answers. The entries of one client are in the order of
	// its requests.
	Calls []Call `json:"told"`
	// Followed holds the observations of each follower.
	Followed []Followed `json:"followed"`
	// Lists holds the requested pages of video tasks. Final holds the whole list of each replica
	// after all faults have been healed.
	Lists []Listed `json:"lists,omitempty"`
	Final []Listed `json:"final,omitempty"`
	// Events is the task log and FeedCopies is the feed of finished jobs, both in stream order.
	Events     []Event `json:"events"`
	FeedCopies []Event `json:"feed_copies"`
	// DeadLetters holds the dead letters. Chunks holds the chunks that are still stored.
	DeadLetters []DeadLetter `json:"letters"`
	Chunks      []Chunk      `json:"chunks"`
	// Unreadable describes the stored messages that could not be read.
	Unreadable []string `json:"unreadable,omitempty"`
	// Posts holds the POSTs on the wire at the upstreams in order of arrival. Paid holds the video
	// tasks that they created.
	Posts []Post `json:"posts"`
	Paid  []Paid `json:"paid"`
	// Faults holds the faults of processes, nodes and links in the order in which they began.
	Faults []Fault `json:"faults"`
	// Usage lists the jobs in the usage stream, in order.
	Usage []string `json:"usage,omitempty"`
	// Began is when all replicas were first ready. Finished is when the streams were read.
	Began    time.Time `json:"began,omitzero"`
	Finished time.Time `json:"finished"`
}

// Config is the relevant configuration of the service.
type Config struct {
	// Create is the longest create timeout of the routes. Answer is how long after submit_until the
	// answer to a create may still arrive.
	Create time.Duration `json:"create"`
	Answer time.Duration `json:"answer"`
	// ChatAttempts is chat.max_attempts.
	ChatAttempts int `json:"chat_attempts"`
	// Resubmit names the routes with on_unknown_outcome: resubmit.
	Resubmit map[string]bool `json:"resubmit"`
	// Grace is how long after its deadline a job may end if no fault delayed it. It is also how
	// long after a job's end a follower may see the end.
	Grace time.Duration `json:"grace"`
	// Skew is the largest difference between two clock readings of the same moment.
	Skew time.Duration `json:"skew"`
	// ChunkAge is how long the broker keeps chunks.
	ChunkAge time.Duration `json:"chunk_age"`
}

// Op is the kind of a client's request.
type Op string

// The kinds of requests.
const (
	// OpPublish puts a request into the inbox. It succeeds once the request is stored there.
	OpPublish Op = "publish"
	// OpCreate creates a job and returns when it is accepted.
	OpCreate Op = "create"
	// OpChat runs a chat with a request_id and waits for its reply.
	OpChat Op = "chat"
	// OpInline runs a chat on the caller's connection.
	OpInline Op = "inline"
	OpGet    Op = "get"
	OpCancel Op = "cancel"
	// OpPeek accesses a job of another tenant, which must not be found.
	OpPeek Op = "peek"
)

// Call is one request of a client and its answer.
type Call struct {
	Asked time.Time `json:"asked"`
	Time  time.Time `json:"time"`
	// AnswerBegan is when a long answer began, even if it broke off later. If it is zero, the
	// answer began at Time or there was none.
	AnswerBegan time.Time `json:"heard,omitzero"`
	// Client makes one request at a time. Series identifies one wish of the client, with all
	// retries until it was granted or abandoned.
	Client string `json:"client"`
	Series string `json:"series"`
	Op     Op     `json:"op"`
	// Tenant is the tenant of the request.
	Tenant string `json:"tenant,omitzero"`
	// Ingress is inbox, call, grpc or http.
	Ingress string `json:"way"`
	// Target is the replica that received the request, if the client chose one.
	Target string `json:"target,omitzero"`
	// Key is the request_id, Marker is the marker in the prompt, and Body is a fingerprint of the
	// body. They are set only for creates and chats.
	Key    string `json:"key,omitzero"`
	Marker string `json:"marker,omitzero"`
	Body   string `json:"body,omitzero"`
	// Input is the longest word of the body, in the form of brief.Longest. It is empty if the word
	// is short.
	Input string `json:"input,omitzero"`
	// Job, Status (a word) and Version are from the answer if it contains them.
	Job     string `json:"job,omitzero"`
	Status  string `json:"status,omitzero"`
	Version uint64 `json:"version,omitzero"`
	// Code is the code of an error answer. HTTP is its status, if any.
	Code string `json:"code,omitzero"`
	HTTP int    `json:"http,omitzero"`
	// Lost is the reason for a missing answer, or empty. NotSent is true if the request cannot have
	// arrived.
	Lost    string `json:"lost,omitzero"`
	NotSent bool   `json:"not_sent,omitzero"`
	// Text is the content of a whole chat reply, in the form of brief.Of. Whole reports whether
	// there was one.
	Text  string `json:"text,omitzero"`
	Whole bool   `json:"whole,omitzero"`
}

// Good reports whether the request succeeded.
func (t Call) Good() bool { return t.Lost == "" && t.Code == "" }

// passing lists the codes after which the same request may succeed later.
var passing = []string{
	"queue_full", "storage_full", "broker_unavailable", "shutting_down", "still_held", "rate_limited", "tenant_full", "route_paused", "clock_wrong",
	"index_catching_up",
}

// Passing reports whether the same request may succeed later.
func (t Call) Passing() bool { return slices.Contains(passing, t.Code) }

// Followed is the history of one follower over all its connections.
type Followed struct {
	Client  string `json:"client"`
	Ingress string `json:"way"`
	Job     string `json:"job"`
	// Items lists what the follower saw, in order.
	Items []Item `json:"items"`
	// Connections counts the follower's connections. Ended is true if the last one ended as a watch
	// does after the terminal event.
	Connections int  `json:"connections"`
	Ended       bool `json:"ended"`
	// FinishedAt is when the follower gave up or finished.
	FinishedAt time.Time `json:"left"`
}

// Item is something that a follower saw. It is an event (Version is not 0), a chunk, a gap, or the
// notice that the position to resume from is gone.
type Item struct {
	// ID is the event ID.
	ID      string   `json:"id,omitzero"`
	Version uint64   `json:"version,omitzero"`
	Status  string   `json:"status,omitzero"`
	Attempt uint32   `json:"attempt,omitzero"`
	Index   uint64   `json:"index,omitzero"`
	Blocks  []string `json:"blocks,omitempty"`
	Gap     bool     `json:"gap,omitzero"`
	Expired bool     `json:"expired,omitzero"`
}

// Listed is one request for a tenant's video tasks, newest first, and its answer.
type Listed struct {
	Asked  time.Time `json:"asked"`
	Time   time.Time `json:"time"`
	Tenant string    `json:"tenant,omitzero"`
	// Ingress is grpc or http. A whole list uses both.
	Ingress string `json:"way,omitzero"`
	Target  string `json:"target"`
	// Paged is true if a page token was sent, so this is not the first page.
	Paged bool `json:"paged,omitzero"`
	// Jobs are the job IDs of one page, or of all pages of a whole list.
	Jobs []string `json:"jobs,omitempty"`
	// Code, HTTP and Lost are as in Call. In a whole list, they are from the answer after which the
	// client gave up.
	Code string `json:"code,omitzero"`
	HTTP int    `json:"http,omitzero"`
	Lost string `json:"lost,omitzero"`
}

// Good reports whether the list was received.
func (l Listed) Good() bool { return l.Lost == "" && l.Code == "" }

// Event is an event of the log or a feed copy.
type Event struct {
	Seq    uint64    `json:"seq"`
	Stored time.Time `json:"stored"`
	// ID is the ce-id. Sum is the SHA-256 of the payload in hexadecimal.
	ID  string `json:"id"`
	Sum string `json:"sum"`

	Job      string    `json:"job"`
	Tenant   string    `json:"tenant,omitzero"`
	Version  uint64    `json:"version"`
	Status   string    `json:"status"`
	Previous string    `json:"previous,omitzero"`
	Phase    string    `json:"phase"`
	Time     time.Time `json:"time"`
	Created  time.Time `json:"created,omitzero"` // of the job
	Writer   string    `json:"writer"`
	Route    string    `json:"route,omitzero"`
	Key      string    `json:"key,omitzero"`
	Marker   string    `json:"marker,omitzero"`
	Inline   bool      `json:"inline,omitzero"`
	Stream   bool      `json:"stream,omitzero"`

	Attempt       uint32    `json:"attempt,omitzero"`
	SubmitUntil   time.Time `json:"submit_until,omitzero"`
	FirstSubmit   time.Time `json:"first_submit,omitzero"`
	QueueDeadline time.Time `json:"queue_deadline,omitzero"`
	Deadline      time.Time `json:"deadline,omitzero"`
	ExpiresAt     time.Time `json:"expires_at,omitzero"`
	UpstreamID    string    `json:"upstream_id,omitzero"`
	// Code is the error code.
	Code string `json:"code,omitzero"`
	// ChunkCount is from the event. Text is the content of the reply that the event contains or
	// names, in the form of brief.Of.
	ChunkCount uint64 `json:"chunk_count,omitzero"`
	Text       string `json:"text,omitzero"`
	Replied    bool   `json:"replied,omitzero"`
	// Reply is the object of a large reply. Files are the objects of archived videos and their
	// metadata. Archived counts the videos that have a copy.
	Reply    *Object  `json:"reply,omitempty"`
	Files    []Object `json:"files,omitempty"`
	Archived int      `json:"archived,omitzero"`
}

// Object is a body in the object store that a message names.
type Object struct {
	Bucket string `json:"bucket"`
	Name   string `json:"name"`
	Size   uint64 `json:"size"`
	// Sum is the SHA-256 in the message, in hexadecimal.
	Sum string `json:"sum"`
	// Lost is the reason why the object could not be read as named, or empty.
	Lost string `json:"lost,omitzero"`
	// Torn is true if the object exists but its chunks do not match its digest.
	Torn bool `json:"torn,omitzero"`
}

// DeadLetter is a dead letter.
type DeadLetter struct {
	Seq        uint64 `json:"seq"`
	Job        string `json:"job,omitzero"`
	Code       string `json:"code"`
	Marker     string `json:"marker,omitzero"`
	UpstreamID string `json:"upstream_id,omitzero"`
	// Data is the object with the request, if the dead letter names one. Input is the longest word
	// of the request, in the form of brief.Longest. It is empty if the word is short.
	Data  *Object `json:"data,omitempty"`
	Input string  `json:"input,omitzero"`
	// Upload is the object named by the message in the dead letter.
	Upload *Object `json:"upload,omitempty"`
}

// Chunk is one stored chunk. Blocks are the upstream's JSON, in the form of brief.Of.
type Chunk struct {
	Seq     uint64   `json:"seq"`
	Job     string   `json:"job"`
	Attempt uint32   `json:"attempt"`
	Index   uint64   `json:"index"`
	Blocks  []string `json:"blocks"`
	// Block is the object with the only block, if the chunk names one.
	Block *Object `json:"block,omitempty"`
}

// Post is one POST whose request line and headers arrived.
type Post struct {
	Time  time.Time `json:"time"`
	Ended time.Time `json:"ended,omitzero"`
	// Replica is the sender.
	Replica string `json:"replica,omitzero"`
	// Video distinguishes a create from a chat. Key is the Idempotency-Key, which is the job ID.
	Video  bool   `json:"video"`
	Path   string `json:"path"`
	Key    string `json:"key"`
	Marker string `json:"marker,omitzero"`
	Fault  string `json:"fault,omitzero"`
	// Bodiless is true if none of the body arrived, so nothing was requested.
	Bodiless bool `json:"bodiless,omitzero"`
	// Status is the status sent, or 0 if none was.
	Status int `json:"status"`
	// TaskID is the upstream's ID. Accepted is true if a task was created or the model ran.
	// Answered is true if the whole correct answer was delivered.
	TaskID   string `json:"task_id,omitzero"`
	Accepted bool   `json:"accepted"`
	Answered bool   `json:"answered"`
	// Spoiled is true if the fault kept the correct answer from the sender by cutting or replacing
	// it.
	Spoiled bool `json:"spoiled,omitzero"`
	// Text is the text that the model generated, in the form of brief.Of.
	Text string `json:"text,omitzero"`
	// Input is the longest word of a complete body, in the form of brief.Longest. It is empty if
	// the word is short.
	Input string `json:"input,omitzero"`
}

// Paid is a video task at an upstream.
type Paid struct {
	ID     string    `json:"id"`
	Key    string    `json:"key"`
	Marker string    `json:"marker,omitzero"`
	Time   time.Time `json:"time"`
}

// FaultKind is the kind of a fault that affects a process, a node or a link.
type FaultKind string

// The kinds of faults.
const (
	// FaultKill is SIGKILL of a replica. To is when it is ready again.
	FaultKill FaultKind = "kill"
	// FaultTerminate is SIGTERM of a replica, followed by a clean stop and start.
	FaultTerminate FaultKind = "terminate"
	// FaultStop is SIGSTOP of a replica until To.
	FaultStop FaultKind = "stop"
	// FaultNodeKill is SIGKILL of a broker node. To is when it is current again.
	FaultNodeKill FaultKind = "node-kill"
	// FaultNodeStop is SIGSTOP of a broker node until To.
	FaultNodeStop FaultKind = "node-stop"
	// FaultIsolate isolates a node from the others until To.
	FaultIsolate FaultKind = "isolate"
	// FaultCutReplica makes a replica's connections to the broker hang until To.
	FaultCutReplica FaultKind = "cut-replica"
	// FaultHold keeps the broker's messages from a replica until To. The replica's messages still
	// reach the broker.
	FaultHold FaultKind = "hold"
	// FaultCut resets the clients' connections to a node until To.
	FaultCut FaultKind = "cut"
	// FaultPause means that an operator paused a route until To.
	FaultPause FaultKind = "pause"
	// FaultForeignAck is a series of acknowledgements by a client that is not the holder. They
	// cause redeliveries.
	FaultForeignAck FaultKind = "foreign-ack"
	// FaultBurst means that clients requested many jobs at once.
	FaultBurst FaultKind = "burst"
	// FaultGarbage means that a tenant published large invalid messages.
	FaultGarbage FaultKind = "garbage"
	// FaultFill means that jobs were accepted without being run until the log was full.
	FaultFill FaultKind = "fill"
	// FaultDelete is the deletion of a stream or a durable. To is when it exists again.
	FaultDelete FaultKind = "delete"
	// FaultRoute removes a route from the configuration until To.
	FaultRoute FaultKind = "route"
	// FaultClock means that a replica's clock was ahead by By until To.
	FaultClock FaultKind = "clock"
	// FaultStall is not injected. The harness got no processor time, and probably no other process
	// on its machine did. Target is empty.
	FaultStall FaultKind = "stall"
	// FaultDisk means that the disk of the embedded broker was full. To is when jobs were accepted
	// again.
	FaultDisk FaultKind = "full-disk"
	// FaultMix means that the upstreams changed their mix of faults.
	FaultMix FaultKind = "mix"
)

// Fault is one fault of a run.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Target is the name of the replica or node.
	Target string    `json:"target"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	// Broker is true if the broker was unavailable, at least for one client. Wipes is true if the
	// broker's memory was lost.
	Broker bool `json:"broker,omitzero"`
	Wipes  bool `json:"wipes,omitzero"`
	// By is how far the clock of FaultClock was ahead.
	By time.Duration `json:"by,omitzero"`
	// At is the message at which a fault of a replica was aimed, or empty.
	At string `json:"at,omitzero"`
	// Loses is the data that the fault deleted for good.
	Loses Loss `json:"loses,omitzero"`
}

// Loss is the kind of data that a fault deletes for good.
type Loss string

// The kinds of losses.
const (
	// LosesRequests is the loss of the requests in the inbox.
	LosesRequests Loss = "requests"
	// LosesItems is the loss of the work items of accepted jobs. No replica can run those jobs
	// afterwards.
	LosesItems Loss = "items"
	// LosesLog is the loss of job events. No step of the soak causes it.
	LosesLog Loss = "log"
)
