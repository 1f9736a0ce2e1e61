package grpcapi_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

func TestGRPCVideo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := genbusv1grpc.NewVideoServiceClient(w.Dial())
	var header metadata.MD
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "call-7")
	created := apitest.Must[*genbusv1.CreateVideoTaskResponse](t)(c.CreateVideoTask(ctx, apitest.VideoRequest("a cat"), grpc.Header(&header)))
	id := created.GetTask().GetId()
	if created.GetTask().GetStatus() != genbusv1.JobStatus_JOB_STATUS_QUEUED || header.Get("genbus-job-id")[0] != id || header.Get("x-request-id")[0] != "call-7" {
		t.Errorf("%v %v", created, header)
	}
	got := apitest.Must[*genbusv1.GetVideoTaskResponse](t)(c.GetVideoTask(t.Context(), &genbusv1.GetVideoTaskRequest{Id: id}))
	if got.GetTask().GetVersion() != 1 || got.GetTask().GetExecution() == nil {
		t.Errorf("got %v", got)
	}

	watch := apitest.Must[grpc.ServerStreamingClient[genbusv1.WatchVideoTaskResponse]](t)(c.WatchVideoTask(t.Context(), &genbusv1.WatchVideoTaskRequest{Id: id}))
	if _, err := watch.Header(); err != nil {
		t.Fatal(err)
	}
	w.EndVideo(w.StartVideo("default", id))
	for version := uint64(1); version <= 5; version++ {
		m, err := watch.Recv()
		if err != nil || m.GetEvent().GetVersion() != version || m.GetEvent().GetTask().GetVersion() != version {
			t.Fatalf("event %d: %v, %v", version, m, err)
		}
	}
	if _, err := watch.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after the terminal event: %v", err)
	}
	late := apitest.Must[grpc.ServerStreamingClient[genbusv1.WatchVideoTaskResponse]](t)(c.WatchVideoTask(t.Context(), &genbusv1.WatchVideoTaskRequest{Id: id, AfterVersion: 77}))
	md := apitest.Must[metadata.MD](t)(late.Header())
	if m, err := late.Recv(); err != nil || m.GetEvent().GetVersion() != 5 || md.Get("genbus-notice")[0] != "resume_expired" || md.Get("genbus-job-id")[0] != id {
		t.Errorf("%v, %v with %v", m, err, md)
	}
}

func TestGRPCErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.Dial()
	video, chats := genbusv1grpc.NewVideoServiceClient(conn), genbusv1grpc.NewChatServiceClient(conn)
	ctx := t.Context()
	chat := func(raw string) *genbusv1.ChatRequest {
		return &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(raw)}}
	}
	var header metadata.MD
	_, err := video.GetVideoTask(ctx, &genbusv1.GetVideoTaskRequest{Id: "video_x"}, grpc.Header(&header))
	apitest.CheckStatus(t, err, codes.NotFound, errcode.TaskNotFound)
	if len(header.Get("x-request-id")) != 1 {
		t.Errorf("metadata of an error: %v", header)
	}
	_, err = video.CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{})
	apitest.CheckStatus(t, err, codes.InvalidArgument, errcode.InvalidRequest)
	_, err = video.CreateVideoTask(ctx, apitest.NoModel())
	apitest.CheckStatus(t, err, codes.InvalidArgument, errcode.InvalidRequest)
	_, err = video.ListVideoTasks(ctx, &genbusv1.ListVideoTasksRequest{PageToken: "!"})
	apitest.CheckStatus(t, err, codes.InvalidArgument, errcode.InvalidPageToken)
	_, err = video.ListVideoTasks(ctx, &genbusv1.ListVideoTasksRequest{PageSize: -1, Status: 99, CreatedAfter: &timestamppb.Timestamp{Nanos: -1}})
	apitest.CheckStatus(t, err, codes.InvalidArgument, errcode.InvalidRequest)
	_, err = chats.CreateChatCompletion(ctx, &genbusv1.CreateChatCompletionRequest{Request: chat(apitest.StreamBody)})
	apitest.CheckStatus(t, err, codes.InvalidArgument, errcode.InvalidRequest)
	_, err = chats.CreateChatCompletion(ctx, &genbusv1.CreateChatCompletionRequest{Request: chat(strings.Replace(apitest.ChatBody, "sandbox-chat", "none", 1))})
	apitest.CheckStatus(t, err, codes.NotFound, errcode.ModelNotFound)
	_, err = genbusv1grpc.NewModelServiceClient(conn).ListModels(ctx, &genbusv1.ListModelsRequest{Kind: "audio"})
	apitest.CheckStatus(t, err, codes.InvalidArgument, errcode.InvalidRequest)

	stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.StreamChatCompletionResponse]](t)(chats.StreamChatCompletion(ctx,
		&genbusv1.StreamChatCompletionRequest{Request: chat(strings.TrimSuffix(apitest.ChatBody, "}") + `,"stream":false}`)}))
	_, err = stream.Recv()
	apitest.CheckStatus(t, err, codes.InvalidArgument, errcode.InvalidRequest)
	watch := apitest.Must[grpc.ServerStreamingClient[genbusv1.WatchChatCompletionResponse]](t)(chats.WatchChatCompletion(ctx, &genbusv1.WatchChatCompletionRequest{Id: "chat_x"}))
	_, err = watch.Recv()
	apitest.CheckStatus(t, err, codes.NotFound, errcode.ChatNotFound)
}

func TestGRPCKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.TwoTenants)
	conn := w.Dial()
	c := genbusv1grpc.NewVideoServiceClient(conn)
	as := func(key string) context.Context {
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key, "idempotency-key", "k1", "genbus-labels", "a=b")
	}
	_, err := c.CreateVideoTask(t.Context(), apitest.VideoRequest("a"))
	apitest.CheckStatus(t, err, codes.Unauthenticated, errcode.InvalidAPIKey)
	mine := apitest.Must[*genbusv1.CreateVideoTaskResponse](t)(c.CreateVideoTask(as("key-acme"), apitest.VideoRequest("a")))
	again := apitest.Must[*genbusv1.CreateVideoTaskResponse](t)(c.CreateVideoTask(as("key-acme"), apitest.VideoRequest("a")))
	theirs := apitest.Must[*genbusv1.CreateVideoTaskResponse](t)(c.CreateVideoTask(as("key-globex"), apitest.VideoRequest("b")))
	task := mine.GetTask()
	if task.GetTenant() != "acme" || task.GetRequestId() != "k1" || task.GetLabels()["a"] != "b" || again.GetTask().GetId() != task.GetId() || theirs.GetTask().GetId() == task.GetId() {
		t.Errorf("%v\n%v\n%v", mine, again, theirs)
	}
	_, err = c.CreateVideoTask(as("key-acme"), apitest.VideoRequest("other"))
	apitest.CheckStatus(t, err, codes.InvalidArgument, errcode.IdempotencyKeyReused)
	_, err = c.GetVideoTask(as("key-globex"), &genbusv1.GetVideoTaskRequest{Id: task.GetId()})
	apitest.CheckStatus(t, err, codes.NotFound, errcode.TaskNotFound)

	// Health and reflection need no key.
	if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	info := apitest.Must[grpc.BidiStreamingClient[grpc_reflection_v1.ServerReflectionRequest, grpc_reflection_v1.ServerReflectionResponse]](t)(
		grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context()))
	err = info.Send(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	answer, recvErr := info.Recv()
	if err := errors.Join(err, recvErr, info.CloseSend()); err != nil || !strings.Contains(answer.String(), "genbus.v1.ChatService") {
		t.Errorf("%v, %v", answer, err)
	}
	if _, err := info.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestGRPCList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := genbusv1grpc.NewVideoServiceClient(w.Dial())
	var ids []string
	for range 3 {
		ids = append(ids, w.CreateVideo())
	}
	w.EndVideo(w.StartVideo("default", ids[0]))
	w.Listed(ids[0], genbusv1.JobStatus_JOB_STATUS_COMPLETED)
	w.Listed(ids[2], genbusv1.JobStatus_JOB_STATUS_QUEUED)
	first := apitest.Must[*genbusv1.ListVideoTasksResponse](t)(c.ListVideoTasks(t.Context(), &genbusv1.ListVideoTasksRequest{PageSize: 2}))
	rest := apitest.Must[*genbusv1.ListVideoTasksResponse](t)(c.ListVideoTasks(t.Context(), &genbusv1.ListVideoTasksRequest{PageSize: 1000, PageToken: first.GetNextPageToken()}))
	if got := taskIDs(first, rest); strings.Join(got, " ") != ids[2]+" "+ids[1]+" "+ids[0] || rest.GetNextPageToken() != "" {
		t.Errorf("pages %v, want newest first of %v", got, ids)
	}
	done := apitest.Must[*genbusv1.ListVideoTasksResponse](t)(c.ListVideoTasks(t.Context(), &genbusv1.ListVideoTasksRequest{
		Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED, CreatedBefore: timestamppb.New(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)),
	}))
	if got := taskIDs(done); len(got) != 1 || got[0] != ids[0] {
		t.Errorf("completed: %v", got)
	}
}

func TestGRPCListOfChats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := genbusv1grpc.NewChatServiceClient(w.Dial())
	older, newer := w.SubmitChat(""), w.SubmitChat("")
	w.EndChat(w.StartChat("default", older), apitest.ReplyJSON, 0)
	list := func(m *genbusv1.ListChatCompletionsRequest) (ids []string, next string) {
		page := apitest.Must[*genbusv1.ListChatCompletionsResponse](t)(c.ListChatCompletions(t.Context(), m))
		for _, chat := range page.GetChats() {
			ids = append(ids, chat.GetId())
			if chat.GetReplyJson() != nil {
				t.Errorf("%s is listed with its reply", chat.GetId())
			}
		}
		return ids, page.GetNextPageToken()
	}
	w.Await("both in the list", func() bool {
		ids, _ := list(&genbusv1.ListChatCompletionsRequest{Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED})
		all, _ := list(&genbusv1.ListChatCompletionsRequest{})
		return slices.Equal(ids, []string{older}) && slices.Equal(all, []string{newer, older})
	})
	first, token := list(&genbusv1.ListChatCompletionsRequest{PageSize: 1})
	rest, end := list(&genbusv1.ListChatCompletionsRequest{PageSize: 1, PageToken: token})
	if !slices.Equal(append(first, rest...), []string{newer, older}) || end != "" {
		t.Errorf("pages %v and %v, then %q", first, rest, end)
	}
}

func taskIDs(pages ...*genbusv1.ListVideoTasksResponse) (ids []string) {
	for _, p := range pages {
		for _, t := range p.GetTasks() {
			ids = append(ids, t.GetId())
		}
	}
	return ids
}

func TestGRPCCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	conn := w.Dial()
	c := genbusv1grpc.NewVideoServiceClient(conn)
	queued, started, ended := w.CreateVideo(), w.CreateVideo(), w.CreateVideo()
	w.StartVideo("default", started)
	w.EndVideo(w.StartVideo("default", ended))
	for id, row := range map[string]struct {
		status genbusv1.JobStatus
		says   string
	}{
		queued:  {genbusv1.JobStatus_JOB_STATUS_CANCELLED, "before an upstream accepted it; nothing was charged"},
		started: {genbusv1.JobStatus_JOB_STATUS_CANCELLED, "may still finish it and charge"},
		ended:   {genbusv1.JobStatus_JOB_STATUS_COMPLETED, ""},
	} {
		for range 2 { // a second cancel answers the same
			m := apitest.Must[*genbusv1.CancelVideoTaskResponse](t)(c.CancelVideoTask(t.Context(), &genbusv1.CancelVideoTaskRequest{Id: id}))
			if m.GetTask().GetStatus() != row.status || !strings.Contains(m.GetTask().GetError().GetMessage(), row.says) {
				t.Errorf("%v, want %s", m, row.status)
			}
		}
	}
	done, err := w.Broker.Last(t.Context(), w.Broker.Names().Tasks(), w.Broker.Names().Done(subject.Video, "default", "cancelled", started))
	if err != nil || done.Header.Get(subject.HeaderStatus) != "cancelled" {
		t.Errorf("the feed: %v, %v", done.Header, err)
	}
	chat := w.SubmitChat("")
	m := apitest.Must[*genbusv1.CancelChatCompletionResponse](t)(genbusv1grpc.NewChatServiceClient(conn).CancelChatCompletion(t.Context(), &genbusv1.CancelChatCompletionRequest{Id: chat}))
	if m.GetChat().GetError().GetCode() != "cancelled" {
		t.Errorf("chat %v", m)
	}
}

// TestCancelRacesWithTheHolder checks that there is one terminal event in either order.
func TestCancelRacesWithTheHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := genbusv1grpc.NewVideoServiceClient(w.Dial())
	for range 5 {
		id := w.CreateVideo()
		answers := make(chan *genbusv1.CancelVideoTaskResponse, 1)
		go func() {
			m, err := c.CancelVideoTask(t.Context(), &genbusv1.CancelVideoTaskRequest{Id: id})
			if err != nil {
				t.Error(err)
			}
			answers <- m
		}()
		w.CarryOn(id)
		now := w.Entry(subject.Video, "default", id)
		if m := <-answers; !now.Terminal() && m != nil {
			now = w.Entry(subject.Video, "default", id)
		}
		if !now.Terminal() {
			t.Errorf("%s is %s after the cancel", id, now.Job.GetStatus())
		}
	}
}

func TestGRPCChat(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := genbusv1grpc.NewChatServiceClient(w.Dial())
	req := &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
		Model: "sandbox-chat", Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Text{Text: "hi"}}},
	}}}
	whole := apitest.Must[*genbusv1.CreateChatCompletionResponse](t)(c.CreateChatCompletion(t.Context(), &genbusv1.CreateChatCompletionRequest{Request: req}))
	text := whole.GetCompletion().GetChoices()[0].GetMessage().GetText()
	if text == "" || !strings.HasPrefix(whole.GetChatId(), "chat_") || len(whole.GetRawJson()) == 0 {
		t.Errorf("%v", whole)
	}
	stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.StreamChatCompletionResponse]](t)(c.StreamChatCompletion(t.Context(), &genbusv1.StreamChatCompletionRequest{Request: req}))
	streamed := ""
	for n := uint64(0); ; n++ {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || m.GetIndex() != n || m.GetChatId() == "" || len(m.GetRawJson()) == 0 {
			t.Fatalf("block %d: %v, %v", n, m, err)
		}
		for _, choice := range m.GetChunk().GetChoices() {
			streamed += choice.GetDelta().GetText()
		}
	}
	if streamed != text {
		t.Errorf("streamed %q, want %q", streamed, text)
	}
	if md, err := stream.Header(); err != nil || len(md.Get("genbus-job-id")) != 1 {
		t.Errorf("header %v, %v", md, err)
	}
}

func TestGRPCQueuedChatAndWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := genbusv1grpc.NewChatServiceClient(w.Dial())
	req := &genbusv1.ChatRequest{RequestId: "r1", Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(apitest.StreamBody)}}
	submitted := apitest.Must[*genbusv1.SubmitChatCompletionResponse](t)(c.SubmitChatCompletion(t.Context(), &genbusv1.SubmitChatCompletionRequest{Request: req}))
	id := submitted.GetChat().GetId()
	watch := apitest.Must[grpc.ServerStreamingClient[genbusv1.WatchChatCompletionResponse]](t)(c.WatchChatCompletion(t.Context(), &genbusv1.WatchChatCompletionRequest{Id: id}))
	stream := apitest.Must[grpc.ServerStreamingClient[genbusv1.StreamChatCompletionResponse]](t)(c.StreamChatCompletion(t.Context(), &genbusv1.StreamChatCompletionRequest{Request: req}))
	e := w.StartChat("default", id)
	w.Chunk(e, 0, apitest.Block("one"))
	if m, err := stream.Recv(); err != nil || string(m.GetRawJson()) != apitest.Block("one") || m.GetChatId() != id {
		t.Errorf("%v, %v", m, err)
	}
	w.EndChat(e, apitest.ReplyJSON, 1)
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("end of the stream: %v", err)
	}
	var items []*genbusv1.WatchChatCompletionResponse
	for {
		m, err := watch.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, m)
	}
	if len(items) != 4 || items[2].GetChunk() == nil || items[3].GetEvent().GetChat().GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Fatalf("items %v", items)
	}
	resumed := apitest.Must[grpc.ServerStreamingClient[genbusv1.WatchChatCompletionResponse]](t)(c.WatchChatCompletion(t.Context(),
		&genbusv1.WatchChatCompletionRequest{Id: id, ResumeToken: items[2].GetResumeToken()}))
	if m, err := resumed.Recv(); err != nil || m.GetEvent().GetVersion() != items[3].GetEvent().GetVersion() {
		t.Errorf("resumed: %v, %v", m, err)
	}
	got := apitest.Must[*genbusv1.GetChatCompletionResponse](t)(c.GetChatCompletion(t.Context(), &genbusv1.GetChatCompletionRequest{Id: id}))
	if got.GetCompletion().GetModel() != "m" || string(got.GetChat().GetReplyJson()) != apitest.ReplyJSON {
		t.Errorf("got %v", got)
	}
}

func TestGRPCHealthFollowsReadiness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Health.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}()
	watch := apitest.Must[grpc.ServerStreamingClient[grpc_health_v1.HealthCheckResponse]](t)(
		grpc_health_v1.NewHealthClient(w.Dial()).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "genbus.v1.VideoService"}))
	await := func(want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for {
			m, err := watch.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.GetStatus() == want {
				return
			}
		}
	}
	await(grpc_health_v1.HealthCheckResponse_SERVING)
	w.Health.SetDraining()
	await(grpc_health_v1.HealthCheckResponse_NOT_SERVING)
}

// TestLargestBodyByGRPC checks that a message fits around a body of http.max_body_bytes.
func TestLargestBodyByGRPC(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	w := newWorld(t, func(c *config.Config) {
		c.HTTP.MaxBodyBytes, c.GRPC.MaxMessageBytes = limit, limit
	})
	videos := genbusv1grpc.NewVideoServiceClient(w.Dial())
	for size, want := range map[int]string{limit: "", limit + 1: "body_too_large"} {
		const begin, end = `{"model":"sandbox-video","prompt":"p","image":"data:image/png;base64,`, `"}`
		body := begin + strings.Repeat("x", size-len(begin)-len(end)) + end
		_, err := videos.CreateVideoTask(t.Context(), &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{
			Labels: map[string]string{"team": "a"}, Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(body)},
		}})
		if apitest.Reason(err) != want || (want == "") != (err == nil) {
			t.Errorf("a body of %d bytes: %v", size, err)
		}
	}
}

// TestHealthKnowsEveryService checks that clients can check the health of each genbus service.
func TestHealthKnowsEveryService(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	health, ours := grpc_health_v1.NewHealthClient(w.Dial()), 0
	for name := range w.GRPC.GRPCServer().GetServiceInfo() {
		if !strings.HasPrefix(name, "genbus.") {
			continue
		}
		ours++
		// An unknown service is NotFound. Another test checks whether the services serve.
		if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ours == 0 {
		t.Error("the server has no service")
	}
}
