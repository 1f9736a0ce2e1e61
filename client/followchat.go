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

// ChatItem is one step of a chat. Exactly one field is set.
type ChatItem struct {
	// Event is a change of the chat. The first event of a new attempt restarts the reply.
	Event *genbusv1.ChatEvent
	// Chunk holds new blocks of the reply, which follow the earlier blocks of the same attempt. If
	// a block is too large for a message and the object store cannot be read, Blocks is empty and
	// BlocksRef is set.
	Chunk *genbusv1.ChatChunk
	// Gap reports blocks that are lost. The terminal event has the complete reply.
	Gap *genbusv1.ChatGap
}

// Text returns the text that the item adds to the first choice; empty unless the item is a chunk
// with text.
func (i ChatItem) Text() string {
	var out strings.Builder
	for _, block := range i.Chunk.GetBlocks() {
		b, err := body.ParseChunk(block)
		if err != nil { // skip blocks that are not valid JSON; the caller gets them in Chunk
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

// FollowChat yields a chat's events and chunks in order, from the first. No block appears twice, a
// missing block is reported as a Gap, and blocks of replaced attempts are skipped. It ends after
// the terminal event, which has the complete reply.
//
// Reconnecting, unknown IDs and errors work as in FollowVideo, with ErrChatNotFound. NATS keeps
// blocks in memory, so restarting NATS may cause a Gap.
func (c *Client) FollowChat(ctx context.Context, id string) iter.Seq2[ChatItem, error] {
	return func(yield func(ChatItem, error) bool) {
		r := &chunkReader{c: c, id: id, deliver: func(i ChatItem) error {
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

// WaitChat follows a chat to its end and returns it. If the chat failed or was cancelled, it
// returns the chat and its error, an *Error. If following fails, it returns the latest state seen,
// or nil, and the error of FollowChat.
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
	// endWait bounds the wait for the last blocks after a chat's end.
	endWait = 2 * time.Second
	// unreadableWait bounds how long the end is held back while the blocks cannot be read.
	unreadableWait = 30 * time.Second
)

// chunkReader puts the blocks of a chat in order.
type chunkReader struct {
	c       *Client
	id      string
	deliver func(ChatItem) error

	attempt        uint32
	pendingAttempt uint32 // a later attempt whose blocks arrived before its event
	next           uint64 // index of the next block
	seq            uint64 // of the last chunk read from the stream
	// end is the terminal event, held back until all blocks before it have arrived.
	end   *genbusv1.ChatEvent
	until time.Time // when missing blocks become a gap
	// patience is when the end is delivered even if the chunk stream cannot be read.
	patience time.Time
}

// event handles an event of the chat's log.
func (r *chunkReader) event(e jobEvent) error {
	r.enter(e.chat.GetChat().GetAttempt())
	if !e.ended {
		return r.deliver(ChatItem{Event: e.chat})
	}
	r.end = e.chat
	r.until = time.Now().Add(max(0, endWait-max(0, time.Since(e.chat.GetTime().AsTime()))))
	r.patience = time.Now().Add(unreadableWait)
	return nil
}

// enter switches to a later attempt, whose blocks count from 0.
func (r *chunkReader) enter(attempt uint32) {
	if attempt > r.attempt {
		r.attempt, r.next = attempt, 0
	}
}

// expectsMore reports whether more is known to come: blocks of an ended chat, or the event that
// began an attempt.
func (r *chunkReader) expectsMore() bool { return r.end != nil || r.pendingAttempt > r.attempt }

// arrived handles a live chunk. whole is false if blocks before it are missing.
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

// catchUp delivers the stream's chunks after the last block. It then delivers the end, if it has
// arrived, once all blocks are delivered or no more can come.
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
			r.seq = 0 // a recreated stream counts from 1
			return nil
		}
		if err := r.gap(); err != nil {
			return err
		}
	}
	if err := r.deliver(ChatItem{Event: r.end}); err != nil {
		return err
	}
	return errEnded
}

func (r *chunkReader) readOn(ctx context.Context) error {
	for {
		m, err := r.c.read(ctx, r.c.names.Chunks(), streamread.Next(r.c.names.Chunk(r.c.tenant, r.id), r.seq+1))
		if err != nil {
			return ignoreMissing(err)
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

// early reports whether the event that began the chunk's attempt is still missing. It reports this
// only once per attempt, because an inline chat may have dropped the event.
func (r *chunkReader) early(chunk *genbusv1.ChatChunk) bool {
	if chunk.GetAttempt() <= max(r.attempt, r.pendingAttempt) {
		return false
	}
	r.pendingAttempt = chunk.GetAttempt()
	return true
}

// whole reports whether every block that the end counts was delivered.
func (r *chunkReader) whole() bool {
	return r.attempt != r.end.GetChat().GetAttempt() || r.next >= r.end.GetChat().GetChunkCount()
}

func (r *chunkReader) gap() error {
	return r.deliver(ChatItem{Gap: &genbusv1.ChatGap{Reason: "gap", Attempt: r.attempt, Index: r.next}})
}

// take delivers the new blocks of a chunk.
func (r *chunkReader) take(ctx context.Context, chunk *genbusv1.ChatChunk) error {
	if chunk.GetAttempt() < r.attempt {
		return nil
	}
	r.enter(chunk.GetAttempt())
	count := max(uint64(len(chunk.GetBlocks())), 1) // a stored block counts as one
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
	return r.deliver(ChatItem{Chunk: chunk})
}
