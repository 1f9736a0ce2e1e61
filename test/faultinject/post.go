package faultinject

import (
	"cmp"
	"regexp"
	"time"
)

// ClientHeader is a request header by which a client of an Upstream names itself in
// the ledger.
const ClientHeader = "Faulttest-Client"

// Post is one create or chat on the wire: its request line and headers have
// arrived. A request that a client's library sends again by itself is a Post of
// its own, and so is one that follows a redirect. Jimeng's polls, which are POSTs
// too, are not.
type Post struct {
	// Time is when the headers were complete.
	Time time.Time `json:"time"`
	// Ended is when the answer was written or the connection was gone; zero before.
	Ended time.Time `json:"ended,omitzero"`
	// Op is OpCreate or OpChat.
	Op Op `json:"op"`
	// Path is as the client wrote it.
	Path string `json:"path"`
	// Key is the Idempotency-Key; empty: there was none.
	Key string `json:"key,omitzero"`
	// Client is the header ClientHeader: who has sent it, where its sender says so.
	Client string `json:"client,omitzero"`
	// Marker is that of as much of the body as arrived; see Marker.
	Marker string `json:"marker,omitzero"`
	// Bodiless says that its connection was gone before any of its body had arrived: its sender
	// can know that nothing was accepted.
	Bodiless bool `json:"bodiless,omitzero"`
	// Nth counts the posts of one op and key, or of one marker where there is no
	// key, from 1.
	Nth int `json:"nth"`
	// Fault is what was decided.
	Fault Fault `json:"fault,omitzero"`
	// Status is the HTTP status that was sent; 0: none was.
	Status int `json:"status,omitzero"`
	// TaskID is the upstream's id of a created task, told to the client or not.
	TaskID string `json:"task_id,omitzero"`
	// Accepted says that a create has made a task and that a chat was set to work:
	// an upstream would charge for it.
	Accepted bool `json:"accepted,omitzero"`
	// Answered says that the whole answer, good or not, was written while the
	// client was there.
	Answered bool `json:"answered,omitzero"`
	// Text is the content that the model of a chat produced, told or not, as brief.Of
	// has it.
	Text string `json:"text,omitzero"`
	// Input is the longest word of the body, where it is long and the body has arrived
	// whole, as brief.Longest has it.
	Input string `json:"input,omitzero"`
}

// name is what a post is counted under.
func (p *Post) name() string { return cmp.Or(p.Key, p.Marker) }

// PaidTask is a task that a create has made.
type PaidTask struct {
	// ID is the upstream's.
	ID     string    `json:"id"`
	Key    string    `json:"key,omitzero"`
	Marker string    `json:"marker,omitzero"`
	Time   time.Time `json:"time"`
	// Fault is what the create met.
	Fault Fault `json:"fault,omitzero"`
}

// Record is what an Upstream has seen, as GET /faultinject/ledger answers it.
type Record struct {
	Posts []Post     `json:"posts"`
	Tasks []PaidTask `json:"tasks"`
	// Faults counts what was decided, by "op/fault".
	Faults map[string]int `json:"faults"`
	Polls  int64          `json:"polls"`
}

var marker = regexp.MustCompile(`mark=([A-Za-z0-9_-]+)`)

// Marker finds the token that a load puts into a prompt as mark=<token>, letters,
// digits, "_" and "-"; empty where there is none. The body may be JSON or a form.
func Marker(body []byte) string {
	if m := marker.FindSubmatch(body); m != nil {
		return string(m[1])
	}
	return ""
}
