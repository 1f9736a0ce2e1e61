package joblog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// SpareReply is the size, in bytes, up to which a reply needs no reservation, because jobBytes
// covers it.
const SpareReply = 4 << 10

// FullError means that the log has no capacity for another job.
type FullError struct {
	Figures
	// Job is the number of bytes that the job would reserve.
	Job int64
}

func (e *FullError) Error() string {
	limit := fmt.Sprintf("%d, which is %.0f%% of %d (nats.streams.tasks.max_bytes)", e.AdmitLimit(), 100*admitBelow, e.Max)
	if e.Short > 0 {
		limit += fmt.Sprintf(" minus %d that the disk cannot hold (nats.max_store_bytes)", e.Short)
	}
	return fmt.Sprintf("the task log has used %d bytes, %d are reserved for accepted jobs, and this job needs %d; the limit is %s",
		e.Used, e.Reserved+e.Granted, e.Job, limit)
}

// Capacity grants space in the log, so that accepted jobs of ordinary size can always log their
// ends (ADR 26). It is safe for concurrent use.
type Capacity struct {
	b        *broker.Broker
	enc      publisher.Encoder
	metrics  *telemetry.Metrics
	reserved reservations
}

// ReserveJob reserves capacity for a new job. The caller must release it once the first event is
// stored. The figures then include the job, because its work item counts as an unfinished job. If
// there is no capacity, ReserveJob returns a *FullError. Any other error means that the broker did
// not answer.
func (c *Capacity) ReserveJob(ctx context.Context, first task.Job) (Release, error) {
	job := int64(c.bytesOf(proto.Size(first))) + c.jobBytes()
	figures, release, err := c.reserved.take(ctx, toAdmit, job)
	if errors.Is(err, errNoCapacity) {
		return nil, &FullError{Figures: figures, Job: job}
	}
	return release, err
}

// ReserveSubmission reserves capacity for the event that starts a submission or attempt, without
// using the capacity that is kept for the ends of all jobs. It returns false if the job must not be
// started.
func (c *Capacity) ReserveSubmission(ctx context.Context, job task.Job) (Release, bool) {
	return c.grant(ctx, toSubmit, c.bytesOf(proto.Size(job)))
}

// ReserveProgress reserves capacity for an optional event of a job. It returns false if there is no
// capacity.
func (c *Capacity) ReserveProgress(ctx context.Context, e task.Event) (Release, bool) {
	return c.grant(ctx, toSpare, c.bytesOf(proto.Size(e.Job)))
}

// ReserveReply reserves capacity for a reply of the given size, which is stored in its chat's end.
// It returns false if there is no capacity.
func (c *Capacity) ReserveReply(ctx context.Context, bytes int) (Release, bool) {
	if bytes <= SpareReply {
		return func() {}, true
	}
	return c.grant(ctx, toSpare, 2*c.bytesOf(bytes)) // including the feed copy
}

// ReserveEnd reserves capacity for the end of an inline chat or a refused request and for its feed
// copy. Such jobs have no earlier reservation. It returns false if there is no capacity.
func (c *Capacity) ReserveEnd(ctx context.Context, e task.Event) (Release, bool) {
	return c.grant(ctx, toSpare, 2*c.bytesOf(proto.Size(e.Job)))
}

func (c *Capacity) jobBytes() int64 {
	if c.enc.Encoding == publisher.JSON {
		return 2 * jobBytes
	}
	return jobBytes
}

// bytesOf returns how many bytes an event may take if its Protobuf encoding has n bytes. A JSON
// event contains the job twice, once in readable form and once in Base64.
func (c *Capacity) bytesOf(n int) int {
	const headers = 1<<10 + publisher.MaxFacts
	if c.enc.Encoding == publisher.JSON {
		n *= 3
	}
	return n + headers
}

func (c *Capacity) grant(ctx context.Context, p purpose, bytes int) (Release, bool) {
	_, release, err := c.reserved.take(ctx, p, int64(bytes))
	return release, err == nil
}

// Figures returns the figures of the log, which are usually up to about a second old.
func (c *Capacity) Figures(ctx context.Context) (Figures, error) {
	figures, _, err := c.reserved.take(ctx, toSpare, 0)
	if errors.Is(err, errNoCapacity) {
		err = nil
	}
	return figures, err
}

// Check returns an error if the log has no capacity for submissions.
func (c *Capacity) Check(ctx context.Context) error {
	figures, err := c.Figures(ctx)
	const least = 1 << 10 // minimum size of an event
	if err == nil && figures.Max > 0 && figures.remaining(toSubmit) < least {
		return fmt.Errorf("the task log has used %d of its %d bytes; no job is submitted", figures.Used, max(figures.Max-figures.Short, 0))
	}
	return nil
}

// JobsPerDay returns the minimum number of jobs per day that the log can keep for maxAge, if their
// replies are of ordinary size.
func (c *Capacity) JobsPerDay(figures Figures, maxAge time.Duration) int64 {
	return int64(float64(figures.AdmitLimit()) / float64(c.jobBytes()) * float64(24*time.Hour) / float64(maxAge))
}

// BytesFor returns the smallest MaxBytes with which admission accepts the given number of
// unfinished jobs.
func (c *Capacity) BytesFor(jobs int) int64 {
	return int64(float64(jobs) * float64(c.jobBytes()) / admitBelow)
}

// UsageBytes is the stored size of an ordinary job's usage event.
const UsageBytes = 700

// readFigures reads the figures. It counts the queued jobs before it reads the log, so that it
// misses none, because a job's end is logged before the job leaves the queue.
func (c *Capacity) readFigures(ctx context.Context) (Figures, error) {
	jobs, err := c.b.QueuedJobs(ctx)
	if err != nil {
		return Figures{}, err
	}
	s, err := c.b.Stream(ctx, c.b.Names().Tasks())
	if err != nil {
		return Figures{}, err
	}
	info := s.CachedInfo()
	figures := Figures{Used: int64(info.State.Bytes), Max: info.Config.MaxBytes, Reserved: jobs * c.jobBytes()}
	if spare, known := c.b.StoreSpare(info); known { // queues and objects share the disk
		figures.Short = max(-spare, 0)
	}
	c.metrics.StreamState(info.Config.Name, info.State.Msgs, info.State.Bytes, info.Config.MaxBytes)
	c.metrics.LogCapacity(figures.Used, figures.Reserved, figures.AdmitLimit(), figures.SubmitLimit())
	return figures, nil
}
