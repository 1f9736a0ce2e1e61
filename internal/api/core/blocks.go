package core

import (
	"context"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// streamQueued queues a chat and streams its blocks.
func (c *Chats) streamQueued(ctx context.Context, r admission.Request, to Sink) error {
	e, err := c.jobs.Submit(ctx, r)
	if err != nil {
		return err
	}
	to.Job(e.Job.GetId())
	return c.watcher.Count(subject.Chat, r.Ingress, func() error { return c.streamLogged(ctx, e, to) })
}

func (c *Chats) streamLogged(ctx context.Context, e joblog.Entry, to Sink) error {
	ctx, release := c.watcher.follow(ctx)
	defer release()
	if _, err := c.jobs.waitLogged(ctx, e); err != nil {
		return err
	}
	b := &blocks{chats: c, name: e.Name(), to: to}
	for item, err := range c.watcher.chats.Follow(ctx, e.Name(), "") {
		switch {
		case err != nil:
			return following(Explain(ctx, e.Name(), err))
		case item.Gap != nil:
			b.missing = true
		case item.Chunk != nil:
			err = b.chunk(item.Chunk)
		case item.Event != nil && item.Event.Terminal():
			return b.end(ctx, *item.Event)
		}
		if err != nil {
			return err
		}
	}
	return errcode.New(errcode.Internal, "the events of %s ended before the job did", e.Job.GetId()).ForJob(e.Job.GetId())
}

// blocks passes the chunks of one chat on as a gapless sequence of blocks, or not at all: a caller
// cannot be told to forget blocks it was sent.
type blocks struct {
	chats   *Chats
	name    subject.JobName
	to      Sink
	attempt uint32
	next    uint64 // index of the next block
	missing bool   // some blocks are gone; the terminal event has the reply
}

func (b *blocks) chunk(chunk *genbusv1.ChatChunk) error {
	if chunk.GetAttempt() < b.attempt {
		return nil
	}
	if chunk.GetAttempt() > b.attempt {
		if b.next > 0 {
			return b.torn("attempt %d of %s was interrupted after %d blocks and is retried", b.attempt, b.name.ID, b.next)
		}
		b.attempt, b.missing = chunk.GetAttempt(), false
	}
	if b.missing = b.missing || chunk.GetIndex() > b.next; b.missing {
		return nil
	}
	data := chunk.GetBlocks()
	// Repeats begin below the next index.
	for skip := min(b.next-chunk.GetIndex(), uint64(len(data))); skip < uint64(len(data)); skip++ {
		if err := b.to.Block(data[skip], b.next, false); err != nil {
			return err
		}
		b.next++
	}
	return nil
}

func (b *blocks) end(ctx context.Context, e joblog.Entry) error {
	job := ChatOf(e)
	if err := ended(job); err != nil {
		return err
	}
	whole := !b.missing && b.attempt == job.GetAttempt() && b.next >= job.GetChunkCount()
	switch {
	case whole && b.next > 0:
		return nil
	case b.next > 0:
		return b.torn("blocks of %s from %d on are no longer stored", b.name.ID, b.next)
	default:
		return b.whole(ctx, job)
	}
}

// whole sends the stored reply as new blocks. This is needed if the job ended long ago and its
// chunks are gone, or if it never had any.
func (b *blocks) whole(ctx context.Context, job *genbusv1.Chat) error {
	raw, err := b.chats.Reply(ctx, job)
	if err != nil {
		return err
	}
	made, err := asBlocks(raw)
	if err != nil {
		return errcode.From(err).ForJob(b.name.ID)
	}
	for i, data := range made {
		if err := b.to.Block(data, uint64(i), false); err != nil {
			return err
		}
	}
	return nil
}

func (b *blocks) torn(format string, args ...any) error {
	f := errcode.New(errcode.StreamTruncated, format, args...).ForJob(b.name.ID)
	f.Message += "; send the same request again, or read the whole reply by its ID"
	return f
}

// asBlocks converts a reply to blocks of a stream: one with all messages and finish reasons, and
// one with the usage, if any.
func asBlocks(raw []byte) ([][]byte, error) {
	reply, err := body.ParseCompletion(raw)
	if err != nil {
		return nil, err
	}
	chunk := &genbusv1.ChatCompletionChunk{
		Id: reply.GetId(), Object: "chat.completion.chunk", Created: reply.GetCreated(), Model: reply.GetModel(),
		ServiceTier: reply.ServiceTier, SystemFingerprint: reply.SystemFingerprint, ExtraJson: reply.GetExtraJson(),
	}
	for _, choice := range reply.GetChoices() {
		numberCalls(choice.GetMessage())
		chunk.Choices = append(chunk.Choices, &genbusv1.ChatChunkChoice{
			Index: choice.GetIndex(), Delta: choice.GetMessage(), FinishReason: choice.FinishReason,
			Logprobs: choice.GetLogprobs(), ExtraJson: choice.GetExtraJson(),
		})
	}
	chunks := []*genbusv1.ChatCompletionChunk{chunk}
	if reply.GetUsage() != nil {
		chunks = append(chunks, &genbusv1.ChatCompletionChunk{
			Id: reply.GetId(), Object: "chat.completion.chunk", Created: reply.GetCreated(), Model: reply.GetModel(), Usage: reply.GetUsage(),
		})
	}
	return encodeChunks(chunks)
}

func encodeChunks(chunks []*genbusv1.ChatCompletionChunk) ([][]byte, error) {
	out := make([][]byte, 0, len(chunks))
	for _, c := range chunks {
		data, err := body.ChunkJSON(c)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

// numberCalls sets the index by which stream readers join tool calls.
func numberCalls(m *genbusv1.ChatMessage) {
	for i, call := range m.GetToolCalls() {
		if call.Index == nil {
			n := int32(i)
			call.Index = &n
		}
	}
}
