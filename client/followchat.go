package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/streamread"
)

// ChatItem is one step of a chat. Exactly one of the fields is set.
type ChatItem struct {
	// Event is a change of the chat. The first event of a later attempt starts the reply
	// again.
	Event *genbusv1.ChatEvent
	// Chunk holds new blocks of the reply, which follow those before them in the same
	// attempt. Blocks is empty and BlocksRef set where a block is too large for a
	// message and the object store cannot be read.
	Chunk *genbusv1.ChatChunk
	// Gap says that blocks are missing for good here; the terminal event has the whole
	// reply.
	Gap *genbusv1.ChatGap
}

// Text is what the item adds to the text of the first choice; empty for everything but
// a chunk with text.
func (i ChatItem) Text() string {
	var out strings.Builder
	for _, block := range i.Chunk.GetBlocks() {
		b, err := body.ParseChunk(block)
		if err != nil { // what an upstream sent is for the caller to judge
			continue
		}
		for _, c := range b.GetChoices() {
			if c.GetIndex() == 0 {
				out.WriteString(body.MessageText(c.GetDelta()))
			}
		}
	}
	return out.String()
}

// FollowChat yields what a chat has, and then every new event and chunk, in order: no
// block twice, none missing without a Gap, none of an attempt that a later one has
// replaced. It ends after the terminal event, which comes last and has the whole reply.
//
// What FollowVideo says of lost connections, of ids and of errors holds here too; blocks
// live in the memory of NATS, so a restart of NATS may leave a Gap.
func (c *Client) FollowChat(ctx context.Context, id string) iter.Seq2[ChatItem, error] {
	return func(yield func(ChatItem, error) bool) {
		r := &chunkReader{c: c, id: id, hand: func(i ChatItem) error {
			if !yield(i, nil) {
				return errEnded
			}
			return nil
		}}
		f := &follower{c: c, kind: Chat, id: id, chunks: r, event: r.event}
		if err := f.follow(ctx); !errors.Is(err, errEnded) {
			yield(ChatItem{}, fmt.Errorf("follow %s: %w", id, err))
		}
	}
}

// WaitChat follows a chat to its end and returns it. A chat that failed or was cancelled
// is returned together with the error that it ended with, an *Error.
func (c *Client) WaitChat(ctx context.Context, id string) (*genbusv1.Chat, error) {
	var chat *genbusv1.Chat
	for i, err := range c.FollowChat(ctx, id) {
		if err != nil {
			return chat, err
		}
		if i.Event != nil {
			chat = i.Event.GetChat()
		}
	}
	return chat, ErrorOf(chat.GetError(), id)
}

const (
	// settleWait is how long after a chat's end its last blocks are waited for.
	settleWait = 2 * time.Second
	// unreadableWait is how long the end is held back while the blocks cannot be read.
	unreadableWait = 30 * time.Second
)

// chunkReader puts the blocks of a chat in order.
type chunkReader struct {
	c    *Client
	id   string
	hand func(ChatItem) error

	attempt uint32
	ahead   uint32 // a later attempt, of which blocks were seen and no event
	next    uint64 // index of the block that is wanted next
	seq     uint64 // of the last chunk that was read from the stream
	// end is the terminal event, held back until the blocks before it are here.
	end   *genbusv1.ChatEvent
	until time.Time // when they are given up
	// patience is when they are given up although their stream could not be read.
	patience time.Time
}

// event takes an event of the chat's log.
func (r *chunkReader) event(e jobEvent) error {
	r.enter(e.chat.GetChat().GetAttempt())
	if !e.ended {
		return r.hand(ChatItem{Event: e.chat})
	}
	r.end = e.chat
	r.until = time.Now().Add(max(0, settleWait-max(0, time.Since(e.chat.GetTime().AsTime()))))
	r.patience = time.Now().Add(unreadableWait)
	return nil
}

// enter goes on to a later attempt, whose blocks are counted from 0.
func (r *chunkReader) enter(attempt uint32) {
	if attempt > r.attempt {
		r.attempt, r.next = attempt, 0
	}
}

// waiting reports whether something is known to be still to come: blocks of a chat that
// has ended, or the event that began an attempt.
func (r *chunkReader) waiting() bool { return r.end != nil || r.ahead > r.attempt }

// arrived takes a live chunk. It is not whole when blocks before it are missing.
func (r *chunkReader) arrived(ctx context.Context, m *nats.Msg) (whole bool, err error) {
	chunk, err := DecodeChunk(m.Header, m.Data)
	if err != nil {
		return false, err
	}
	if chunk.GetAttempt() > r.attempt || chunk.GetAttempt() == r.attempt && chunk.GetIndex() > r.next {
		return false, nil
	}
	return true, r.take(ctx, chunk)
}

// catchUp hands on what the stream has beyond the last block, and the end once nothing is
// missing before it, or nothing will come any more.
func (r *chunkReader) catchUp(ctx context.Context) error {
	err := r.readOn(ctx)
	if err != nil && (r.end == nil || !errors.Is(err, ErrBrokerUnavailable) || ctx.Err() != nil || time.Now().Before(r.patience)) {
		return err
	}
	if r.end == nil {
		return nil
	}
	if !r.whole() {
		if err == nil && time.Now().Before(r.until) {
			r.seq = 0 // a stream that was created again counts from 1
			return nil
		}
		if err := r.gap(); err != nil {
			return err
		}
	}
	if err := r.hand(ChatItem{Event: r.end}); err != nil {
		return err
	}
	return errEnded
}

func (r *chunkReader) readOn(ctx context.Context) error {
	for {
		m, err := r.c.read(ctx, r.c.names.Chunks(), streamread.Next(r.c.names.Chunk(r.c.tenant, r.id), r.seq+1))
		if err != nil {
			return gone(err)
		}
		chunk, err := DecodeChunk(m.Header, m.Data)
		if err != nil {
			return err
		}
		if r.early(chunk) {
			return nil
		}
		r.seq = m.Seq
		if err := r.take(ctx, chunk); err != nil {
			return err
		}
	}
}

// early reports whether the event that began a chunk's attempt is still to come. It is
// waited for until the next look: that of an inline chat may have been dropped.
func (r *chunkReader) early(chunk *genbusv1.ChatChunk) bool {
	if chunk.GetAttempt() <= max(r.attempt, r.ahead) {
		return false
	}
	r.ahead = chunk.GetAttempt()
	return true
}

// whole reports whether every block that the end counts was handed on.
func (r *chunkReader) whole() bool {
	return r.attempt != r.end.GetChat().GetAttempt() || r.next >= r.end.GetChat().GetChunkCount()
}

func (r *chunkReader) gap() error {
	return r.hand(ChatItem{Gap: &genbusv1.ChatGap{Reason: "gap", Attempt: r.attempt, Index: r.next}})
}

// take hands on the blocks of a chunk that are new.
func (r *chunkReader) take(ctx context.Context, chunk *genbusv1.ChatChunk) error {
	if chunk.GetAttempt() < r.attempt {
		return nil
	}
	r.enter(chunk.GetAttempt())
	count := max(uint64(len(chunk.GetBlocks())), 1) // one block where it is elsewhere
	if chunk.GetIndex()+count <= r.next {
		return nil
	}
	if chunk.GetIndex() > r.next {
		if err := r.gap(); err != nil {
			return err
		}
		r.next = chunk.GetIndex()
	}
	if seen := r.next - chunk.GetIndex(); seen > 0 {
		chunk.Index, chunk.Blocks = r.next, chunk.GetBlocks()[seen:]
	}
	r.next = chunk.GetIndex() + max(uint64(len(chunk.GetBlocks())), 1)
	if ref := chunk.GetBlocksRef(); ref != nil {
		if block, err := r.c.object(ctx, ref); err == nil {
			chunk.Blocks, chunk.BlocksRef = [][]byte{block}, nil
		}
	}
	return r.hand(ChatItem{Chunk: chunk})
}
