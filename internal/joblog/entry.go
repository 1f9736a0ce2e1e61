package joblog

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/tail"
	"github.com/genbus/genbus/internal/task"
)

// Errors of the log. A *LostError is the third outcome of a commit.
var (
	// ErrNotFound: the log has no such job.
	ErrNotFound = errors.New("the log has no such job")
	// ErrUncertain: it is not known whether the event was stored.
	ErrUncertain = errors.New("it is unknown whether the event was stored")
	// ErrFull: the log is full; the event was not stored.
	ErrFull = errors.New("the task log is full")
	// ErrSlowReader: a follower did not keep up, and was cut.
	ErrSlowReader = tail.ErrSlowReader
)

// LostError says that another writer was first. Current is the job as it is.
type LostError struct {
	Current Entry
}

func (e *LostError) Error() string {
	return fmt.Sprintf("another writer stored version %d of job %s first", e.Current.Version(), e.Current.Job.GetId())
}

// Entry is an event as the log holds it.
type Entry struct {
	task.Event
	// Seq is the event's sequence in the stream: what the next commit expects.
	Seq uint64

	// message is the stored one of an end that this process has written; else nil.
	message *nats.Msg
}

// Recorded is an event with the headers that it was published with.
type Recorded struct {
	Entry
	Header nats.Header
}

// Name is the job's name in the log.
func (e Entry) Name() subject.JobName {
	return subject.JobName{Kind: subject.Kind(task.Kind(e.Job)), Tenant: e.Job.GetTenant(), ID: e.Job.GetId()}
}

// SameJob tells a job from one that was made under its id after it was erased: b was read
// after a.
func SameJob(a, b Entry) bool {
	return a.Job.GetCreatedAt().AsTime().Equal(b.Job.GetCreatedAt().AsTime()) && b.Version() >= a.Version()
}

func decodeStored(n subject.JobName, m broker.Stored) (Entry, error) {
	e, err := publisher.DecodeEvent(n.Kind, m.Header, m.Data)
	if err != nil {
		return Entry{}, fmt.Errorf("event %d of job %s: %w", m.Seq, n.ID, err)
	}
	return Entry{Event: e, Seq: m.Seq}, nil
}

func header(h nats.Header, key string) string {
	if v := h[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}
