package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/streamread"
	"github.com/genbus/genbus/internal/subject"
)

// errEnded ends a follower that has nothing more to say.
var errEnded = errors.New("the follower has ended")

// arrivals is how many messages may wait for a follower. What does not fit is read from
// the stream.
const arrivals = 256

// soon is when a follower looks again after a read that failed, or that did not have
// what was heard of.
const soon = 300 * time.Millisecond

// follower reads one job's log: live, and from the stream what is missing. Its methods
// run in the caller's goroutine, and their error ends it.
type follower struct {
	c    *Client
	kind Kind
	id   string
	// event takes the events in order.
	event func(jobEvent) error
	// chunks are those of a chat; nil for a video.
	chunks *chunkReader

	lastError error     // of the connection, when this began
	trouble   error     // of the last look; nil when it went well
	told      time.Time // when the log heard of trouble last
	version   uint64    // of the last event that was handed on
	heard     uint64    // the highest version that was heard of
	seq       uint64    // of the last event that was read from the stream
	subject   string
	live      chan *nats.Msg
	subs      []*nats.Subscription
	dropped   int // messages that found no room
}

func (f *follower) follow(ctx context.Context) (err error) {
	if f.subject, err = f.c.logSubject(f.kind, f.id); err != nil {
		return err
	}
	f.lastError = f.c.nc.LastError()
	status := f.c.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer f.c.nc.RemoveStatusListener(status)
	// Listening starts before anything is read, so that nothing falls between the two.
	defer f.ignore()
	if err := f.listen(); err != nil {
		return err
	}
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return f.stopped(ctx)
		case s := <-status:
			if s == nats.CLOSED {
				return nats.ErrConnectionClosed
			}
			f.reconnected()
			look.Reset(0)
		case <-look.C:
			after, err := f.look(ctx)
			if err != nil {
				return err
			}
			look.Reset(after)
		case m := <-f.live:
			whole, err := f.arrived(ctx, m)
			if err != nil {
				return err
			}
			if !whole {
				look.Reset(0)
			}
		}
	}
}

func (f *follower) listen() error {
	f.live = make(chan *nats.Msg, arrivals)
	subjects := []string{f.c.names.LiveTask(subject.Kind(f.kind), f.c.tenant, f.id)}
	if f.chunks != nil {
		subjects = append(subjects, f.c.names.LiveChunk(f.c.tenant, f.id))
	}
	for _, s := range subjects {
		sub, err := f.c.nc.ChanSubscribe(s, f.live)
		if err != nil {
			return fmt.Errorf("listen to %s: %w", s, err)
		}
		f.subs = append(f.subs, sub)
	}
	return nil
}

func (f *follower) ignore() {
	for _, s := range f.subs {
		_ = s.Unsubscribe() // a closed connection has no subscription left
	}
}

// reconnected makes the next check a full one: what was published meanwhile had no
// subscriber, and the stream of chunks may be another one.
func (f *follower) reconnected() {
	if f.chunks != nil {
		f.chunks.seq = 0
	}
}

// look reads what is missing, and says when to look again.
func (f *follower) look(ctx context.Context) (time.Duration, error) {
	err := f.catchUp(ctx)
	hopeless := f.hopeless(err)
	if err == nil && f.chunks != nil {
		// The chunks are in the memory of NATS: their stream may be gone, and comes back.
		err = f.chunks.catchUp(ctx)
	}
	switch {
	case errors.Is(err, errEnded):
		return 0, err
	case ctx.Err() != nil:
		return 0, f.stopped(ctx)
	case f.c.nc.IsClosed():
		return 0, nats.ErrConnectionClosed
	case errors.Is(err, ErrBrokerUnavailable) && !hopeless:
		f.warn(err)
		return soon, nil
	case err != nil:
		return 0, err
	}
	f.trouble = nil
	switch {
	case f.version < f.heard || f.chunks != nil && f.chunks.waiting():
		return soon, nil
	default:
		return f.c.reread, nil
	}
}

// hopeless reports whether err says that the log cannot be read, now or later: the server
// has refused it to this user since this began, or the stream has never been there.
func (f *follower) hopeless(err error) bool {
	var api *jetstream.APIError
	noStream := errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNotFound
	return f.seq == 0 && f.heard == 0 && err != nil && (noStream || f.c.refusedSince(f.lastError, f.c.names.Tasks()) != nil)
}

// stopped is the end of ctx, and what kept the follower from reading until then.
func (f *follower) stopped(ctx context.Context) error {
	if f.trouble != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), f.trouble)
	}
	return context.Cause(ctx)
}

// warnEvery is how often the log hears of the same trouble.
const warnEvery = time.Minute

func (f *follower) warn(err error) {
	f.trouble = err
	if time.Since(f.told) >= warnEvery {
		f.told = time.Now()
		f.c.log.Warn("could not follow job, retrying", "job_id", f.id, "error", err)
	}
}

// catchUp hands on what the log has beyond the last event. Where nothing is new this is
// one read.
func (f *follower) catchUp(ctx context.Context) error {
	last, err := f.c.read(ctx, f.c.names.Tasks(), streamread.Last(f.subject))
	if errors.Is(err, streamread.ErrNoMessage) {
		if f.seq > 0 || f.version > 0 {
			return fmt.Errorf("%w (it was erased)", notFound(f.kind, f.id))
		}
		return nil
	}
	if err != nil {
		return err
	}
	e, err := decodeEvent(f.kind, last.Header, last.Data)
	if err != nil {
		return err
	}
	if e.version <= f.version {
		f.seq = last.Seq
		return f.settled(e)
	}
	for f.seq < last.Seq {
		m, err := f.c.read(ctx, f.c.names.Tasks(), streamread.Next(f.subject, f.seq+1))
		if err != nil {
			return gone(err)
		}
		if e, err = decodeEvent(f.kind, m.Header, m.Data); err != nil {
			return err
		}
		f.seq = m.Seq
		if err := f.take(e); err != nil {
			return err
		}
	}
	return nil
}

// settled ends a follower whose caller knows the job's end already.
func (f *follower) settled(last jobEvent) error {
	if last.ended && f.chunks == nil {
		return errEnded
	}
	return nil
}

// gone is for a message that was there a moment ago: the next look tells why it is not.
func gone(err error) error {
	if errors.Is(err, streamread.ErrNoMessage) {
		return nil
	}
	return err
}

// arrived takes a live message. It is not whole when something before it is missing.
func (f *follower) arrived(ctx context.Context, m *nats.Msg) (whole bool, err error) {
	if f.chunks != nil && m.Subject == f.c.names.LiveChunk(f.c.tenant, f.id) {
		whole, err = f.chunks.arrived(ctx, m)
	} else {
		whole, err = f.heardOf(m)
	}
	if err != nil || !whole {
		return false, err
	}
	return !f.lostSome() && (f.chunks == nil || f.chunks.end == nil), nil
}

func (f *follower) heardOf(m *nats.Msg) (whole bool, err error) {
	e, err := decodeEvent(f.kind, m.Header, m.Data)
	if err != nil {
		return false, err
	}
	f.heard = max(f.heard, e.version)
	if e.version > f.version+1 {
		return false, nil
	}
	return true, f.take(e)
}

// take hands on an event that is new.
func (f *follower) take(e jobEvent) error {
	if e.version <= f.version {
		return nil
	}
	f.version = e.version
	return f.event(e)
}

// lostSome reports whether messages found no room since it was asked last.
func (f *follower) lostSome() bool {
	before := f.dropped
	f.dropped = 0
	for _, s := range f.subs {
		n, _ := s.Dropped() // a subscription that has ended counts no more
		f.dropped += n
	}
	return f.dropped > before
}
