package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/streamread"
	"github.com/genbus/genbus/internal/subject"
)

// readWait bounds the wait for the answer to one read.
const readWait = 5 * time.Second

// GetVideo returns a task's current state, from its last event in the stream GENBUS_TASKS. It
// returns ErrTaskNotFound if the tenant has no task with this ID, or not yet: a published request
// may still wait for admission. It returns ErrBrokerUnavailable if the stream cannot be read.
func (c *Client) GetVideo(ctx context.Context, id string) (*genbusv1.VideoTask, error) {
	e, err := c.last(ctx, Video, id)
	return e.video.GetTask(), err
}

// GetChat returns a chat's current state, like GetVideo, with ErrChatNotFound.
func (c *Client) GetChat(ctx context.Context, id string) (*genbusv1.Chat, error) {
	e, err := c.last(ctx, Chat, id)
	return e.chat.GetChat(), err
}

// Reply returns the complete reply of a completed chat: the upstream's JSON, unchanged. It is nil
// if the chat has no reply. A reply above 256 KiB is read from the tenant's object store, which
// needs permissions there; this takes at most a minute unless ctx has a deadline.
func (c *Client) Reply(ctx context.Context, chat *genbusv1.Chat) ([]byte, error) {
	if chat.GetReplyRef() == nil {
		return chat.GetReplyJson(), nil
	}
	reply, err := c.object(ctx, chat.GetReplyRef())
	if err != nil {
		return nil, fmt.Errorf("read the reply of %s: %w", chat.GetId(), err)
	}
	return reply, nil
}

// objectWait bounds the reading of an object if the caller's context has no deadline. The limit in
// nats.go applies to single messages.
const objectWait = time.Minute

// object reads an object and checks its SHA-256 against ref.
func (c *Client) object(ctx context.Context, ref *genbusv1.BlobRef) ([]byte, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, objectWait)
		defer cancel()
	}
	store, err := c.js.ObjectStore(ctx, ref.GetBucket())
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", ref.GetBucket(), err)
	}
	data, err := store.GetBytes(ctx, ref.GetName())
	// The cluster node that answers may not have the object yet.
	for wait := firstPause; errors.Is(err, jetstream.ErrObjectNotFound) && wait < maxPause && pause(ctx, wait) == nil; wait *= 2 {
		data, err = store.GetBytes(ctx, ref.GetName())
	}
	if sum := sha256.Sum256(data); err == nil && len(ref.GetSha256()) > 0 && !bytes.Equal(sum[:], ref.GetSha256()) {
		err = errors.New("the object is not the one stored under this name")
	}
	if err != nil {
		return nil, fmt.Errorf("object %s of %s: %w", ref.GetName(), ref.GetBucket(), err)
	}
	return data, nil
}

// last returns a job's last event.
func (c *Client) last(ctx context.Context, kind Kind, id string) (jobEvent, error) {
	subj, err := c.logSubject(kind, id)
	if err != nil {
		return jobEvent{}, err
	}
	m, err := c.read(ctx, c.names.Tasks(), streamread.Last(subj))
	if errors.Is(err, streamread.ErrNoMessage) {
		return jobEvent{}, notFound(kind, id)
	}
	if err != nil {
		return jobEvent{}, fmt.Errorf("read job %s: %w", id, err)
	}
	return decodeEvent(kind, m.Header, m.Data)
}

// logSubject returns the subject of a job's events. A malformed ID is not found.
func (c *Client) logSubject(kind Kind, id string) (string, error) {
	if k, ok := subject.KindOf(id); !ok || Kind(k) != kind {
		return "", notFound(kind, id)
	}
	return c.names.Task(subject.Kind(kind), c.tenant, id), nil
}

func notFound(kind Kind, id string) *Error {
	code, noun := ErrTaskNotFound, "video task"
	if kind == Chat {
		code, noun = ErrChatNotFound, "chat"
	}
	return &Error{Code: code, JobID: id, Message: fmt.Sprintf("tenant has no %s %.80q", noun, id)}
}

// read reads one message of a stream. Errors: streamread.ErrNoMessage without a match, and an
// *Error (ErrBrokerUnavailable) if the stream cannot be read.
func (c *Client) read(ctx context.Context, stream string, r streamread.Request) (streamread.Message, error) {
	data, err := r.Encode()
	if err != nil {
		return streamread.Message{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readWait, fmt.Errorf("no answer within %s", readWait))
	defer cancel()
	reply, err := c.nc.RequestWithContext(ctx, streamread.Subject(stream), data)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return streamread.Message{}, unreadable(stream, err, lost(c.nc))
	}
	m, err := streamread.Decode(reply.Data)
	if errors.Is(err, streamread.ErrRefused) {
		return streamread.Message{}, unreadable(stream, err, "")
	}
	return m, err
}

func unreadable(stream string, err error, why string) *Error {
	return &Error{Code: ErrBrokerUnavailable, Retry: true, Err: err, Message: fmt.Sprintf("read stream %s: %v%s", stream, err, why)}
}
