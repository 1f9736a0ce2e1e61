package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// upstreamCommand is a chat upstream that does as little as possible, so that it does not distort
// the results.
type upstreamCommand struct {
	Addr string `default:"127.0.0.1:0" help:"Address to listen on."`
}

var bannerAddr = regexp.MustCompile(`^listening on (http://\S+)`)

// Run serves until ctx ends.
func (c upstreamCommand) Run(ctx context.Context) error {
	return serve(ctx, c.Addr, http.HandlerFunc(answerChat))
}

// serve listens, prints its address, and serves until ctx ends.
func serve(ctx context.Context, addr string, h http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	fmt.Printf("listening on http://%s\n", l.Addr())
	go func() {
		<-ctx.Done()
		_ = server.Close() // the measurement is over
	}()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// chatModel encodes the answer in a model name: "bench:<chunks>:<microseconds between them>". 0
// chunks means a JSON reply.
func chatModel(chunks int, interval time.Duration) string {
	return fmt.Sprintf("bench:%d:%d", chunks, interval.Microseconds())
}

const (
	maxChunks   = 1_000_000
	maxInterval = time.Minute
	maxBody     = 1 << 20
)

func parseChatModel(model string) (chunks int, interval time.Duration, err error) {
	parts := strings.Split(model, ":")
	if len(parts) != 3 || parts[0] != "bench" {
		return 0, 0, fmt.Errorf("the model %q is not bench:<chunks>:<microseconds>", model)
	}
	chunks, err = strconv.Atoi(parts[1])
	if err != nil || chunks < 0 || chunks > maxChunks {
		return 0, 0, fmt.Errorf("the model %q: the chunks are not 0 to %d", model, maxChunks)
	}
	us, err := strconv.Atoi(parts[2])
	interval = time.Duration(us) * time.Microsecond
	if err != nil || us < 0 || interval > maxInterval {
		return 0, 0, fmt.Errorf("the model %q: the interval is not 0 to %s", model, maxInterval)
	}
	return chunks, interval, nil
}

// answerChat reads the whole request before it answers.
func answerChat(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var req struct {
		Model string `json:"model"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &req)
	}
	chunks, interval := 0, time.Duration(0)
	if err == nil {
		chunks, interval, err = parseChatModel(req.Model)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if chunks == 0 {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(wholeReply) // the client may have disconnected
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	streamChat(r.Context(), w, chunks, interval)
}

var wholeReply = []byte(`{"id":"chatcmpl-bench0000000000000000000000","object":"chat.completion","created":1760000000,"model":"bench","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"` + strings.Repeat("A reply of some length, as models give. ", 20) + `","refusal":null},` +
	`"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":120,"completion_tokens":180,"total_tokens":300}}`)

const (
	chunkHead = `data: {"id":"chatcmpl-bench0000000000000000000000","object":"chat.completion.chunk","created":1760000000,"model":"bench","choices":[{"index":0,"delta":{"content":"`
	chunkTail = `"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	lastChunk = `data: {"id":"chatcmpl-bench0000000000000000000000","object":"chat.completion.chunk","created":1760000000,"model":"bench","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}` + "\n\n"
	doneBlock = "data: [DONE]\n\n"
)

// streamChat writes and flushes chunks whose content is the time of writing. Due times count from
// the start of the stream, so that delays do not add up.
func streamChat(ctx context.Context, w http.ResponseWriter, chunks int, interval time.Duration) {
	flush := http.NewResponseController(w)
	buf := make([]byte, 0, 512)
	due := time.Now()
	for range chunks {
		if wait := time.Until(due); interval > 0 && wait > 0 && pause(ctx, wait) != nil {
			return
		}
		due = due.Add(interval)
		buf = append(buf[:0], chunkHead...)
		buf = strconv.AppendInt(buf, time.Now().UnixNano(), 10)
		buf = append(buf, chunkTail...)
		if _, err := w.Write(buf); err != nil || flush.Flush() != nil {
			return
		}
	}
	_, _ = io.WriteString(w, lastChunk+doneBlock) // the client may have disconnected
}
