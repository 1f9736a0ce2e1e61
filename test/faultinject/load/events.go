package load

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/upstream/sse"
	"github.com/genbus/genbus/test/faultinject/brief"
	"github.com/genbus/genbus/test/faultinject/check"
)

// overSSE follows the job over one SSE connection. io.EOF means that the stream ended. If the
// service reports an error, overSSE records it in a.
func (f *follower) overSSE(ctx context.Context, at int, a *answer) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	last := f.token
	if kindOf(f.job) == subject.Video {
		last = f.after()
	}
	if last != "" {
		header.Set("Last-Event-ID", last)
	}
	var err error
	f.exchange(ctx, at, http.MethodGet, gatewayPath(f.job)+"/events", header, nil, a, func(r *http.Response) {
		if r.StatusCode == http.StatusNoContent { // the end was already seen
			err = io.EOF
			return
		}
		err = f.events(r.Body, a)
	})
	if err == nil && a.Lost != "" {
		err = fmt.Errorf("no answer: %s", a.Lost)
	}
	return err
}

func (f *follower) events(body io.Reader, a *answer) error {
	reader := sse.NewReader(body, 0)
	for {
		e, err := reader.Next()
		if err != nil {
			return err
		}
		if e.Unterminated {
			return io.ErrUnexpectedEOF
		}
		if err := f.sseEvent(e, a); err != nil {
			return err
		}
	}
}

type payload struct {
	ID      string `json:"id"`
	Version uint64 `json:"version"`
	Task    *struct {
		Status string `json:"status"`
	} `json:"task"`
	Chat *struct {
		Status string `json:"status"`
	} `json:"chat"`
	Reason  string           `json:"reason"`
	Attempt uint32           `json:"attempt"`
	Index   uint64           `json:"index"`
	Blocks  []jsontext.Value `json:"blocks"`
}

func (f *follower) sseEvent(e sse.Event, a *answer) error {
	if e.Type == "genbus.error.v1" {
		a.Code = codeOf(e.Data)
		return fmt.Errorf("the stream ended with %s", a.Code)
	}
	var p payload
	if err := json.Unmarshal(e.Data, &p); err != nil {
		return fmt.Errorf("event %s: %w", e.Type, err)
	}
	if len(e.ID) > 0 {
		f.token = string(e.ID)
	}
	switch {
	case p.Task != nil:
		return f.event(p.ID, p.Version, p.Task.Status)
	case p.Chat != nil:
		return f.event(p.ID, p.Version, p.Chat.Status)
	case e.Type == "genbus.chat.chunk.v1":
		return f.item(check.Item{Attempt: p.Attempt, Index: p.Index, Blocks: texts(p.Blocks)})
	default:
		return f.item(check.Item{Attempt: p.Attempt, Index: p.Index, Gap: p.Reason == "gap", Expired: p.Reason != "gap"})
	}
}

func texts(blocks []jsontext.Value) []string {
	out := make([]string, len(blocks))
	for i, b := range blocks {
		out[i] = brief.Of(string(b))
	}
	return out
}
