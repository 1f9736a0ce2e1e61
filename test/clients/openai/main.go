// Command openai calls the genbus at CLIENTS_HTTP with one release of openai-go. TestOpenAIReleases
// in test/clients runs it with each release that it lists. It uses only what all of them have.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const reply = "You wrote 5 words "

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := openai.NewClient(option.WithBaseURL(os.Getenv("CLIENTS_HTTP")+"/v1"), option.WithAPIKey(os.Getenv("CLIENTS_KEY")))
	if err := errors.Join(chat(ctx, client), streams(ctx, client), models(ctx, client), refusal(ctx, client)); err != nil {
		log.Fatal(err)
	}
}

func ask(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("tell me of the sea")}}
}

func chat(ctx context.Context, client openai.Client) error {
	whole, err := client.Chat.Completions.New(ctx, ask("sandbox-chat-fast"))
	if err != nil || len(whole.Choices) != 1 || !strings.HasPrefix(whole.Choices[0].Message.Content, reply) {
		return fmt.Errorf("a chat: %+v, %w", whole, err)
	}
	return nil
}

// streams reads slow streams, in which genbus sends comments before, between and after the chunks.
// With an Idempotency-Key, the comments begin before the first chunk.
func streams(ctx context.Context, client openai.Client) error {
	for name, options := range map[string][]option.RequestOption{
		"inline": nil,
		"queued": {option.WithHeader("Idempotency-Key", fmt.Sprint("go-", time.Now().UnixNano()))},
	} {
		stream := client.Chat.Completions.NewStreaming(ctx, ask("sandbox-chat:delay_ms=200,chunks=4,chunk_interval_ms=100"), options...)
		var text strings.Builder
		for stream.Next() {
			for _, choice := range stream.Current().Choices {
				text.WriteString(choice.Delta.Content)
			}
		}
		if err := stream.Err(); err != nil || !strings.HasPrefix(text.String(), reply) {
			return fmt.Errorf("an %s stream: %q, %w", name, text.String(), err)
		}
	}
	return nil
}

func models(ctx context.Context, client openai.Client) error {
	if model, err := client.Models.Get(ctx, "sandbox-chat-fast"); err != nil || model.ID != "sandbox-chat-fast" {
		return fmt.Errorf("a model: %+v, %w", model, err)
	}
	return nil
}

func refusal(ctx context.Context, client openai.Client) error {
	_, err := client.Chat.Completions.New(ctx, ask("none"))
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.StatusCode != 404 || refused.Code != "model_not_found" {
		return fmt.Errorf("a model that does not exist: %w", err)
	}
	return nil
}
