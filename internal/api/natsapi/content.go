package natsapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/core"
	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Limits of the replies to one request for content. NATS has no flow control between genbus and the
// caller, so the caller asks for the rest when it has read these replies.
const (
	maxPiece = 128 << 10
	// maxPieces bounds what NATS must hold for a slow caller: its server closes a connection that does
	// not take its data within ten seconds.
	maxPieces = 16
	// tenantDownloads of the maxDownloads slots may serve one tenant.
	tenantDownloads = 4
	// downloadTime ends the replies of a slow upstream before callTimeout does.
	downloadTime = 20 * time.Second
)

var errLateContent = errcode.New(errcode.ContentUnavailable, "the content did not arrive within %s; ask for the rest", callTimeout)

// download answers a request for a part of a file with several replies. Each reply has a piece of
// the file and its position. The last one has no bytes.
func (c *calls) download(ctx context.Context, r micro.Request) {
	if !c.answerable(r.Reply()) {
		return
	}
	m := &genbusv1.DownloadVideoRequest{}
	tenant, err := c.enter(r, m)
	if err == nil {
		err = c.sharing.run(tenant, func() error { return c.sendPart(ctx, r, tenant, m) })
	}
	if err != nil {
		c.fail(ctx, r, err)
	}
}

func (c *calls) sendPart(ctx context.Context, r micro.Request, tenant string, m *genbusv1.DownloadVideoRequest) error {
	buf := make([]byte, min(maxPiece, c.nc.MaxPayload()/2))
	limit := int64(len(buf)) * maxPieces
	cut := m.GetLength() == 0 || m.GetLength() > limit
	if cut {
		m.Length = limit
	}
	part, err := c.core.Content.Part(ctx, tenant, m)
	if err != nil {
		return err
	}
	defer func() { _ = part.Body.Close() }()
	if err = part.SkipTo(m.GetOffset()); err == nil {
		err = c.sendPieces(r, part, m, cut, buf)
	}
	if err != nil {
		return core.Explain(ctx, subject.JobName{Kind: subject.Video, Tenant: tenant, ID: m.GetId()}, err)
	}
	return nil
}

// sendPieces sends a part that begins at the requested offset. cut is set if the caller asked for
// more than m.Length bytes.
func (c *calls) sendPieces(r micro.Request, part content.Part, m *genbusv1.DownloadVideoRequest, cut bool, buf []byte) error {
	header := nats.Header{subject.HeaderContentType: {part.Type}, subject.HeaderJobID: {m.GetId()}}
	if part.ETag != "" {
		header[subject.HeaderETag] = []string{part.ETag}
	}
	at, end, eof := m.GetOffset(), m.GetOffset()+m.GetLength(), false
	for begin := time.Now(); !eof && at < end && time.Since(begin) < downloadTime; {
		n, err := part.Next(buf[:min(int64(len(buf)), end-at)])
		if n > 0 {
			header[subject.HeaderContentRange] = []string{part.ContentRange(at, int64(n))}
			if err := c.send(r, buf[:n], header); err != nil {
				c.log.Warn("could not send content over NATS", telemetry.KeySubject, r.Subject(), telemetry.KeyError, err)
				return nil
			}
			at, header = at+int64(n), nats.Header{}
		}
		if eof = errors.Is(err, io.EOF); err != nil && !eof {
			return err
		}
	}
	header[subject.HeaderEnd] = []string{subject.EndMore}
	// An upstream may send less than the requested range, but the whole file ends where its body does.
	if whole := part.Status == http.StatusOK; at == part.Size || at == end && !cut || eof && whole {
		header[subject.HeaderEnd] = []string{subject.EndComplete}
	}
	c.respond(r, nil, header)
	return nil
}

// shares counts the downloads of each tenant, so that one tenant with a slow upstream does not take
// all slots.
type shares struct {
	mu      sync.Mutex
	running map[string]int
}

func (s *shares) run(tenant string, download func() error) error {
	if !s.take(tenant) {
		return errcode.New(errcode.RateLimited, "this replica sends %d files to the tenant already", tenantDownloads).WithRetryAfter(time.Second)
	}
	defer s.put(tenant)
	return download()
}

func (s *shares) take(tenant string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[tenant] >= tenantDownloads {
		return false
	}
	s.running[tenant]++
	return true
}

func (s *shares) put(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[tenant]--; s.running[tenant] == 0 {
		delete(s.running, tenant)
	}
}
