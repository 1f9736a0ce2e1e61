package chatlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// catchUp yields the chunks that the stream has beyond the last one, read from
// its leader. Live copies are not collected during the first pass, which may
// take long, and they are during the second, so that none is missed after it.
func (f *follower) catchUp(ctx context.Context) error {
	if _, err := f.renewed(ctx, freshEnough); err != nil {
		return err
	}
	f.r.pause()
	err := f.readChunks(ctx)
	f.r.resume()
	if err != nil {
		return err
	}
	return f.readChunks(ctx)
}

// renewed looks whether the stream was made anew, whose sequences begin at 1
// again.
func (f *follower) renewed(ctx context.Context, maxAge time.Duration) (bool, error) {
	s, err := f.log.stream(ctx, maxAge)
	if err != nil || s.created == 0 || s.created == f.at.created {
		return false, err
	}
	f.at.created, f.at.seq = s.created, 0
	return true, nil
}

func (f *follower) readChunks(ctx context.Context) error {
	for {
		m, err := f.log.next(ctx, f.name, f.at.seq+1)
		if errors.Is(err, broker.ErrNoMessage) || noStream(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := f.chunk(ctx, m.Seq, m.Header, m.Data); err != nil {
			return err
		}
	}
}

// next reads a chat's first chunk with sequence seq or above, when its turn comes.
func (l *Log) next(ctx context.Context, n subject.TaskName, seq uint64) (broker.Stored, error) {
	select {
	case l.reads <- struct{}{}:
		defer func() { <-l.reads }()
	case <-ctx.Done():
		return broker.Stored{}, context.Cause(ctx)
	}
	names := l.b.Names()
	return l.b.Next(ctx, names.Chunks(), names.Chunk(n.Tenant, n.ID), seq)
}

func noStream(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamNotFound
}

// live takes a republished chunk. It carries its sequence, and that of the chunk
// before it: where this is not the last one seen, the stream is read instead.
func (f *follower) live(ctx context.Context, m *nats.Msg) error {
	seq, before := number(m.Header, jetstream.SequenceHeader), number(m.Header, jetstream.LastSequenceHeader)
	switch {
	case seq <= f.at.seq:
		return nil
	case before > f.at.seq:
		return f.catchUp(ctx)
	default:
		return f.chunk(ctx, seq, m.Header, m.Data)
	}
}

func number(h nats.Header, key string) uint64 {
	n, err := strconv.ParseUint(h.Get(key), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// chunk yields what is new in the chunk that follows the last one in the stream.
// The position moves behind it last, so that what is yielded before it resumes
// with it.
func (f *follower) chunk(ctx context.Context, seq uint64, header nats.Header, data []byte) error {
	c, err := publisher.DecodeChunk(header, data)
	if err != nil {
		f.at.seq = seq
		return nil //nolint:nilerr // what is no chunk is no block either; the next one shows the gap
	}
	if c.GetAttempt() > f.at.attempt {
		// Its event was committed before, and took another way here.
		if err := f.readEvents(ctx); err != nil {
			return err
		}
		f.enter(c.GetAttempt())
	}
	end := c.GetIndex() + count(c)
	if c.GetAttempt() < f.at.attempt || end <= f.at.index || count(c) == 0 {
		f.at.seq = seq
		return nil
	}
	if c.GetIndex() > f.at.index {
		// In a new stream of the same name, the missing ones may be before this one.
		switch renewed, err := f.renewed(ctx, 0); {
		case err != nil:
			return err
		case renewed:
			return f.catchUp(ctx)
		}
		if err := f.missing(c.GetIndex()); err != nil {
			return err
		}
	}
	f.at.seq = seq
	return f.blocks(ctx, c, end)
}

// missing tells of the blocks from the wanted one up to index, which the stream
// does not have.
func (f *follower) missing(index uint64) error {
	gap := &genbusv1.ChatGap{Reason: ReasonGap, Attempt: f.at.attempt, Index: f.at.index}
	f.at.index = index
	return f.emit(Item{Gap: gap})
}

// blocks yields a chunk without those of its blocks that were seen.
func (f *follower) blocks(ctx context.Context, c *genbusv1.ChatChunk, end uint64) error {
	if ref := c.GetBlocksRef(); ref != nil {
		block, err := f.log.bodies.Get(ctx, publisher.BodyOf(ref))
		if errors.Is(err, broker.ErrBodyLost) {
			return f.missing(end)
		}
		if err != nil {
			return fmt.Errorf("block %d: %w", c.GetIndex(), err)
		}
		c.Blocks, c.BlocksRef = [][]byte{block}, nil
	}
	c.Blocks, c.Index = c.GetBlocks()[f.at.index-c.GetIndex():], f.at.index
	f.at.index = end
	return f.emit(Item{Chunk: c})
}

func count(c *genbusv1.ChatChunk) uint64 {
	if c.GetBlocksRef() != nil {
		return 1
	}
	return uint64(len(c.GetBlocks()))
}
