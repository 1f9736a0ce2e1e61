package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/hostile"
)

// goodOnes makes one valid request through each entrance and checks that it succeeds.
func (s *siege) goodOnes() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	for name, do := range map[string]func(context.Context) error{
		"HTTP": s.goodHTTP, "a form": s.goodForm, "gRPC": s.goodGRPC, "a call": s.goodCall, "the inbox": s.goodInbox,
	} {
		if err := do(ctx); err != nil {
			s.t.Errorf("a good request by %s: %v", name, err)
		}
	}
}

// goodHTTP creates a job on every path and reads a video through every path.
func (s *siege) goodHTTP(ctx context.Context) error {
	for _, e := range hostile.Creates {
		if strings.Contains(e.Path, "image2video") {
			continue // its body needs an image
		}
		if code, body, err := s.fetch(ctx, http.MethodPost, e.Path, strings.NewReader(s.target.Body(e))); err != nil || code != http.StatusOK {
			return fmt.Errorf("%s: %d %.300s %w", e.Path, code, body, err)
		}
	}
	id, err := s.create(ctx)
	if err != nil {
		return err
	}
	for _, path := range []string{"/v1/videos/" + id + "/content", "/v1/videos/" + id, "/v1/videos?limit=2", "/genbus/v1/videos?page_size=2", "/v1/models"} {
		if code, body, err := s.fetch(ctx, http.MethodGet, path, nil); err != nil || code != http.StatusOK || len(body) == 0 {
			return fmt.Errorf("%s: %d %.300s %w", path, code, body, err)
		}
	}
	return nil
}

// create creates a video task and follows its events to the end.
func (s *siege) create(ctx context.Context) (id string, err error) {
	client := genbusv1grpc.NewVideoServiceClient(s.grpc)
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", s.target.Authorization)
	made, err := client.CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: videoOf("sandbox-video")})
	if err != nil {
		return "", err
	}
	id = made.GetTask().GetId()
	code, events, err := s.fetch(ctx, http.MethodGet, "/v1/video/generations/"+id+"/events", nil)
	if err != nil || code != http.StatusOK || !bytes.Contains(events, []byte("completed")) {
		return "", fmt.Errorf("the events of %s: %d %.300s %w", id, code, events, err)
	}
	return id, nil
}

func (s *siege) goodForm(ctx context.Context) error {
	const form = "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nsandbox-videos\r\n--b\r\nContent-Disposition: form-data; name=\"prompt\"\r\n\r\na cat\r\n--b--\r\n"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/v1/videos", strings.NewReader(form))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", s.target.Authorization)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%d %s", resp.StatusCode, body)
	}
	return nil
}

func (s *siege) goodGRPC(ctx context.Context) error {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", s.target.Authorization)
	reply, err := genbusv1grpc.NewChatServiceClient(s.grpc).CreateChatCompletion(ctx, &genbusv1.CreateChatCompletionRequest{Request: &genbusv1.ChatRequest{
		Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(`{"model":"sandbox-chat-fast:chunks=2","messages":[{"role":"user","content":"hello"}]}`)},
	}})
	if err != nil || len(reply.GetCompletion().GetChoices()) == 0 {
		return fmt.Errorf("%v, %w", reply, err)
	}
	return nil
}

func (s *siege) goodCall(ctx context.Context) error {
	m := nats.NewMsg(s.Names().Call(subject.Video, "default"))
	m.Header.Set(subject.HeaderContentType, subject.ContentTypeJSON)
	m.Data = []byte(`{"model":"sandbox-video","prompt":"a cat"}`)
	reply, err := s.nc.RequestMsgWithContext(ctx, m)
	if err != nil || reply.Header.Get(subject.HeaderJobID) == "" {
		return fmt.Errorf("%v, %w", reply, err)
	}
	return nil
}

// goodInbox publishes a request and waits for its terminal event.
func (s *siege) goodInbox(ctx context.Context) error {
	feed, err := s.nc.SubscribeSync("genbus.live.task.chat.default.*")
	if err != nil {
		return err
	}
	defer func() { _ = feed.Unsubscribe() }()
	m := nats.NewMsg(s.Names().Request(subject.Chat, "default"))
	m.Header.Set(subject.HeaderContentType, subject.ContentTypeJSON)
	m.Data = []byte(`{"model":"sandbox-chat-fast:chunks=2","messages":[{"role":"user","content":"hello"}]}`)
	if _, err := s.js.PublishMsg(ctx, m); err != nil {
		return err
	}
	for {
		event, err := feed.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("no event tells the end: %w", err)
		}
		if event.Header.Get("genbus-status") == "completed" {
			return nil
		}
	}
}
