package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/faultinject/brief"
)

// MarkLabel is the label in which a request repeats its marker, because events do not contain the
// prompt.
const MarkLabel = "mark"

// Stored is one message in a stream.
type Stored struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  nats.Header
	Data    []byte
}

// Add adds a message from the task log, the feed, the chunks, the usage or the dead letters to the
// history. If the message is unreadable, Add records it in Unreadable.
func (h *History) Add(names subject.Space, m Stored) {
	if err := h.add(names, m); err != nil {
		h.Unreadable = append(h.Unreadable, fmt.Sprintf("message %d on %s: %v", m.Seq, m.Subject, err))
	}
}

func (h *History) add(names subject.Space, m Stored) error {
	if n, err := names.ParseTask(m.Subject); err == nil {
		e, err := readEvent(n, m)
		h.Events = append(h.Events, e)
		return err
	}
	if n, err := names.ParseDone(m.Subject); err == nil {
		e, err := readEvent(subject.JobName{Kind: n.Kind, Tenant: n.Tenant, ID: n.ID}, m)
		if err == nil && e.Status != n.Status {
			err = fmt.Errorf("the subject says %s, the event %s", n.Status, e.Status)
		}
		h.FeedCopies = append(h.FeedCopies, e)
		return err
	}
	if _, id, err := names.ParseChunk(m.Subject); err == nil {
		return h.addChunk(id, m)
	}
	if n, err := names.ParseUsage(m.Subject); err == nil {
		h.Usage = append(h.Usage, n.ID)
		return nil
	}
	return h.addDeadLetter(names, m)
}

func (h *History) addChunk(id string, m Stored) error {
	c, err := publisher.DecodeChunk(m.Header, m.Data)
	if err != nil {
		return err
	}
	if c.GetId() != id {
		return fmt.Errorf("the subject names %s, the chunk %s", id, c.GetId())
	}
	h.Chunks = append(h.Chunks, Chunk{Seq: m.Seq, Job: id, Attempt: c.GetAttempt(), Index: c.GetIndex(), Blocks: Blocks(c), Block: object(c.GetBlocksRef())})
	return nil
}

// Blocks returns the blocks of a chunk as text, in the form of brief.Of.
func Blocks(c *genbusv1.ChatChunk) []string {
	out := make([]string, len(c.GetBlocks()))
	for i, b := range c.GetBlocks() {
		out[i] = brief.Of(string(b))
	}
	return out
}

func (h *History) addDeadLetter(names subject.Space, m Stored) error {
	var l genbusv1.DeadLetter
	if err := proto.Unmarshal(m.Data, &l); err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	marker := l.GetWork().GetLabels()[MarkLabel]
	if marker == "" {
		marker = MarkOf(l.GetData())
	}
	input := ""
	if l.GetCut() == nil { // a cut body may end within the long word
		input = brief.Longest(string(l.GetData()))
	}
	h.DeadLetters = append(h.DeadLetters, DeadLetter{
		Seq: m.Seq, Job: l.GetId(), Code: l.GetError().GetCode(), Marker: marker, UpstreamID: l.GetUpstreamTaskId(),
		Data: object(l.GetDataRef()), Input: input, Upload: upload(names, &l),
	})
	return nil
}

var markWord = []byte("mark=")

// MarkOf returns the token of letters, digits, _ and - after "mark=" in a body, or "".
func MarkOf(body []byte) string {
	_, rest, found := bytes.Cut(body, markWord)
	if !found {
		return ""
	}
	end := 0
	for end < len(rest) && (rest[end] == '_' || rest[end] == '-' || isAlnum(rest[end])) {
		end++
	}
	return string(rest[:end])
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// readEvent decodes an event and compares it with its headers and subject.
func readEvent(n subject.JobName, m Stored) (Event, error) {
	sum := sha256.Sum256(m.Data)
	out := Event{Seq: m.Seq, Stored: m.Time, ID: m.Header.Get(subject.HeaderCEID), Sum: hex.EncodeToString(sum[:]), Job: n.ID, Tenant: n.Tenant}
	e, err := publisher.DecodeEvent(n.Kind, m.Header, m.Data)
	if err != nil {
		return out, err
	}
	out.fill(e)
	for _, pair := range [][2]string{
		{out.Job, n.ID}, {e.Job.GetTenant(), n.Tenant}, {e.ID(), out.ID}, {out.Status, m.Header.Get(subject.HeaderStatus)},
		{strconv.FormatUint(out.Version, 10), m.Header.Get(subject.HeaderVersion)}, {out.Writer, m.Header.Get(subject.HeaderWriter)},
	} {
		if pair[0] != pair[1] {
			return out, fmt.Errorf("the event says %q, its headers or subject %q", pair[0], pair[1])
		}
	}
	return out, nil
}

func (e *Event) fill(in task.Event) {
	x := in.Job.GetExecution()
	e.Job, e.Version, e.Time = in.Job.GetId(), in.Version(), in.Time
	e.Created = at(in.Job.GetCreatedAt())
	e.Status, e.Phase = task.StatusWord(in.Job.GetStatus()), task.PhaseWord(x.GetPhase())
	if in.Previous != genbusv1.JobStatus_JOB_STATUS_UNSPECIFIED {
		e.Previous = task.StatusWord(in.Previous)
	}
	e.Writer, e.Route, e.Attempt, e.Stream = x.GetWriter(), x.GetRoute(), x.GetAttempt(), x.GetStream()
	e.Key, e.Marker, e.Code = in.Job.GetRequestId(), in.Job.GetLabels()[MarkLabel], in.Job.GetError().GetCode()
	e.SubmitUntil, e.FirstSubmit = at(x.GetSubmitUntil()), at(x.GetFirstSubmitAt())
	e.QueueDeadline, e.Deadline, e.ExpiresAt = at(x.GetQueueDeadline()), at(x.GetDeadline()), at(in.Job.GetExpiresAt())
	switch j := in.Job.(type) {
	case *genbusv1.VideoTask:
		e.UpstreamID = j.GetUpstreamTaskId()
		e.files(j)
	case *genbusv1.Chat:
		e.Inline, e.ChunkCount = j.GetInline(), j.GetChunkCount()
		e.Text, e.Replied = ReplyText(j.GetReplyJson())
		e.Reply = object(j.GetReplyRef())
	}
}

func at(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// ReplyText returns the content of a whole chat reply, in the form of brief.Of. It returns false if
// reply is not a completion.
func ReplyText(reply []byte) (string, bool) {
	var r struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(reply, &r) != nil || len(r.Choices) == 0 {
		return "", false
	}
	return brief.Of(r.Choices[0].Message.Content), true
}

// BlockText returns the content of one block of a streamed reply.
func BlockText(block []byte) string { return content(string(block)) }
