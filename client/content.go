package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
)

// Content writes a file of a completed video, or the part that r selects, to w, and returns its media
// type. It survives lost replies and restarts, and fails if no byte arrives within Options.Wait.
// Errors of genbus are *Error: ErrTaskNotFound, ErrContentNotReady, ErrContentExpired,
// ErrContentBlocked, ErrContentUnavailable and those of all calls. Bytes that were written before an
// error are a correct beginning.
func (c *Client) Content(ctx context.Context, r *genbusv1.DownloadVideoRequest, w io.Writer) (mediaType string, err error) {
	d := &download{c: c, r: proto.CloneOf(r), w: w, bounded: r.GetLength() > 0}
	last, wait := time.Now(), firstPause
	for {
		at := d.r.GetOffset()
		end, err := d.part(ctx)
		if d.r.GetOffset() > at {
			last, wait = time.Now(), firstPause
		}
		refused, isRefusal := errors.AsType[*Error](err)
		switch {
		case end == subject.EndComplete, d.complete:
			return d.mediaType, nil
		case end == subject.EndMore:
			continue
		case isRefusal && !again(refused) && refused.Code != ErrContentUnavailable, errors.Is(err, errWrite):
			return d.mediaType, err
		case final(err), time.Since(last) >= c.wait && isRefusal:
			return d.mediaType, err
		case time.Since(last) >= c.wait:
			return d.mediaType, noAnswer(err, lost(c.nc))
		}
		if stopped := pause(ctx, wait); stopped != nil {
			return d.mediaType, fmt.Errorf("%w: %w", stopped, err)
		}
		wait = min(2*wait, maxPause)
	}
}

// errWrite reports that the caller's writer failed.
var errWrite = errors.New("write the content")

// download is one call of Content. r selects the bytes that are missing.
type download struct {
	c               *Client
	r               *genbusv1.DownloadVideoRequest
	w               io.Writer
	bounded         bool // the caller asked for a number of bytes
	complete        bool // nothing is missing, even if the last reply was lost
	mediaType, etag string
}

// part requests the missing bytes and writes the pieces of the answer. It returns the end that the
// last reply names.
func (d *download) part(ctx context.Context) (end string, err error) {
	inbox := d.c.nc.NewInbox()
	replies, err := d.c.nc.SubscribeSync(inbox)
	if err != nil {
		return "", err
	}
	defer func() { _ = replies.Unsubscribe() }() // fails only if the connection is closed
	m, err := d.c.question(ctx, d.c.names.Content(d.c.tenant), d.r)
	if err != nil {
		return "", err
	}
	m.Reply = inbox
	if err := d.c.nc.PublishMsg(m); err != nil {
		return "", err
	}
	for {
		reply, err := d.next(ctx, replies)
		if err != nil {
			return "", err
		}
		if e := refusal(reply); e != nil {
			return "", e
		}
		if err := d.first(reply); err != nil {
			return "", err
		}
		if end := reply.Header.Get(subject.HeaderEnd); end != "" {
			return end, nil
		}
		if err := d.write(reply); err != nil {
			return "", err
		}
	}
}

func (d *download) next(ctx context.Context, replies *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptWait)
	defer cancel()
	return replies.NextMsgWithContext(ctx)
}

// first notes the headers of an answer's first reply.
func (d *download) first(reply *nats.Msg) error {
	etag := reply.Header.Get(subject.HeaderETag)
	if d.etag != "" && etag != "" && etag != d.etag {
		return &Error{Code: ErrContentExpired, JobID: d.r.GetId(), Message: fmt.Sprintf("the file of %s has changed; download it again from the beginning", d.r.GetId())}
	}
	if etag != "" {
		d.etag = etag
	}
	if t := reply.Header.Get(subject.HeaderContentType); t != "" {
		d.mediaType = t
	}
	return nil
}

// write writes a piece that begins at the first missing byte.
func (d *download) write(reply *nats.Msg) error {
	var from, to, size int64
	at := reply.Header.Get(subject.HeaderContentRange)
	known, err := fmt.Sscanf(at, "bytes %d-%d/%d", &from, &to, &size) // the size may be "*"
	if known < 2 || from != d.r.GetOffset() {
		return fmt.Errorf("a reply with %q came at byte %d (%w)", at, d.r.GetOffset(), err)
	}
	n, err := d.w.Write(reply.Data)
	d.r.Offset += int64(n)
	if d.bounded {
		d.r.Length -= int64(n)
	}
	d.complete = d.bounded && d.r.GetLength() <= 0 || known == 3 && d.r.GetOffset() >= size
	if err != nil {
		return fmt.Errorf("%w: %w", errWrite, err)
	}
	return nil
}
