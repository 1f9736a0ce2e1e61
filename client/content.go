package client

import (
	"cmp"
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
// type. It survives lost replies and restarts, and gives up if no byte arrives for Options.Wait. The
// bytes written before an error are correct. An error of genbus is an *Error, such as
// ErrTaskNotFound, ErrContentNotReady, ErrContentExpired, ErrContentBlocked or ErrContentUnavailable.
//
// Content requests the file in parts of 2 MiB. genbus reads a file from its beginning for each part if
// it is archived, or if the upstream does not support ranges. Download large files over HTTP or gRPC.
func (c *Client) Content(ctx context.Context, r *genbusv1.DownloadVideoRequest, w io.Writer) (mediaType string, err error) {
	d := &download{c: c, r: proto.CloneOf(r), w: w, bounded: r.GetLength() > 0, size: -1}
	for t := c.newTrying(); ; {
		at := d.r.GetOffset()
		err := d.part(ctx)
		if d.complete() {
			return d.mediaType, nil
		}
		if d.r.GetOffset() > at {
			t = c.newTrying()
			if err == nil {
				continue
			}
		}
		if errors.Is(err, errWrite) {
			return d.mediaType, err
		}
		if err == nil {
			err = &Error{Code: ErrContentUnavailable, Retry: true, JobID: r.GetId(), Message: fmt.Sprintf("nothing followed byte %d of %s", at, r.GetId())}
		}
		if end := t.again(ctx, err); end != nil {
			return d.mediaType, end
		}
	}
}

// errWrite reports that the caller's writer failed.
var errWrite = errors.New("write the content")

// contentWait bounds the wait for one reply. genbus may read an upstream for 30 s before it has the
// first byte.
const contentWait = 35 * time.Second

// download is one call of Content. r selects the bytes that are missing.
type download struct {
	c               *Client
	r               *genbusv1.DownloadVideoRequest
	w               io.Writer
	bounded         bool  // the caller asked for a number of bytes
	size            int64 // of the file; -1 if unknown
	ended           bool  // genbus has sent the last of the requested bytes
	mediaType, etag string
}

// complete reports whether nothing is missing, even if the last reply was lost.
func (d *download) complete() bool {
	return d.bounded && d.r.GetLength() <= 0 || d.size >= 0 && d.r.GetOffset() >= d.size || d.size < 0 && d.ended
}

// part requests the missing bytes and writes the pieces of the answer.
func (d *download) part(ctx context.Context) error {
	inbox := d.c.nc.NewInbox()
	replies, err := d.c.nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = replies.Unsubscribe() }() // fails only if the connection is closed
	m, err := d.c.question(ctx, d.c.names.Content(d.c.tenant), d.r)
	if err != nil {
		return err
	}
	m.Reply = inbox
	if err := d.c.nc.PublishMsg(m); err != nil {
		return err
	}
	for {
		reply, err := d.next(ctx, replies)
		if err != nil {
			return err
		}
		if e := refusal(reply); e != nil {
			return e
		}
		if err := d.note(reply); err != nil {
			return err
		}
		if end := reply.Header.Get(subject.HeaderEnd); end != "" {
			d.ended = end == subject.EndComplete
			return nil
		}
		if err := d.write(reply); err != nil || d.complete() {
			return err
		}
	}
}

func (d *download) next(ctx context.Context, replies *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, contentWait)
	defer cancel()
	return replies.NextMsgWithContext(ctx)
}

// note keeps what the headers say about the file.
func (d *download) note(reply *nats.Msg) error {
	etag := cmp.Or(reply.Header.Get(subject.HeaderETag), d.etag)
	if d.etag != "" && etag != d.etag {
		return &Error{
			Code: ErrContentUnavailable, JobID: d.r.GetId(),
			Message: fmt.Sprintf("the upstream has changed the file of %s during the download; download it again from its beginning", d.r.GetId()),
		}
	}
	d.etag, d.mediaType = etag, cmp.Or(reply.Header.Get(subject.HeaderContentType), d.mediaType)
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
	if err != nil {
		return fmt.Errorf("%w: %w", errWrite, err)
	}
	if known == 3 {
		d.size = size
	}
	d.r.Offset += int64(n)
	if d.bounded {
		d.r.Length -= int64(n)
	}
	return nil
}
