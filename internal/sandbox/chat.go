package sandbox

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools []struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
	ReasoningEffort     string          `json:"reasoning_effort"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Sandbox             json.RawMessage `json:"sandbox"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

// text returns the content of the message, or its concatenated text parts.
func (m chatMessage) text() string {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(m.Content, &parts) != nil {
		return ""
	}
	var all strings.Builder
	for _, p := range parts {
		all.WriteString(p.Text)
	}
	return all.String()
}

func parseChat(body []byte) (chatRequest, error) {
	var req chatRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return req, fmt.Errorf("read chat request: %w", err)
	}
	return req, nil
}

// createChat answers a chat completion, as JSON or as a stream.
func (s *Sandbox) createChat(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	s.count.chats.Add(1)
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		writeInvalidChat(w, http.StatusBadRequest, errors.New("Idempotency-Key is longer than 255 bytes"))
		return
	}
	if !s.chatKeys.arrive(key) {
		writeFull(w)
		return
	}
	req, base, b, ok := s.parseChatCall(w, r, body, key)
	if !ok || s.stopsHere(w, r, b, refuseNested) {
		return
	}
	if b.Drop != "" {
		reset(w) // a chat creates nothing, so both kinds of drop are the same
		return
	}
	if s.stalls(w, r, b) {
		return
	}
	if b.NoStreamOptions && req.StreamOptions != nil {
		writeInvalidChat(w, http.StatusBadRequest, errors.New("stream_options: extra inputs are not permitted"))
		return
	}
	reply := s.replyTo(req, b)
	w.Header().Set("X-Oneapi-Request-Id", newID("req_"))
	switch {
	case b.NoChoices && !req.Stream:
		writeJSON(w, cmp.Or(b.Status, http.StatusOK), []byte(`{"id":"`+reply.id+`","object":"chat.completion","choices":null}`))
		return
	case !req.Stream || b.JSONForStream:
		writeJSON(w, cmp.Or(b.Status, http.StatusOK), reply.appendCompletion(nil))
		return
	}
	s.stream(w, r, reply, b, s.interval(base, b))
}

// parseChatCall parses a request and its behaviour. If ok is false, it has written an error.
func (s *Sandbox) parseChatCall(w http.ResponseWriter, r *http.Request, body []byte, key string) (req chatRequest, base string, b Behaviour, ok bool) {
	req, err := parseChat(body)
	if err != nil {
		writeInvalidChat(w, http.StatusBadRequest, err)
		return req, "", b, false
	}
	base, suffix := splitModel(req.Model)
	switch {
	case base == "":
		modelNotNamed(w)
		return req, base, b, false
	case base != ModelChat && base != ModelChatFast:
		modelNotFound(req.Model)(w)
		return req, base, b, false
	case len(req.Messages) == 0:
		// The common gateway program answers this client error with 500.
		writeInvalidChat(w, http.StatusInternalServerError, errors.New("field messages is required"))
		return req, base, b, false
	}
	b, err = s.behaviourFor(r, body, suffix, req.Sandbox)
	if err == nil {
		b, err = s.limited(b, "chat", cmp.Or(b.ID, key))
	}
	if err != nil {
		writeInvalidChat(w, http.StatusBadRequest, err)
		return req, base, b, false
	}
	return req, base, b, true
}

func writeInvalidChat(w http.ResponseWriter, status int, err error) {
	writeNested(w, status, apiError{code: "invalid_request", message: err.Error(), kind: kindNewAPI})
}

func (s *Sandbox) interval(base string, b Behaviour) time.Duration {
	switch {
	case b.ChunkIntervalMS != nil:
		return time.Duration(*b.ChunkIntervalMS) * time.Millisecond
	case base == ModelChatFast:
		return 0
	default:
		return s.opts.ChunkInterval
	}
}
