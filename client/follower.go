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

// errEnded stops a follower after its last event.
var errEnded = errors.New("the follower has ended")

// arrivals bounds the live messages buffered for a follower. Messages that do not fit are read from
// the stream.
const arrivals = 256

// soon is the delay before the next look if a read failed or lacked an announced event.
const soon = 300 * time.Millisecond

// follower reads one job's log: live events, and missing ones from the stream. Its methods run in
// the caller's goroutine, and an error from any of them ends it.
type follower struct {
	c    *Client
	kind Kind
	id   string
	// event handles events in order.
	event func(jobEvent) error
	// chunks reads the chunks of a chat; nil for a video.
	chunks *chunkReader

	lastError error     // of the connection, when following began
	trouble   error     // error of the last look, or nil
	loggedAt  time.Time // when trouble was last logged
	version   uint64    // of the last delivered event
	announced uint64    // highest version announced by a live event
	seq       uint64    // of the last event read from the stream
	subject   string
	live      chan *nats.Msg
	subs      []*nats.Subscription
	dropped   int // messages that did not fit into live
}

func (f *follower) follow(ctx context.Context) (err error) {
	if f.subject, err = f.c.logSubject(f.kind, f.id); err != nil {
		return err
	}
	f.lastError = f.c.nc.LastError()
	status := f.c.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer f.c.nc.RemoveStatusListener(status)
	// Subscribe before the first read, so that no event falls between the two.
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
		_ = s.Unsubscribe() // fails only on a closed connection, which has no subscriptions
	}
}

// reconnected restarts reading chunks from the first sequence: NATS may have recreated their
// stream.
func (f *follower) reconnected() {
	if f.chunks != nil {
		f.chunks.seq = 0
	}
}

// look reads missing events and chunks and returns the delay until the next look.
func (f *follower) look(ctx context.Context) (time.Duration, error) {
	err := f.catchUp(ctx)
	hopeless := f.hopeless(err)
	if err == nil && f.chunks != nil {
		// The chunk stream is in NATS memory: if it is missing, genbus recreates it, so keep
		// looking.
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
	case f.version < f.announced || f.chunks != nil && f.chunks.expectsMore():
		return soon, nil
	default:
		return f.c.reread, nil
	}
}

// hopeless reports whether the log can never be read: no event has been seen, and the stream does
// not exist or the server has denied this user access to it since following began.
func (f *follower) hopeless(err error) bool {
	var api *jetstream.APIError
	noStream := errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNotFound
	return f.seq == 0 && f.announced == 0 && err != nil && (noStream || f.c.refusedSince(f.lastError, f.c.names.Tasks()) != nil)
}

// stopped returns the cause of ctx's end, with the last trouble.
func (f *follower) stopped(ctx context.Context) error {
	if f.trouble != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), f.trouble)
	}
	return context.Cause(ctx)
}

// warnEvery is the interval at which the same trouble is logged.
const warnEvery = time.Minute

func (f *follower) warn(err error) {
	f.trouble = err
	if time.Since(f.loggedAt) >= warnEvery {
		f.loggedAt = time.Now()
		f.c.log.Warn("could not follow job, retrying", "job_id", f.id, "error", err)
	}
}

// catchUp delivers the log's events after the last delivered one. Without new events it takes one
// read.
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
		return f.endIfComplete(e)
	}
	for f.seq < last.Seq {
		m, err := f.c.read(ctx, f.c.names.Tasks(), streamread.Next(f.subject, f.seq+1))
		if err != nil {
			return ignoreMissing(err)
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

// endIfComplete ends a follower whose caller already has the terminal event.
func (f *follower) endIfComplete(last jobEvent) error {
	if last.ended && f.chunks == nil {
		return errEnded
	}
	return nil
}

// ignoreMissing ignores that a message disappeared between two reads: the next look finds out why.
func ignoreMissing(err error) error {
	if errors.Is(err, streamread.ErrNoMessage) {
		return nil
	}
	return err
}

// arrived handles a live message. whole is false if something before it is missing.
func (f *follower) arrived(ctx context.Context, m *nats.Msg) (whole bool, err error) {
	if f.chunks != nil && m.Subject == f.c.names.LiveChunk(f.c.tenant, f.id) {
		whole, err = f.chunks.arrived(ctx, m)
	} else {
		whole, err = f.eventArrived(m)
	}
	if err != nil || !whole {
		return false, err
	}
	return !f.lostSome() && (f.chunks == nil || f.chunks.end == nil), nil
}

func (f *follower) eventArrived(m *nats.Msg) (whole bool, err error) {
	e, err := decodeEvent(f.kind, m.Header, m.Data)
	if err != nil {
		return false, err
	}
	f.announced = max(f.announced, e.version)
	if e.version > f.version+1 {
		return false, nil
	}
	return true, f.take(e)
}

// take delivers an event unless it was delivered before.
func (f *follower) take(e jobEvent) error {
	if e.version <= f.version {
		return nil
	}
	f.version = e.version
	return f.event(e)
}

// lostSome reports whether the subscriptions dropped messages since the last call.
func (f *follower) lostSome() bool {
	before := f.dropped
	f.dropped = 0
	for _, s := range f.subs {
		n, _ := s.Dropped() // an ended subscription drops nothing
		f.dropped += n
	}
	return f.dropped > before
}
