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

// Errors of the log. Commit may also return a *LostError.
var (
	// ErrNotFound means that the log does not have the job.
	ErrNotFound = errors.New("the log has no such job")
	// ErrUncertain means that the event may or may not be stored.
	ErrUncertain = errors.New("it is unknown whether the event was stored")
	// ErrFull means that the log is full and the event was not stored.
	ErrFull = errors.New("the task log is full")
	// ErrSlowReader means that a follower fell too far behind and was cut off.
	ErrSlowReader = tail.ErrSlowReader
)

// LostError means that another writer committed first. Current is the job's current state.
type LostError struct {
	Current Entry
}

func (e *LostError) Error() string {
	return fmt.Sprintf("another writer stored version %d of job %s first", e.Current.Version(), e.Current.Job.GetId())
}

// Entry is an event in the log.
type Entry struct {
	task.Event
	// Seq is the event's sequence in the stream. Pass it to the next Commit.
	Seq uint64

	// message is the stored message of a terminal event that this process wrote, and otherwise nil.
	message *nats.Msg
}

// Recorded is an event with its message headers.
type Recorded struct {
	Entry
	Header nats.Header
}

// Name returns the job's name.
func (e Entry) Name() subject.JobName {
	return subject.JobName{Kind: subject.Kind(task.Kind(e.Job)), Tenant: e.Job.GetTenant(), ID: e.Job.GetId()}
}

// SameJob reports whether a and b, read in this order, belong to the same job. A job that was
// accepted under the ID of an erased one is a different job.
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
