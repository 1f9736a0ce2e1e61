package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/upstream/sse"
	"github.com/genbus/genbus/test/faultinject/brief"
	"github.com/genbus/genbus/test/faultinject/check"
)

const (
	pathVideos        = "/v1/video/generations"
	pathCompletions   = "/v1/chat/completions"
	pathGatewayVideos = "/genbus/v1/videos"
	pathGatewayChats  = "/genbus/v1/chats"
)

func gatewayPath(job string) string {
	if kindOf(job) == subject.Chat {
		return pathGatewayChats + "/" + job
	}
	return pathGatewayVideos + "/" + job
}

func (c *client) post(ctx context.Context, at int, w wish, expires time.Time, a *answer) {
	header := http.Header{"Content-Type": {"application/json"}}
	path, body := pathVideos, w.body
	if w.kind == subject.Chat {
		path = pathCompletions
	}
	if w.entry.form == gateway {
		var err error
		if path, body, err = w.gatewayRequest(expires); err != nil {
			a.lost(err)
			return
		}
	} else {
		header.Set("Genbus-Labels", check.MarkLabel+"="+w.marker)
		if w.key != "" {
			header.Set("Idempotency-Key", w.key)
		}
		if w.kind == subject.Chat && w.entry.op == check.OpCreate {
			header.Set("Prefer", "respond-async")
		}
	}
	c.exchange(ctx, at, http.MethodPost, path, header, body, a, func(r *http.Response) { w.read(r, a) })
}

// gatewayRequest returns the request's message as JSON.
func (w wish) gatewayRequest(expires time.Time) (path string, data []byte, err error) {
	var m proto.Message
	path = pathGatewayVideos
	if w.kind == subject.Chat {
		path = pathGatewayChats
		m, err = w.chatRequest(expires)
	} else {
		m, err = w.videoRequest(expires)
	}
	if err == nil {
		data, err = protojson.Marshal(m)
	}
	return path, data, err
}

// read reads a successful answer to post.
func (w wish) read(r *http.Response, a *answer) {
	isStream := strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream")
	switch {
	case isStream:
		a.readBlocks(r.Body)
	case w.entry.form == gateway:
		a.readGateway(w.kind, r.Body)
	default:
		data, err := io.ReadAll(r.Body)
		if err != nil {
			a.lost(err)
			return
		}
		if w.entry.op == check.OpChat || w.entry.op == check.OpInline {
			a.Text, a.Whole = check.ReplyText(data)
			return
		}
		short := shortOf(data)
		a.Job, a.Status, a.Version = firstOf(a.Job, short.ID), short.Status, short.Version
	}
}

// readBlocks reads a streamed reply. A reply without [DONE] is incomplete.
func (a *answer) readBlocks(body io.Reader) {
	events := sse.NewReader(body, 0)
	var text strings.Builder
	for {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			a.lost(io.ErrUnexpectedEOF)
			return
		case err != nil:
			a.lost(err)
			return
		case string(e.Data) == "[DONE]":
			a.Text, a.Whole = brief.Of(text.String()), true
			return
		}
		if code := codeOf(e.Data); code != "" {
			a.Code = code
			return
		}
		text.WriteString(check.BlockText(e.Data))
	}
}

// codeOf returns the code of an error envelope, or "".
func codeOf(data []byte) string {
	var e struct {
		Error *struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &e) != nil || e.Error == nil {
		return ""
	}
	return firstOf(e.Error.Code, "no_code")
}

// short is a job in short HTTP answers.
type short struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Version uint64 `json:"version"`
}

func shortOf(data []byte) short {
	var s short
	_ = json.Unmarshal(data, &s) // an invalid answer has no status
	return s
}

// readGateway reads a job from an answer under /genbus/v1.
func (a *answer) readGateway(kind subject.Kind, body io.Reader) {
	data, err := io.ReadAll(body)
	if err != nil {
		a.lost(err)
		return
	}
	var job task.Job
	read := protojson.UnmarshalOptions{DiscardUnknown: true}
	if kind == subject.Chat {
		var r genbusv1.SubmitChatCompletionResponse // other answers have the chat under the same name
		err = read.Unmarshal(data, &r)
		job = r.GetChat()
	} else {
		var r genbusv1.CreateVideoTaskResponse
		err = read.Unmarshal(data, &r)
		job = r.GetTask()
	}
	a.decoded(err, job)
}

// exchange sends one HTTP request. It records an error answer, or calls read for a successful one.
func (c *client) exchange(ctx context.Context, at int, method, path string, header http.Header, body []byte, a *answer, read func(*http.Response)) {
	req, err := http.NewRequestWithContext(ctx, method, c.o.Replicas[at].HTTP+path, bytes.NewReader(body))
	if err != nil {
		a.lost(err)
		return
	}
	req.Header = header
	c.tenant.sign(req.Header)
	req.GetBody = nil // net/http must not resend the request, because each request is recorded once
	resp, err := c.http.Do(req)
	if err != nil {
		a.lost(err)
		var op *net.OpError
		a.NotSent = errors.As(err, &op) && op.Op == "dial"
		return
	}
	defer resp.Body.Close()
	a.HTTP, a.Job = resp.StatusCode, resp.Header.Get("Genbus-Job-Id")
	if resp.StatusCode/100 == 2 {
		a.begins()
		read(resp)
		return
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		a.lost(err)
		return
	}
	a.Code = firstOf(resp.Header.Get("Genbus-Error-Code"), firstOf(codeOf(data), "http_"+strconv.Itoa(resp.StatusCode)))
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
		a.retryAfter = time.Duration(seconds) * time.Second
	}
}

// getWeb reads a job over HTTP. If brief is set, it uses the short path of a video.
func (c *client) getWeb(ctx context.Context, at int, job string, brief bool, a *answer) {
	path := gatewayPath(job)
	if brief && kindOf(job) == subject.Video {
		path = pathVideos + "/" + job
	} else {
		brief = false
	}
	c.exchange(ctx, at, http.MethodGet, path, http.Header{}, nil, a, func(r *http.Response) {
		if !brief {
			a.readGateway(kindOf(job), r.Body)
			return
		}
		data, err := io.ReadAll(r.Body)
		if err != nil {
			a.lost(err)
			return
		}
		s := shortOf(data)
		a.Job, a.Status = s.ID, s.Status
	})
}

func (c *client) cancelWeb(ctx context.Context, at int, job string, a *answer) {
	c.exchange(ctx, at, http.MethodPost, gatewayPath(job)+"/cancel", http.Header{"Content-Type": {"application/json"}}, []byte("{}"), a, func(r *http.Response) {
		a.readGateway(kindOf(job), r.Body)
	})
}
