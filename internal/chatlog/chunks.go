package chatlog

import (
	"context"
	"errors"
	"fmt"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
)

func (f *follower) drainChunks(ctx context.Context) (more bool, err error) {
	items, err := f.chunks.Next(ctx)
	if epoch := f.chunks.Epoch(); epoch != f.at.created && epoch != 0 {
		// The stream was recreated, and its sequences start at 1 again.
		f.at.created, f.at.seq = epoch, 0
	}
	for _, it := range items {
		if renewed, err := f.chunk(ctx, it); err != nil || renewed {
			return true, err
		}
	}
	return len(items) > 0, err
}

// chunk yields the new blocks of the next chunk in the stream. It advances the position last, so
// that the token of a preceding item resumes with this chunk. If the stream was recreated, chunk
// yields nothing, because the missing blocks may precede the chunk.
func (f *follower) chunk(ctx context.Context, it item) (renewed bool, err error) {
	c := it.Value
	if c == nil {
		f.at.seq = it.Seq
		return false, nil
	}
	if c.GetAttempt() > f.at.attempt {
		// The event of the attempt was committed first, but it arrives over another subscription.
		if err := f.eventOf(ctx, c.GetAttempt()); err != nil {
			return false, err
		}
		f.enter(c.GetAttempt())
	}
	end := c.GetIndex() + count(c)
	if c.GetAttempt() < f.at.attempt || end <= f.at.index || count(c) == 0 {
		f.at.seq = it.Seq
		return false, nil
	}
	if c.GetIndex() > f.at.index {
		if renewed, err := f.renewed(ctx); renewed || err != nil {
			return renewed, err
		}
		if err := f.missing(c.GetIndex()); err != nil {
			return false, err
		}
	}
	f.at.seq = it.Seq
	return false, f.blocks(ctx, c, end)
}

// renewed reports whether the stream was recreated. If so, it makes the tail read the new stream.
func (f *follower) renewed(ctx context.Context) (bool, error) {
	epoch := int64(0)
	err := f.log.tails.Retry(ctx, func(ctx context.Context) error {
		info, err := f.log.stream.info(ctx, 0)
		epoch = created(info)
		return err
	})
	if err != nil || epoch == 0 || epoch == f.at.created {
		return false, err
	}
	return true, f.chunks.Sync(ctx)
}

// missing yields a gap from the next block up to index.
func (f *follower) missing(index uint64) error {
	gap := &genbusv1.ChatGap{Reason: ReasonGap, Attempt: f.at.attempt, Index: f.at.index}
	f.at.index = index
	return f.emit(Item{Gap: gap})
}

// blocks yields the unseen blocks of a chunk.
func (f *follower) blocks(ctx context.Context, c *genbusv1.ChatChunk, end uint64) error {
	data := c.GetBlocks()
	if ref := c.GetBlocksRef(); ref != nil {
		block, err := f.stored(ctx, ref)
		if errors.Is(err, broker.ErrBodyLost) {
			return f.missing(end)
		}
		if err != nil {
			return fmt.Errorf("block %d: %w", c.GetIndex(), err)
		}
		data = [][]byte{block}
	}
	if c.GetBlocksRef() != nil || c.GetIndex() != f.at.index { // do not modify the shared chunk
		data = data[f.at.index-c.GetIndex():]
		c = &genbusv1.ChatChunk{Id: c.GetId(), Attempt: c.GetAttempt(), Index: f.at.index, Time: c.GetTime(), Blocks: data}
	}
	f.at.index = end
	return f.emit(Item{Chunk: c})
}

// stored reads a block that is in the object store because it is too large for a message.
func (f *follower) stored(ctx context.Context, ref *genbusv1.BlobRef) (block []byte, err error) {
	err = f.log.tails.Retry(ctx, func(ctx context.Context) (err error) {
		block, err = f.log.bodies.Get(ctx, publisher.BodyOf(ref))
		return err
	})
	return block, err
}

func count(c *genbusv1.ChatChunk) uint64 {
	if c.GetBlocksRef() != nil {
		return 1
	}
	return uint64(len(c.GetBlocks()))
}
