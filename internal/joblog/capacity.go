package joblog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// The limits of the log, as shares of its bytes. What is used counts for each; beside it, for
// a new job the rest of the lives of all unfinished jobs, for what jobs can do without the
// rest of their shortest whole lives, so that nobody's long reply takes the room in which
// another job would be submitted, and for a submission their ends. What jobs in work write from their submission on is
// above all three: the configuration leaves config.EndBytes for each of them in a tenth of
// the log. The last 3 % are for what the replicas do not see of each other (creditShare).
const (
	admitBelow  = 0.80 // a new job
	spareBelow  = 0.85 // progress, events of inline chats and of refusals, long replies
	submitBelow = 0.87 // a submission of an accepted job
)

// creditShare is the part of the room that a replica may use up before it reads again how
// much there is. The other replicas do not see that before they read, so it bounds by how
// much all of them together exceed a limit, whatever their rate and however old their
// figures are: eight replicas by 7/512 of the log for each of two purposes.
const creditShare = 512

// countsFresh is the age at which the figures are read again. Older ones do no harm: they
// are good for no more than the credit.
const countsFresh = time.Second

// SpareReply is the size up to which a reply is part of any chat's end; what a longer one
// takes is asked for.
const SpareReply = 4 << 10

// Capacity is what is known of the bytes of the log.
type Capacity struct {
	// Used and Max are the stream's own figures; without a limit Max is not positive.
	Used, Max int64
	// Short is what the disk under the stream does not have of Max.
	Short int64
	// Reserved is what the accepted, unfinished jobs are still to write, those included
	// that are just being accepted; Shortest what they would write if nothing were written that
	// they can do without, and Ends if all of them ended now.
	Reserved, Shortest, Ends int64
}

// AdmitLimit is the number of bytes up to which jobs are admitted.
func (r Capacity) AdmitLimit() int64 { return r.limit(admitBelow) }

// SubmitLimit is the number of bytes up to which accepted jobs are submitted.
func (r Capacity) SubmitLimit() int64 { return r.limit(submitBelow) }

// limit is a share of the log. What the disk is short of lowers it whole: what is kept above
// it for the ends is a share of Max, however full the disk is.
func (r Capacity) limit(share float64) int64 { return max(int64(share*float64(r.Max))-r.Short, 0) }

// FullError says that the log has no room for another job.
type FullError struct {
	Capacity
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

// Release returns what was reserved: it is stored, so that the next figures include it, or
// will never be. Until then it counts in addition to all figures.
type Release func()

// ReserveJob reserves the bytes of a whole life of a new job, until its first event is
// stored: at least those of that event and of an end without a submission. The error is a
// *FullError where there is no room, and else that of a broker that did not say.
func (l *Log) ReserveJob(ctx context.Context, first task.Job) (Release, error) {
	event := int64(l.bytesOf(proto.Size(first)))
	life := max(l.lives.life(subject.Kind(task.Kind(first))), event+2*(event+endMore))
	room, release, err := l.capacity.take(ctx, toAdmit, life)
	if errors.Is(err, errNoCapacity) {
		return nil, &FullError{Capacity: room, Life: life}
	}
	return release, err
}

// ReserveSubmission reports whether an accepted job may be submitted or attempted: that it
// was is stored, and all that it and the others in work write from there on has room.
func (l *Log) ReserveSubmission(ctx context.Context, job task.Job) (Release, bool) {
	return l.room(ctx, toSubmit, l.bytesOf(proto.Size(job)))
}

// ReserveProgress reports whether an event may be stored that its job can do without.
func (l *Log) ReserveProgress(ctx context.Context, e task.Event) (Release, bool) {
	return l.room(ctx, toSpare, l.bytesOf(proto.Size(e.Job)))
}

// ReserveReply reports whether a reply of some bytes may be part of its chat's end.
func (l *Log) ReserveReply(ctx context.Context, bytes int) (Release, bool) {
	if bytes <= SpareReply {
		return func() {}, true
	}
	return l.room(ctx, toSpare, 2*l.bytesOf(bytes)) // and in the feed
}

// ReserveEnd reports whether the terminal event of something that reserved nothing may be
// stored, an inline chat or a refused request, with its feed copy.
func (l *Log) ReserveEnd(ctx context.Context, e task.Event) (Release, bool) {
	return l.room(ctx, toSpare, 2*l.bytesOf(proto.Size(e.Job)))
}

// bytesOf is what an event of some bytes in Protobuf may take. As JSON it has them twice: for
// readers, and in Base64.
func (l *Log) bytesOf(n int) int {
	const headers = 1 << 10
	if l.enc.Encoding == publisher.JSON {
		n *= 3
	}
	return n + headers
}

func (l *Log) room(ctx context.Context, p purpose, bytes int) (Release, bool) {
	_, release, err := l.capacity.take(ctx, p, int64(bytes))
	return release, err == nil
}

// Capacity is what is known of the log, about a second old.
func (l *Log) Capacity(ctx context.Context) (Capacity, error) {
	room, _, err := l.capacity.take(ctx, toSpare, 0)
	if errors.Is(err, errNoCapacity) {
		err = nil
	}
	return room, err
}

// CheckCapacity is an error while no job can be submitted.
func (l *Log) CheckCapacity(ctx context.Context) error {
	room, err := l.Capacity(ctx)
	if err == nil && room.Max > 0 && room.left(toSubmit) < leastEvent {
		return fmt.Errorf("the task log has used %d of the %d bytes that it may have; no job is submitted", room.Used, max(room.Max-room.Short, 0))
	}
	return nil
}

// JobsPerDay is how many jobs of a kind the log holds for each day of its MaxAge, by what a
// life takes as far as this replica knows.
func (l *Log) JobsPerDay(room Capacity, kind subject.Kind, maxAge time.Duration) int64 {
	return int64(float64(room.AdmitLimit()) / float64(l.lives.life(kind)) * float64(24*time.Hour) / float64(maxAge))
}

// UsageBytes is what the usage event of an ordinary job takes in its stream.
const UsageBytes = 700

// readFigures reads the figures. No job is missed: its end is in the log before it leaves
// the queue.
func (l *Log) readFigures(ctx context.Context) (Capacity, error) {
	jobs, err := l.b.QueuedJobs(ctx)
	if err != nil {
		return Capacity{}, err
	}
	s, err := l.b.Stream(ctx, l.b.Names().Tasks())
	if err != nil {
		return Capacity{}, err
	}
	info := s.CachedInfo()
	l.index.compare(info.Created)
	room := Capacity{Used: int64(info.State.Bytes), Max: info.Config.MaxBytes}
	if spare, known := l.b.StoreSpare(info); known { // the queues and the objects are on the same disk
		room.Short = max(-spare, 0)
	}
	left := l.lives.reserve(jobs, l.index.unfinishedByKind())
	room.Reserved, room.Shortest, room.Ends = left.rest, left.shortest, left.ends
	l.metrics.StreamState(info.Config.Name, info.State.Msgs, info.State.Bytes, info.Config.MaxBytes)
	l.metrics.LogCapacity(room.Used, room.Reserved, room.AdmitLimit(), room.SubmitLimit())
	for _, kind := range subject.Kinds {
		l.metrics.LifeBytes(kind, l.lives.life(kind))
	}
	return room, nil
}

// purpose is what room is asked for.
type purpose int

const (
	toAdmit purpose = iota
	toSpare
	toSubmit
	purposes // how many there are
)

// left is the room for a purpose; below zero where there is none.
func (r Capacity) left(p purpose) int64 {
	switch p {
	case toAdmit:
		return r.AdmitLimit() - r.Used - r.Reserved
	case toSpare:
		return r.limit(spareBelow) - r.Used - r.Shortest
	default:
		return r.SubmitLimit() - r.Used - r.Ends
	}
}

// reservations is the owner of the rule whether there is room in the log. One read of the
// figures is for all who ask, about once a second; between two reads this replica grants its
// credit, or one request that exceeds it. What it granted counts until it was released before
// a read: the figures may not have it yet.
type reservations struct {
	read func(context.Context) (Capacity, error)
	now  func() time.Time

	mu      sync.Mutex
	room    Capacity
	began   time.Time       // when the read of room began; zero: there was none
	tried   time.Time       // when the last read began
	held    [purposes]int64 // granted and not released
	before  [purposes]int64 // held when the read of room began
	granted [purposes]int64 // since then
	reading *reading        // nil: none is in flight
}

// reading is a read in flight. err is set before done is closed.
type reading struct {
	began  time.Time
	before [purposes]int64 // held when it began
	since  [purposes]int64 // granted since it began
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// errNoCapacity is the answer where there is not enough room.
var errNoCapacity = errors.New("there is no room in the task log")

// take grants bytes for a purpose until they are released. Without room the error is
// errNoCapacity; any other is of the read without which there is no answer.
func (c *reservations) take(ctx context.Context, p purpose, bytes int64) (Capacity, Release, error) {
	came := c.now()
	for {
		c.mu.Lock()
		room, verdict := c.room, c.judge(p, bytes, came)
		room.Reserved += c.before[toAdmit] + c.granted[toAdmit]
		r := c.reading
		if r == nil && (verdict == unknown || came.Sub(c.tried) > countsFresh) {
			r = c.begin(ctx)
		}
		c.mu.Unlock()
		switch verdict {
		case granted:
			return room, sync.OnceFunc(func() { c.release(p, bytes) }), nil
		case refused:
			return room, nil, errNoCapacity
		case unknown: // until the read in flight has ended
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return room, nil, context.Cause(ctx)
		}
		if r.err != nil {
			return room, nil, r.err
		}
	}
}

func (c *reservations) release(p purpose, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[p] -= bytes
}

type verdict int

const (
	unknown verdict = iota
	granted
	refused
)

// judge needs the lock. Figures are fresh for a caller if they were so when it came: those
// that are read for it are, however long the read takes.
func (c *reservations) judge(p purpose, bytes int64, came time.Time) verdict {
	fresh, left := came.Sub(c.began) <= countsFresh, c.room.left(p)-c.before[p]
	all := c.granted[p] + bytes
	switch {
	case c.began.IsZero():
		return unknown
	case c.room.Max > 0 && fresh && all > left:
		return refused
	case c.room.Max > 0 && all > left/creditShare && (!fresh || c.granted[p] > 0):
		return unknown
	}
	c.granted[p] = all
	c.held[p] += bytes
	if c.reading != nil {
		c.reading.since[p] += bytes
	}
	return granted
}

// begin needs the lock. The read is for all who wait, so it has a limit of its own: it does
// not end with the caller who began it.
func (c *reservations) begin(ctx context.Context) *reading {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), broker.ReadTimeout,
		fmt.Errorf("the room in the task log: no answer within %s", broker.ReadTimeout))
	r := &reading{began: c.now(), before: c.held, done: make(chan struct{}), cancel: cancel}
	c.reading, c.tried = r, r.began
	go c.finish(ctx, r)
	return r
}

// finish reads. What was held when it began, or granted meanwhile, may be in the figures or
// not, and counts in any case.
func (c *reservations) finish(ctx context.Context, r *reading) {
	defer r.cancel()
	room, err := c.read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.room, c.began, c.before, c.granted = room, r.began, r.before, r.since
	}
	c.reading, r.err = nil, err
	close(r.done)
}

// stop ends the read in flight, which callers may have left.
func (c *reservations) stop() {
	c.mu.Lock()
	r := c.reading
	c.mu.Unlock()
	if r != nil {
		r.cancel()
		<-r.done
	}
}
