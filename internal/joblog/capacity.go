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

// SpareReply is the size up to which a reply is part of any chat's end. A longer one asks for
// its bytes.
const SpareReply = 4 << 10

// FullError says that the log has no capacity for another job.
type FullError struct {
	Figures
	// Job is what the job would take.
	Job int64
}

func (e *FullError) Error() string {
	limit := fmt.Sprintf("%d, which is %.0f %% of %d (nats.streams.tasks.max_bytes)", e.AdmitLimit(), 100*admitBelow, e.Max)
	if e.Short > 0 {
		limit += fmt.Sprintf(" minus %d that the disk cannot hold (nats.max_store_bytes)", e.Short)
	}
	return fmt.Sprintf("the task log has used %d bytes, %d are reserved for accepted jobs, and this job needs %d; the limit is %s",
		e.Used, e.Reserved+e.Granted, e.Job, limit)
}

// Capacity grants the bytes of the log, so that accepted jobs of ordinary size always have room for
// their ends (docs/adr/0026).
// It is safe for concurrent use.
type Capacity struct {
	b        *broker.Broker
	enc      publisher.Encoder
	metrics  *telemetry.Metrics
	reserved reservations
}

// ReserveJob reserves what a new job takes until its first event is stored. From the moment that
// its work item is stored it is among the unfinished jobs that the figures count. Without
// capacity the error is a *FullError; any other is of a broker that did not answer.
func (c *Capacity) ReserveJob(ctx context.Context, first task.Job) (Release, error) {
	job := int64(c.bytesOf(proto.Size(first))) + c.jobBytes()
	figures, release, err := c.reserved.take(ctx, toAdmit, job)
	if errors.Is(err, errNoCapacity) {
		return nil, &FullError{Figures: figures, Job: job}
	}
	return release, err
}

// ReserveSubmission reports whether an accepted job may be submitted or attempted. The event
// that says so is then stored, and the log keeps capacity for the ends of all jobs.
func (c *Capacity) ReserveSubmission(ctx context.Context, job task.Job) (Release, bool) {
	return c.grant(ctx, toSubmit, c.bytesOf(proto.Size(job)))
}

// ReserveProgress reports whether an event may be stored that its job can do without.
func (c *Capacity) ReserveProgress(ctx context.Context, e task.Event) (Release, bool) {
	return c.grant(ctx, toSpare, c.bytesOf(proto.Size(e.Job)))
}

// ReserveReply reports whether a reply of some bytes may be part of its chat's end.
func (c *Capacity) ReserveReply(ctx context.Context, bytes int) (Release, bool) {
	if bytes <= SpareReply {
		return func() {}, true
	}
	return c.grant(ctx, toSpare, 2*c.bytesOf(bytes)) // and in the feed
}

// ReserveEnd reports whether the terminal event of something that reserved nothing may be
// stored, an inline chat or a refused request, with its feed copy.
func (c *Capacity) ReserveEnd(ctx context.Context, e task.Event) (Release, bool) {
	return c.grant(ctx, toSpare, 2*c.bytesOf(proto.Size(e.Job)))
}

func (c *Capacity) jobBytes() int64 {
	if c.enc.Encoding == publisher.JSON {
		return 2 * jobBytes
	}
	return jobBytes
}

// bytesOf is what an event of some bytes in Protobuf may take. As JSON it has them twice: for
// readers, and in Base64.
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

// Figures returns the figures of the log, about a second old.
func (c *Capacity) Figures(ctx context.Context) (Figures, error) {
	figures, _, err := c.reserved.take(ctx, toSpare, 0)
	if errors.Is(err, errNoCapacity) {
		err = nil
	}
	return figures, err
}

// Check is an error while no job can be submitted.
func (c *Capacity) Check(ctx context.Context) error {
	figures, err := c.Figures(ctx)
	const least = 1 << 10 // of an event
	if err == nil && figures.Max > 0 && figures.left(toSubmit) < least {
		return fmt.Errorf("the task log has used %d of its %d bytes; no job is submitted", figures.Used, max(figures.Max-figures.Short, 0))
	}
	return nil
}

// JobsPerDay is how many jobs the log holds at least for each day of its MaxAge, if their replies
// are ordinary.
func (c *Capacity) JobsPerDay(figures Figures, maxAge time.Duration) int64 {
	return int64(float64(figures.AdmitLimit()) / float64(c.jobBytes()) * float64(24*time.Hour) / float64(maxAge))
}

// BytesFor is the least MaxBytes with which admission accepts so many unfinished jobs.
func (c *Capacity) BytesFor(jobs int) int64 {
	return int64(float64(jobs) * float64(c.jobBytes()) / admitBelow)
}

// UsageBytes is what the usage event of an ordinary job takes in its stream.
const UsageBytes = 700

// readFigures reads the figures. It counts the queued jobs first and misses none: the end of a
// job is in the log before the job leaves the queue.
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
	if spare, known := c.b.StoreSpare(info); known { // the queues and the objects are on the same disk
		figures.Short = max(-spare, 0)
	}
	c.metrics.StreamState(info.Config.Name, info.State.Msgs, info.State.Bytes, info.Config.MaxBytes)
	c.metrics.LogCapacity(figures.Used, figures.Reserved, figures.AdmitLimit(), figures.SubmitLimit())
	return figures, nil
}
