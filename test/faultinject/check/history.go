package check

import (
	"slices"
	"time"
)

// History is everything that is known of a run. Times are of one machine.
type History struct {
	Config Config `json:"config"`
	// Told is what clients asked and heard; one client's entries stand in the
	// order of their asking.
	Told []Told `json:"told"`
	// Followed is what each follower saw.
	Followed []Followed `json:"followed"`
	// Lists are the pages of video tasks that were asked for, and Final the whole lists that
	// each replica gave after everything had healed.
	Lists []Listed `json:"lists,omitempty"`
	Final []Listed `json:"final,omitempty"`
	// Events are the task log, FeedCopies the feed of finished jobs, both in the order
	// of the stream.
	Events     []Event `json:"events"`
	FeedCopies []Event `json:"feed_copies"`
	// Letters are the dead letters, Chunks the chunks that were still there.
	Letters []Letter `json:"letters"`
	Chunks  []Chunk  `json:"chunks"`
	// Unreadable says of each stored message that could not be read why.
	Unreadable []string `json:"unreadable,omitempty"`
	// Posts are the POSTs on the wire at the upstreams, in order of arrival, and
	// Paid the video tasks that they made.
	Posts []Post `json:"posts"`
	Paid  []Paid `json:"paid"`
	// Faults are those of processes, nodes and links, in the order of their begin.
	Faults []Fault `json:"faults"`
	// Usage are the jobs that the stream of usage names, in its order.
	Usage []string `json:"usage,omitempty"`
	// Began is when all replicas were ready for the first time, Finished when the streams were
	// read.
	Began    time.Time `json:"began,omitzero"`
	Finished time.Time `json:"finished"`
}

// Config is what the service was configured to.
type Config struct {
	// Create is the longest create timeout of the routes, Answer how long after
	// submit_until the answer to a create is still awaited.
	Create time.Duration `json:"create"`
	Answer time.Duration `json:"answer"`
	// ChatAttempts is chat.max_attempts.
	ChatAttempts int `json:"chat_attempts"`
	// Resubmit names the routes whose on_unknown_outcome is resubmit.
	Resubmit map[string]bool `json:"resubmit"`
	// Grace is how long after its deadline a job may end without a fault that
	// held it up, and how long after its job's end a follower may be shown it.
	Grace time.Duration `json:"grace"`
	// Skew is what two readings of the clock for one moment may differ by.
	Skew time.Duration `json:"skew"`
	// ChunkAge is how long the broker keeps chunks.
	ChunkAge time.Duration `json:"chunk_age"`
}

// Op is what a client asked for.
type Op string

// The operations of clients.
const (
	// OpPublish puts a request into the inbox; good means stored there.
	OpPublish Op = "publish"
	// OpCreate asks for a job and is answered when it is accepted.
	OpCreate Op = "create"
	// OpChat asks for a chat with a request_id and waits for its reply.
	OpChat Op = "chat"
	// OpInline asks for a chat on the caller's connection.
	OpInline Op = "inline"
	OpGet    Op = "get"
	OpCancel Op = "cancel"
	// OpPeek asks for a job of another tenant, which is not found.
	OpPeek Op = "peek"
)

// Told is one question of a client and what it heard.
type Told struct {
	Asked time.Time `json:"asked"`
	Time  time.Time `json:"time"`
	// Heard is when an answer that takes a while began, whether or not it broke off
	// later; zero: it is Time, or there was none.
	Heard time.Time `json:"heard,omitzero"`
	// Client asks one thing after the other. Series is one wish of it: all the
	// repeats until the wish was granted or given up.
	Client string `json:"client"`
	Series string `json:"series"`
	Op     Op     `json:"op"`
	// Tenant is who asked.
	Tenant string `json:"tenant,omitzero"`
	// Way is how it was asked: inbox, call, grpc, http.
	Way string `json:"way"`
	// Target is the replica that was asked, as far as the client chose it.
	Target string `json:"target,omitzero"`
	// Key is the request_id, Marker the mark of the prompt, Body a fingerprint of
	// the body; creates and chats only.
	Key    string `json:"key,omitzero"`
	Marker string `json:"marker,omitzero"`
	Body   string `json:"body,omitzero"`
	// Input is the longest word of the body, where that is long, as brief.Longest has it.
	Input string `json:"input,omitzero"`
	// Job, Status (a word) and Version are those of the answer, as far as it names
	// them.
	Job     string `json:"job,omitzero"`
	Status  string `json:"status,omitzero"`
	Version uint64 `json:"version,omitzero"`
	// Code is the code word of an error answer, HTTP its status where there is
	// one.
	Code string `json:"code,omitzero"`
	HTTP int    `json:"http,omitzero"`
	// Lost says why there is no answer; empty when there is one. NotSent means
	// that nothing can have arrived.
	Lost    string `json:"lost,omitzero"`
	NotSent bool   `json:"not_sent,omitzero"`
	// Text is the content of a whole chat reply as brief.Of has it, Whole whether there
	// was one.
	Text  string `json:"text,omitzero"`
	Whole bool   `json:"whole,omitzero"`
}

// Good reports whether the client got what it asked for.
func (t Told) Good() bool { return t.Lost == "" && t.Code == "" }

// passing are the codes that say: the same again, later.
var passing = []string{
	"queue_full", "storage_full", "broker_unavailable", "shutting_down", "still_held", "rate_limited", "tenant_full", "route_paused", "clock_wrong",
	"index_catching_up",
}

// Passing reports whether the answer says that the same question may be granted
// later.
func (t Told) Passing() bool { return slices.Contains(passing, t.Code) }

// Followed is one follower's whole life, over all its connections.
type Followed struct {
	Client string `json:"client"`
	Way    string `json:"way"`
	Job    string `json:"job"`
	// Items are what it saw, in order.
	Items []Item `json:"items"`
	// Connections counts the times it connected. Ended is true when the last one
	// ended as a watch does after the terminal event.
	Connections int  `json:"connections"`
	Ended       bool `json:"ended"`
	// Left is when it gave up, or was done.
	Left time.Time `json:"left"`
}

// Item is one thing that a follower saw: an event (Version is not 0), a chunk, a
// gap or the notice that the place to resume from is gone.
type Item struct {
	// ID is the event's id.
	ID      string   `json:"id,omitzero"`
	Version uint64   `json:"version,omitzero"`
	Status  string   `json:"status,omitzero"`
	Attempt uint32   `json:"attempt,omitzero"`
	Index   uint64   `json:"index,omitzero"`
	Blocks  []string `json:"blocks,omitempty"`
	Gap     bool     `json:"gap,omitzero"`
	Expired bool     `json:"expired,omitzero"`
}

// Listed is one question for a tenant's video tasks, newest first, and its answer.
type Listed struct {
	Asked  time.Time `json:"asked"`
	Time   time.Time `json:"time"`
	Tenant string    `json:"tenant,omitzero"`
	// Way is how it was asked, grpc or http; a whole list is asked for by both.
	Way    string `json:"way,omitzero"`
	Target string `json:"target"`
	// Paged is true where a page token was sent, so that the page is not the first one.
	Paged bool `json:"paged,omitzero"`
	// Jobs are the ids of the answer: of one page, or of all pages of a whole list.
	Jobs []string `json:"jobs,omitempty"`
	// Code, HTTP and Lost are as in Told. A whole list has them of the answer at which it was
	// given up.
	Code string `json:"code,omitzero"`
	HTTP int    `json:"http,omitzero"`
	Lost string `json:"lost,omitzero"`
}

// Good reports whether the list was given.
func (l Listed) Good() bool { return l.Lost == "" && l.Code == "" }

// Event is one event of the log, or a feed copy.
type Event struct {
	Seq    uint64    `json:"seq"`
	Stored time.Time `json:"stored"`
	// ID is the ce-id, Sum the payload's SHA-256 in hexadecimal.
	ID  string `json:"id"`
	Sum string `json:"sum"`

	Job      string    `json:"job"`
	Tenant   string    `json:"tenant,omitzero"`
	Version  uint64    `json:"version"`
	Status   string    `json:"status"`
	Previous string    `json:"previous,omitzero"`
	Phase    string    `json:"phase"`
	Time     time.Time `json:"time"`
	Created  time.Time `json:"created,omitzero"` // when the job was
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
	// Code is that of the error.
	Code string `json:"code,omitzero"`
	// ChunkCount, and the content of the reply where the event holds or names one, as
	// brief.Of has it.
	ChunkCount uint64 `json:"chunk_count,omitzero"`
	Text       string `json:"text,omitzero"`
	Replied    bool   `json:"replied,omitzero"`
	// Reply and Files are the objects that the event names: a large reply, and copies of
	// videos and their metadata. Archived counts the videos that have a copy.
	Reply    *Object  `json:"reply,omitempty"`
	Files    []Object `json:"files,omitempty"`
	Archived int      `json:"archived,omitzero"`
}

// Object is a body in the object store that a message names.
type Object struct {
	Bucket string `json:"bucket"`
	Name   string `json:"name"`
	Size   uint64 `json:"size"`
	// Sum is the SHA-256 that the message names, in hexadecimal.
	Sum string `json:"sum"`
	// Lost says why the object could not be read as it is named; empty when it could.
	Lost string `json:"lost,omitzero"`
	// Torn is true when it is there, and its chunks are not what it says of itself.
	Torn bool `json:"torn,omitzero"`
}

// Letter is a dead letter.
type Letter struct {
	Seq        uint64 `json:"seq"`
	Job        string `json:"job,omitzero"`
	Code       string `json:"code"`
	Marker     string `json:"marker,omitzero"`
	UpstreamID string `json:"upstream_id,omitzero"`
	// Data is the object that holds the request, where the letter names one, and Input
	// the longest word of the request, where that is long, as brief.Longest has it.
	Data  *Object `json:"data,omitempty"`
	Input string  `json:"input,omitzero"`
	// Upload is the object that the message names which the letter holds.
	Upload *Object `json:"upload,omitempty"`
}

// Chunk is one stored chunk: Blocks are the upstream's JSON as brief.Of has it.
type Chunk struct {
	Seq     uint64   `json:"seq"`
	Job     string   `json:"job"`
	Attempt uint32   `json:"attempt"`
	Index   uint64   `json:"index"`
	Blocks  []string `json:"blocks"`
	// Block is the object that holds the only block, where the chunk names one.
	Block *Object `json:"block,omitempty"`
}

// Post is one POST on the wire: its request line and headers arrived.
type Post struct {
	Time  time.Time `json:"time"`
	Ended time.Time `json:"ended,omitzero"`
	// Replica is who has sent it.
	Replica string `json:"replica,omitzero"`
	// Video tells a create from a chat. Key is the Idempotency-Key, which is the
	// job's id.
	Video  bool   `json:"video"`
	Path   string `json:"path"`
	Key    string `json:"key"`
	Marker string `json:"marker,omitzero"`
	Fault  string `json:"fault,omitzero"`
	// Bodiless is true where none of its body arrived: it is no request.
	Bodiless bool `json:"bodiless,omitzero"`
	// Status is the one that was sent; 0 for none.
	Status int `json:"status"`
	// TaskID is the upstream's id, Accepted whether a task was made or the model
	// was set to work, Answered whether the good answer was delivered whole.
	TaskID   string `json:"task_id,omitzero"`
	Accepted bool   `json:"accepted"`
	Answered bool   `json:"answered"`
	// Spoiled is true when the fault kept the good answer from the sender: it was
	// cut off, or another one came in its place.
	Spoiled bool `json:"spoiled,omitzero"`
	// Text is what the model said, as brief.Of has it.
	Text string `json:"text,omitzero"`
	// Input is the longest word of the body, where that is long and all of it has
	// arrived, as brief.Longest has it.
	Input string `json:"input,omitzero"`
}

// Paid is a video task that an upstream has.
type Paid struct {
	ID     string    `json:"id"`
	Key    string    `json:"key"`
	Marker string    `json:"marker,omitzero"`
	Time   time.Time `json:"time"`
}

// FaultKind is what was done to a process, a node or a link.
type FaultKind string

// The faults.
const (
	// FaultKill: SIGKILL of a replica; To is when it is ready again.
	FaultKill FaultKind = "kill"
	// FaultTerminate: SIGTERM of a replica; a clean stop and start.
	FaultTerminate FaultKind = "terminate"
	// FaultStop: SIGSTOP of a replica, until To.
	FaultStop FaultKind = "stop"
	// FaultNodeKill: SIGKILL of a broker's node; To is when it is current again.
	FaultNodeKill FaultKind = "node-kill"
	// FaultNodeStop: SIGSTOP of a broker's node, until To.
	FaultNodeStop FaultKind = "node-stop"
	// FaultIsolate: a node hears no other, until To.
	FaultIsolate FaultKind = "isolate"
	// FaultCutReplica: a replica's connections to the broker hang, until To.
	FaultCutReplica FaultKind = "cut-replica"
	// FaultHold: what the broker sends does not arrive at a replica, whose messages arrive at
	// the broker, until To.
	FaultHold FaultKind = "hold"
	// FaultCut: the clients' connections to a node are reset, until To.
	FaultCut FaultKind = "cut"
	// FaultPause: an operator paused a route, until To.
	FaultPause FaultKind = "pause"
	// FaultForeignAck: acknowledgements of a client that is not the holder, which cause redeliveries.
	FaultForeignAck FaultKind = "foreign-ack"
	// FaultBurst: clients wished for many jobs at once.
	FaultBurst FaultKind = "burst"
	// FaultGarbage: a tenant published large messages that are no requests.
	FaultGarbage FaultKind = "garbage"
	// FaultFill: jobs were accepted, and none went on, until the log was full.
	FaultFill FaultKind = "fill"
	// FaultDelete: a stream or a durable was deleted; To is when it was there again.
	FaultDelete FaultKind = "delete"
	// FaultRoute: a route was not configured, until To.
	FaultRoute FaultKind = "route"
	// FaultClock: a replica's time of day was ahead by By, until To.
	FaultClock FaultKind = "clock"
	// FaultStall: not injected: the harness got no processor, and the other processes
	// of its machine probably none either. Target is empty.
	FaultStall FaultKind = "stall"
	// FaultDisk: the disk of the embedded broker was full; To is when jobs were taken again.
	FaultDisk FaultKind = "full-disk"
	// FaultMix: from here on the upstreams have another mix of faults.
	FaultMix FaultKind = "mix"
)

// Fault is one thing that was done.
type Fault struct {
	Kind FaultKind `json:"kind"`
	// Target is the name of the replica or of the node.
	Target string    `json:"target"`
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	// Broker is true when the broker was away, or away from a client. Wipes is
	// true when the broker's memory was lost.
	Broker bool `json:"broker,omitzero"`
	Wipes  bool `json:"wipes,omitzero"`
	// By is how far the clock of FaultClock was ahead.
	By time.Duration `json:"by,omitzero"`
	// At is the message at which a fault of a replica was aimed; empty: at none.
	At string `json:"at,omitzero"`
	// Loses is what was deleted for good.
	Loses Loss `json:"loses,omitzero"`
}

// Loss is what a fault deletes for good.
type Loss string

// The losses.
const (
	// LosesRequests: those that stood in the inbox.
	LosesRequests Loss = "requests"
	// LosesItems: the work items of accepted jobs, which no replica can then run.
	LosesItems Loss = "items"
	// LosesLog: events of jobs, of which nothing is known then. No step of the soak does that.
	LosesLog Loss = "log"
)
