package httpapi

import (
	"cmp"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/genbus/genbus/internal/api/core"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/chatlog"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Names of SSE events. Task events use their CloudEvents types as names.
const (
	eventChunk   = "genbus.chat.chunk.v1"
	eventGap     = "genbus.chat.gap.v1"
	eventExpired = "genbus.resume_expired.v1"
)

// videoEvents serves GET .../{id}/events for video tasks. An event's ID is its version. The stream
// resumes after Last-Event-ID, or after the query parameter after_version for clients that cannot
// set the header. It ends after the terminal event. A client that reconnects after that gets 204,
// which stops further reconnects.
func (h *Handler) videoEvents(x *exchange) error {
	after, err := lastVersion(x.r)
	if err != nil {
		return err
	}
	watch, err := h.core.Watcher.Video(x.ctx(), x.name(subject.Video), after)
	if err != nil {
		return err
	}
	x.jobID(watch.Name.ID)
	if watch.Over {
		x.WriteHeader(http.StatusNoContent)
		return nil
	}
	out := x.newSSE()
	defer out.stop()
	if err := out.open(); err != nil || x.r.Method == http.MethodHead {
		return err
	}
	return out.endEvents(h.core.Watcher.Count(subject.Video, telemetry.IngressHTTP, func() error {
		return out.video(x, watch, after)
	}))
}

func lastVersion(r *http.Request) (uint64, error) {
	field, value := "Last-Event-ID", r.Header.Get("Last-Event-ID")
	if value == "" {
		field, value = "after_version", r.URL.Query().Get("after_version")
	}
	if value == "" {
		return 0, nil
	}
	version, err := strconv.ParseUint(value, 10, 63)
	if err != nil {
		return 0, errcode.Invalid([]errcode.Violation{{Field: field, Description: mustBe("must be an event ID, a decimal version", value)}})
	}
	return version, nil
}

// video writes the events of a task. after is the version after which the client wanted to resume.
func (s *sseWriter) video(x *exchange, watch core.VideoWatch, after uint64) error {
	if watch.Expired {
		notice := errcode.New(errcode.ResumeExpired, "task %s never had version %d; its current state follows", watch.Name.ID, after)
		if err := s.event("", eventExpired, notice.Envelope()); err != nil {
			return err
		}
	}
	for e, err := range watch.Events(x.ctx()) {
		if err != nil {
			return err
		}
		if err := s.entry(e, strconv.FormatUint(e.Version(), 10)); err != nil {
			return err
		}
	}
	return nil
}

func (s *sseWriter) entry(e joblog.Entry, id string) error {
	return s.message(id, publisher.EventType(e.Event), publisher.Message(e.Event))
}

func (s *sseWriter) message(id, name string, m proto.Message) error {
	data, err := body.EventJSON(m)
	if err != nil {
		return errcode.From(err)
	}
	return s.event(id, name, data)
}

// openAfter is the delay after which a stream of chat events writes its header even if there is no
// event yet.
const openAfter = 250 * time.Millisecond

// chatEvents serves GET .../{id}/events for chats: events, chunks and gaps. An event's ID is its
// resume token. The stream resumes after Last-Event-ID, or after the query parameter resume_token.
func (h *Handler) chatEvents(x *exchange) error {
	name := x.name(subject.Chat)
	token := cmp.Or(x.r.Header.Get("Last-Event-ID"), x.r.URL.Query().Get("resume_token"))
	items, err := h.core.Watcher.Chat(x.ctx(), name, token)
	if err != nil {
		return err
	}
	x.jobID(name.ID)
	out := x.newSSE()
	defer out.stop()
	if x.r.Method == http.MethodHead {
		return out.open()
	}
	// Delay the header so that a token of another chat can still be rejected with an HTTP status.
	out.keepOpen(openAfter)
	return out.endEvents(h.core.Watcher.Count(subject.Chat, telemetry.IngressHTTP, func() error { return out.chat(items) }))
}

func (s *sseWriter) chat(items iter.Seq2[chatlog.Item, error]) error {
	for item, err := range items {
		if err == nil {
			err = s.item(item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sseWriter) item(item chatlog.Item) error {
	switch {
	case item.Event != nil:
		return s.entry(*item.Event, item.Token)
	case item.Chunk != nil:
		return s.message(item.Token, eventChunk, item.Chunk)
	case item.Gap != nil:
		return s.event(item.Token, eventGap, gapJSON(item.Gap))
	}
	return nil
}

func gapJSON(g *genbusv1.ChatGap) []byte {
	data, err := json.Marshal(struct {
		Reason  string `json:"reason"`
		Attempt uint32 `json:"attempt"`
		Index   uint64 `json:"index"`
	}{g.GetReason(), g.GetAttempt(), g.GetIndex()})
	if err != nil {
		return []byte("{}") // unreachable: a string and two numbers
	}
	return data
}
