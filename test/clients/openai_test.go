package clients_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/genbus/genbus/internal/api/apitest"
)

// apiClient returns a client of an API without a consumer.
func apiClient(w *apitest.World, opts ...option.RequestOption) openai.Client {
	client, _ := openAI(w.HTTP.URL, "key-acme", append([]option.RequestOption{option.WithHTTPClient(w.Client)}, opts...)...)
	return client
}

func TestOpenAIChat(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.TwoTenants)
	c := apiClient(w)
	reply, err := c.Chat.Completions.New(t.Context(), chatParams("sandbox-chat", "hi"))
	if err != nil {
		t.Fatal(err)
	}
	whole := reply.Choices[0].Message.Content
	if whole == "" || reply.Choices[0].FinishReason != "stop" || reply.Usage.TotalTokens == 0 {
		t.Errorf("reply %s", reply.RawJSON())
	}
	stream := c.Chat.Completions.NewStreaming(t.Context(), chatParams("sandbox-chat", "hi"))
	var acc openai.ChatCompletionAccumulator
	for stream.Next() {
		acc.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if len(acc.Choices) != 1 || acc.Choices[0].Message.Content != whole || acc.Choices[0].FinishReason != "stop" {
		t.Errorf("streamed %+v, want %q", acc.Choices, whole)
	}
}

func TestOpenAIErrors(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.TwoTenants)
	for name, row := range map[string]struct {
		model  string
		opts   []option.RequestOption
		status int
		code   string
		kind   string
	}{
		"a model without a route": {"none", nil, 404, "model_not_found", "invalid_request_error"},
		"a wrong key":             {"sandbox-chat", []option.RequestOption{option.WithAPIKey("no")}, 401, "invalid_api_key", "authentication_error"},
	} {
		t.Run(name, func(t *testing.T) {
			c := apiClient(w, row.opts...)
			_, err := c.Chat.Completions.New(t.Context(), chatParams(row.model, "hi"))
			checkType(t, err, row.status, row.code, row.kind)
			stream := c.Chat.Completions.NewStreaming(t.Context(), chatParams(row.model, "hi"))
			for stream.Next() {
				t.Errorf("a block: %s", stream.Current().RawJSON())
			}
			checkType(t, stream.Err(), row.status, row.code, row.kind)
		})
	}
}

// TestOpenAIWaits checks that only the chat whose upstream call failed gets the upstream's message;
// the next one gets genbus's.
func TestOpenAIWaits(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.TwoTenants)
	c := apiClient(w)
	_, err := c.Chat.Completions.New(t.Context(), chatParams("sandbox-chat:status=429,retry_after=3", "hi"))
	checkType(t, err, 429, "rate_limited", "new_api_error")
	stream := c.Chat.Completions.NewStreaming(t.Context(), chatParams("sandbox-chat", "hi"))
	for stream.Next() {
		t.Errorf("a block: %s", stream.Current().RawJSON())
	}
	checkType(t, stream.Err(), 429, "upstream_rate_limited", "rate_limit_error")
}

func checkType(t *testing.T, err error, status int, code, kind string) {
	t.Helper()
	if got := checkError(t, err, status, code); got != kind {
		t.Errorf("%v has the type %s, want %s", err, got, kind)
	}
}

// TestOpenAIRetries checks that the SDK obeys Retry-After and retries.
func TestOpenAIRetries(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.TwoTenants)
	c := apiClient(w, option.WithMaxRetries(1))
	begin := time.Now()
	_, err := c.Chat.Completions.New(t.Context(), chatParams("sandbox-chat:status=429,retry_after=1", "hi"))
	checkType(t, err, http.StatusTooManyRequests, "rate_limited", "new_api_error")
	if n := w.Sandbox.Sandbox.Stats().Chats; n != 2 || time.Since(begin) < time.Second {
		t.Errorf("%d calls within %s", n, time.Since(begin))
	}
}

// TestOpenAIStreamThatBreaks checks that the SDK reports the error block.
func TestOpenAIStreamThatBreaks(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.TwoTenants)
	c := apiClient(w)
	stream := c.Chat.Completions.NewStreaming(t.Context(), chatParams("sandbox-chat:drop_after_chunks=2", "hi"))
	n := 0
	for stream.Next() {
		n++
	}
	if err := stream.Err(); n < 2 || err == nil || !strings.Contains(err.Error(), "stream_truncated") {
		t.Errorf("%d blocks, then %v", n, err)
	}
}

func TestOpenAIModels(t *testing.T) {
	t.Parallel()
	w := apitest.New(t, apitest.TwoTenants)
	c := apiClient(w)
	page, err := c.Models.List(t.Context())
	if err != nil || len(page.Data) == 0 {
		t.Fatalf("%v, %v", page, err)
	}
	m, err := c.Models.Get(t.Context(), page.Data[0].ID)
	if err != nil || m.ID != page.Data[0].ID {
		t.Errorf("%v, %v", m, err)
	}
}
