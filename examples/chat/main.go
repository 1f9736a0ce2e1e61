// Command chat requests a chat completion over NATS and prints the reply as it arrives. It submits
// the chat by request-reply and reads the blocks and the final event from JetStream.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

func main() {
	url := flag.String("nats", nats.DefaultURL, "NATS address")
	tenant := flag.String("tenant", "default", "tenant of the chat, which must match the API key or NATS user")
	prompt := flag.String("prompt", "What does an event bus do?", "the question")
	flag.Parse()
	if err := run(*url, *tenant, *prompt); err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
}

func run(url, tenant, prompt string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	nc, err := nats.Connect(url, nats.ErrorHandler(refused(end)))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	id, err := call(ctx, nc, tenant, prompt)
	if err != nil {
		return err
	}
	fmt.Println(id)
	return follow(ctx, js, tenant, id)
}

// call submits the chat and returns its job ID.
func call(ctx context.Context, nc *nats.Conn, tenant, prompt string) (id string, err error) {
	request, err := proto.Marshal(&genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
		Model: "sandbox-chat", Stream: proto.Bool(true),
		Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Text{Text: prompt}}},
	}}})
	if err != nil {
		return "", err
	}
	reply, err := nc.RequestWithContext(ctx, "genbus.call.chat."+tenant, request)
	if err != nil {
		return "", cmp.Or(context.Cause(ctx), err)
	}
	if code := reply.Header.Get("genbus-error-code"); code != "" {
		return "", fmt.Errorf("%s: %s", code, reply.Header.Get("Nats-Service-Error"))
	}
	return reply.Header.Get("genbus-job-id"), nil
}

// follow prints blocks until the chat has ended and every block has arrived. Both consumers start
// at the chat's first message, so nothing is missed.
func follow(ctx context.Context, js jetstream.JetStream, tenant, id string) error {
	messages := make(chan jetstream.Msg)
	for stream, subject := range map[string]string{
		"GENBUS_CHUNKS": "genbus.chunk." + tenant + "." + id,
		"GENBUS_TASKS":  "genbus.task.chat." + tenant + "." + id,
	} {
		consumer, err := js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		reading, err := consumer.Consume(func(m jetstream.Msg) {
			select {
			case messages <- m:
			case <-ctx.Done():
			}
		})
		if err != nil {
			return err
		}
		defer reading.Stop()
	}
	return (&reader{}).read(ctx, messages)
}

// lateWait bounds the wait for missing blocks after the chat has ended.
const lateWait = 2 * time.Second

// reader tracks the progress of one chat.
type reader struct {
	attempt uint32
	next    uint64         // next block to print
	end     *genbusv1.Chat // set by the terminal event
}

func (r *reader) read(ctx context.Context, messages <-chan jetstream.Msg) error {
	var late <-chan time.Time
	for !r.whole() {
		select {
		case m := <-messages:
			if err := r.take(m); err != nil {
				return err
			}
			if r.end != nil && late == nil {
				late = time.After(lateWait)
			}
		case <-late:
			fmt.Printf("\nsome blocks are no longer stored; the whole reply:\n%s\n", r.end.GetReplyJson())
			return nil
		case <-ctx.Done():
			return fmt.Errorf("the chat has not ended: %w", context.Cause(ctx))
		}
	}
	fmt.Println()
	return nil
}

func (r *reader) whole() bool {
	return r.end != nil && (r.end.GetChunkCount() == 0 || r.attempt == r.end.GetAttempt() && r.next >= r.end.GetChunkCount())
}

func (r *reader) take(m jetstream.Msg) error {
	if m.Headers().Get("ce-type") == "genbus.chat.chunk.v1" {
		var chunk genbusv1.ChatChunk
		if err := proto.Unmarshal(m.Data(), &chunk); err != nil {
			return err
		}
		return r.chunk(&chunk)
	}
	var event genbusv1.ChatEvent
	if err := proto.Unmarshal(m.Data(), &event); err != nil {
		return err
	}
	switch chat := event.GetChat(); chat.GetStatus() {
	case genbusv1.JobStatus_JOB_STATUS_COMPLETED:
		r.end = chat
	case genbusv1.JobStatus_JOB_STATUS_FAILED, genbusv1.JobStatus_JOB_STATUS_CANCELLED:
		return errors.New(chat.GetError().GetMessage())
	default: // accepted, or an attempt has started
	}
	return nil
}

// chunk prints the new blocks of c. Chunks may be redelivered, and a new attempt starts over at
// block 0.
func (r *reader) chunk(c *genbusv1.ChatChunk) error {
	if c.GetAttempt() > r.attempt {
		r.attempt, r.next = c.GetAttempt(), 0
	}
	for i, block := range c.GetBlocks() {
		if c.GetAttempt() < r.attempt || c.GetIndex()+uint64(i) < r.next {
			continue
		}
		r.next = c.GetIndex() + uint64(i) + 1
		var upstream struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(block, &upstream); err != nil {
			return err
		}
		for _, choice := range upstream.Choices {
			fmt.Print(choice.Delta.Content)
		}
	}
	return nil
}

// refused cancels ctx on a permission error. NATS does not reply to a forbidden publish, so the
// caller would otherwise wait until its timeout.
func refused(end context.CancelCauseFunc) nats.ErrHandler {
	return func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if errors.Is(err, nats.ErrPermissionViolation) {
			end(fmt.Errorf("%w (check that -tenant matches this NATS user)", err))
			return
		}
		fmt.Fprintln(os.Stderr, "nats:", err)
	}
}
