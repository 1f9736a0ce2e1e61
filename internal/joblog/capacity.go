package joblog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// SpareReply is the size up to which a reply is part of any chat's end; what a longer one
// takes is asked for.
const SpareReply = 4 << 10

// FullError says that the log has no room for another job.
type FullError struct {
	Figures
	// Life is what the job would take.
	Life int64
}

func (e *FullError) Error() string {
	limit := fmt.Sprintf("%d, which is %.0f %% of %d (nats.streams.tasks.max_bytes)", e.AdmitLimit(), 100*admitBelow, e.Max)
	if e.Short > 0 {
		limit += fmt.Sprintf(" less %d for which the disk has no room (nats.max_store_bytes)", e.Short)
	}
	return fmt.Sprintf("the task log has used %d bytes, %d are reserved for accepted jobs, and this job would take %d; together they may take %s",
		e.Used, e.Reserved, e.Life, limit)
}

// Capacity is the bytes of the log, and what they may be used for: the owner of the rule
// that an end always has room. It is safe for concurrent use.
type Capacity struct {
	b        *broker.Broker
	enc      publisher.Encoder
	metrics  *telemetry.Metrics
	counts   func(context.Context) (map[subject.Kind]Unfinished, bool) // nil: none are known
	last     census
	lives    *lives
	reserved reservations
}

// Unfinished are jobs that have begun and not ended, and what their latest events take.
type Unfinished struct{ Jobs, Bytes int64 }

// CountBy has the unfinished jobs counted by f, which is false where it does not know, and
// bounds its own time. CountBy is called before the first reservation.
func (c *Capacity) CountBy(f func(context.Context) (map[subject.Kind]Unfinished, bool)) {
	c.counts = f
}

// census is what the unfinished jobs were when they were counted.
type census struct {
	at time.Time
	of map[subject.Kind]Unfinished
}

// censusFor is how long a count holds that is followed by no other: after that, jobs that
// have ended would hide as many larger ones.
const censusFor = 10 * time.Second

// unfinished counts the unfinished jobs. It is called by one reader at a time.
func (c *Capacity) unfinished(ctx context.Context) map[subject.Kind]Unfinished {
	if c.counts == nil {
		return nil
	}
	now := time.Now()
	if of, known := c.counts(ctx); known {
		c.last = census{now, of}
	} else if now.Sub(c.last.at) > censusFor {
		c.last = census{}
	}
	return c.last.of
}

// ReserveJob reserves the bytes of a whole life of a new job, until its first event is
// stored: at least those of that event and of an end without a submission. The error is a
// *FullError where there is no room, and else that of a broker that did not say.
func (c *Capacity) ReserveJob(ctx context.Context, first task.Job) (Release, error) {
	event := int64(c.bytesOf(proto.Size(first)))
	life := max(c.lives.life(subject.Kind(task.Kind(first))), event+2*(event+endMore))
	figures, release, err := c.reserved.take(ctx, toAdmit, life)
	if errors.Is(err, errNoCapacity) {
		return nil, &FullError{Figures: figures, Life: life}
	}
	return release, err
}

// ReserveSubmission reports whether an accepted job may be submitted or attempted: that it
// was is stored, and all that it and the others in work write from there on has room.
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

// Figures are what is known of the log, about a second old.
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
	if err == nil && figures.Max > 0 && figures.left(toSubmit) < leastEvent {
		return fmt.Errorf("the task log has used %d of the %d bytes that it may have; no job is submitted", figures.Used, max(figures.Max-figures.Short, 0))
	}
	return nil
}

// JobsPerDay is how many jobs of a kind the log holds for each day of its MaxAge, by what a
// life takes as far as this replica knows.
func (c *Capacity) JobsPerDay(figures Figures, kind subject.Kind, maxAge time.Duration) int64 {
	return int64(float64(figures.AdmitLimit()) / float64(c.lives.life(kind)) * float64(24*time.Hour) / float64(maxAge))
}

// UsageBytes is what the usage event of an ordinary job takes in its stream.
const UsageBytes = 700

// readFigures reads the figures. No job is missed: its end is in the log before it leaves
// the queue.
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
	figures := Figures{Used: int64(info.State.Bytes), Max: info.Config.MaxBytes}
	if spare, known := c.b.StoreSpare(info); known { // the queues and the objects are on the same disk
		figures.Short = max(-spare, 0)
	}
	left := c.lives.reserve(jobs, c.unfinished(ctx))
	figures.Reserved, figures.Shortest, figures.Ends = left.rest, left.shortest, left.ends
	c.metrics.StreamState(info.Config.Name, info.State.Msgs, info.State.Bytes, info.Config.MaxBytes)
	c.metrics.LogCapacity(figures.Used, figures.Reserved, figures.AdmitLimit(), figures.SubmitLimit())
	for _, kind := range subject.Kinds {
		c.metrics.LifeBytes(kind, c.lives.life(kind))
	}
	return figures, nil
}
