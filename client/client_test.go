package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/client"
	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service/servicetest"
)

// TestNeedsFewModules checks that a program that imports this package and the messages links few
// modules, and neither gRPC, OpenTelemetry nor a NATS server.
func TestNeedsFewModules(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}} {{.ImportPath}}", ".", "../gen/genbus/v1").Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		module, path, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if module != "" {
			modules[module] = true
		}
		for _, banned := range []string{"nats-server", "grpc", "opentelemetry", "prometheus", "genbus/internal/broker", "genbus/internal/config", "genbus/internal/consumer"} {
			if strings.Contains(path, banned) {
				t.Errorf("the client links %s", path)
			}
		}
	}
	if !modules["github.com/nats-io/nats.go"] || len(modules) > 11 { // genbus itself, and ten
		t.Errorf("the client needs %d modules: %v", len(modules), slices.Sorted(maps.Keys(modules)))
	}
}

// TestCodesRetryAsTheTableSays checks Retry for every code of the table.
func TestCodesRetryAsTheTableSays(t *testing.T) {
	t.Parallel()
	for _, m := range errcode.Table() {
		if code := client.Code(m.Code); code.Retry() != m.Retry {
			t.Errorf("%s: retry is %t", code, code.Retry())
		}
	}
}

func TestVideoFromRequestToResult(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, servicetest.Options{Sandbox: sandbox.Options{VideoDuration: 300 * time.Millisecond}})
	c, ctx := connect(t, s.NATSURL(), client.Options{}), within(t, brokertest.Patience)

	task, err := c.SubmitVideo(ctx, video("sandbox-video", "order-1"))
	if err != nil {
		t.Fatal(err)
	}
	if want := c.JobID(client.Video, "order-1"); task.GetId() != want {
		t.Errorf("the id is %s, and was said to be %s", task.GetId(), want)
	}
	done, err := c.WaitVideo(ctx, task.GetId())
	if err != nil || len(done.GetVideos()) != 1 || done.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
		t.Fatalf("%v, %v", done, err)
	}
	again, err := c.SubmitVideo(ctx, video("sandbox-video", "order-1"))
	if err != nil || again.GetId() != task.GetId() || again.GetStatus() != done.GetStatus() {
		t.Errorf("the same request again is %v, %v", again, err)
	}
	now, err := c.GetVideo(ctx, task.GetId())
	if err != nil || now.GetVersion() != done.GetVersion() {
		t.Errorf("the task now is %v, %v", now, err)
	}
	versions := collect(t, c, ctx, task.GetId(), done.GetVersion()-2)
	if len(versions) != 2 || versions[1] != done.GetVersion() {
		t.Errorf("after version %d came %v", done.GetVersion()-2, versions)
	}
	if versions := collect(t, c, ctx, task.GetId(), done.GetVersion()); len(versions) != 0 {
		t.Errorf("after the end came %v", versions)
	}
}

// collect follows a task to its end and returns the versions of its events.
func collect(t *testing.T, c *client.Client, ctx context.Context, id string, after uint64) (versions []uint64) { //nolint:revive // t first, as in other test helpers
	t.Helper()
	for e, err := range c.FollowVideo(ctx, id, after) {
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, e.GetVersion())
	}
	return versions
}

func TestChatIsFollowedToItsReply(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, servicetest.Options{Sandbox: sandbox.Options{ChunkInterval: 2 * time.Millisecond}})
	c, ctx := connect(t, s.NATSURL(), client.Options{}), within(t, brokertest.Patience)
	accepted, err := c.SubmitChat(ctx, chat("sandbox-chat"))
	if err != nil {
		t.Fatal(err)
	}
	text, blocks, end := follow(ctx, t, c, accepted.GetId())
	if uint64(blocks) != end.GetChunkCount() || blocks < 20 {
		t.Errorf("%d blocks came, and the end counts %d", blocks, end.GetChunkCount())
	}
	if reply := content(ctx, t, c, end); text == "" || text != reply {
		t.Errorf("the blocks say %q, the reply %q", text, reply)
	}
	late, _, _ := follow(ctx, t, c, accepted.GetId())
	if late != text {
		t.Errorf("who comes late reads %q", late)
	}
}

// follow reads a chat to its end and fails on a gap.
func follow(ctx context.Context, t *testing.T, c *client.Client, id string) (text string, blocks int, end *genbusv1.Chat) {
	t.Helper()
	for i, err := range c.FollowChat(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		if i.Gap != nil {
			t.Fatalf("a gap: %v", i.Gap)
		}
		text += i.Text()
		blocks += len(i.Chunk.GetBlocks())
		if i.Event != nil {
			end = i.Event.GetChat()
		}
	}
	return text, blocks, end
}

// TestBreakingOff checks that a loop may stop at any item, whether the job is running or has ended.
func TestBreakingOff(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, servicetest.Options{Sandbox: sandbox.Options{VideoDuration: 50 * time.Millisecond, ChunkInterval: time.Millisecond}})
	c, ctx := connect(t, s.NATSURL(), client.Options{}), within(t, brokertest.Patience)
	accepted, err := c.SubmitChat(ctx, chat("sandbox-chat"))
	if err != nil {
		t.Fatal(err)
	}
	for ended, n := false, 1; !ended; n++ {
		ended = true
		seen := 0
		for _, err := range c.FollowChat(ctx, accepted.GetId()) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen == n {
				ended = false
				break
			}
		}
	}
	id := finish(ctx, t, c, "sandbox-video")
	for ended, n := false, 1; !ended; n++ {
		ended = true
		seen := 0
		for _, err := range c.FollowVideo(ctx, id, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; seen == n {
				ended = false
				break
			}
		}
	}
}

// content returns the text of a complete reply.
func content(ctx context.Context, t *testing.T, c *client.Client, chat *genbusv1.Chat) string {
	t.Helper()
	data, err := c.Reply(ctx, chat)
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(data, &reply); err != nil || len(reply.Choices) != 1 {
		t.Fatalf("the reply is %s, %v", data, err)
	}
	return reply.Choices[0].Message.Content
}

// TestPublishedRequestHasItsID checks that publishing returns the ID that the job will have.
func TestPublishedRequestHasItsID(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, servicetest.Options{Sandbox: sandbox.Options{VideoDuration: 100 * time.Millisecond, ChunkInterval: time.Millisecond}})
	c, ctx := connect(t, s.NATSURL(), client.Options{Tenant: "acme"}), within(t, brokertest.Patience)
	id, err := c.PublishVideo(ctx, video("sandbox-video", ""))
	if err != nil {
		t.Fatal(err)
	}
	if done, err := c.WaitVideo(ctx, id); err != nil || done.GetTenant() != "acme" || done.GetId() != id {
		t.Errorf("%s ended as %v, %v", id, done, err)
	}
	id, err = c.PublishChat(ctx, chat("sandbox-chat"))
	if err != nil {
		t.Fatal(err)
	}
	if done, err := c.WaitChat(ctx, id); err != nil || done.GetChunkCount() == 0 {
		t.Errorf("%s ended as %v, %v", id, done, err)
	}
}

// TestLargeRequests checks that both ingresses upload a request larger than a message, and that
// repeating it returns the same job.
func TestLargeRequests(t *testing.T) {
	t.Parallel()
	url := brokertest.AloneOf(t, 1<<20).ClientURL()
	servicetest.New(t, servicetest.Options{NATSURL: url, Sandbox: sandbox.Options{VideoDuration: 50 * time.Millisecond}})
	c, ctx := connect(t, url, client.Options{Tenant: "acme"}), within(t, brokertest.Patience)
	large := func(id string) *genbusv1.VideoRequest {
		r := video("sandbox-video", id)
		image := "data:image/png;base64," + strings.Repeat("A", 2<<20) // max_payload is 1 MiB
		r.GetVideo().Image = &image
		return r
	}
	task, err := c.SubmitVideo(ctx, large("big"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := c.SubmitVideo(ctx, large("big")); err != nil || again.GetId() != task.GetId() {
		t.Errorf("the same again: %v, %v", again.GetId(), err)
	}
	if _, err := c.WaitVideo(ctx, task.GetId()); err != nil {
		t.Error(err)
	}
	id, err := c.PublishVideo(ctx, large(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WaitVideo(ctx, id); err != nil {
		t.Error(err)
	}
}

func TestErrorsHaveTheirMeaning(t *testing.T) {
	t.Parallel()
	s := servicetest.New(t, servicetest.Options{Sandbox: sandbox.Options{VideoDuration: 100 * time.Millisecond}})
	c, ctx := connect(t, s.NATSURL(), client.Options{}), within(t, brokertest.Patience)
	hasty := connect(t, s.NATSURL(), client.Options{Wait: 2 * time.Second})
	if _, err := c.SubmitVideo(ctx, video("sandbox-video", "one")); err != nil {
		t.Fatal(err)
	}
	failing, err := c.SubmitVideo(ctx, video("sandbox-video:fail=no", ""))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		do   func() error
		want client.Code
	}{
		"unknown model":  {func() error { _, err := c.SubmitVideo(ctx, video("no-such-model", "")); return err }, client.ErrModelNotFound},
		"another body":   {func() error { _, err := c.SubmitVideo(ctx, video("sandbox-video:n=1", "one")); return err }, client.ErrIdempotencyKeyReused},
		"no body":        {func() error { _, err := c.SubmitVideo(ctx, &genbusv1.VideoRequest{}); return err }, client.ErrInvalidRequest},
		"no such task":   {func() error { _, err := c.GetVideo(ctx, c.JobID(client.Video, "never")); return err }, client.ErrTaskNotFound},
		"no id":          {func() error { _, err := c.WaitVideo(ctx, "x.>"); return err }, client.ErrTaskNotFound},
		"a chat's id":    {func() error { _, err := c.GetChat(ctx, failing.GetId()); return err }, client.ErrChatNotFound},
		"a failed video": {func() error { _, err := c.WaitVideo(ctx, failing.GetId()); return err }, client.ErrUpstreamFailed},
	} {
		err := row.do()
		var e *client.Error
		if !errors.Is(err, row.want) || !errors.As(err, &e) || e.Message == "" || errors.Is(err, client.ErrInternal) {
			t.Errorf("%s: %v, want %s", name, err, row.want)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := hasty.SubmitVideo(ctx, video("sandbox-video", "late")); !errors.Is(err, client.ErrAcceptanceUnknown) && !errors.Is(err, client.ErrBrokerUnavailable) {
		t.Errorf("with nobody there: %v", err)
	}
}

// TestNobodyThere checks the errors of a NATS server without genbus.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	alone := startNATS(t, t.TempDir(), -1)
	defer stopNATS(alone)
	c, ctx := connect(t, alone.ClientURL(), client.Options{Wait: 3 * time.Second}), within(t, brokertest.Patience)
	var sending sync.WaitGroup // each tries until Options.Wait has passed
	sending.Go(func() {
		_, err := c.SubmitVideo(ctx, video("sandbox-video", ""))
		var e *client.Error
		if !errors.As(err, &e) || e.Code != client.ErrBrokerUnavailable || !e.Retry || !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("a submission: %v", err)
		}
	})
	sending.Go(func() {
		if _, err := c.PublishVideo(ctx, video("sandbox-video", "")); !errors.Is(err, client.ErrBrokerUnavailable) {
			t.Errorf("a publication: %v", err)
		}
	})
	sending.Wait()
	if err := c.Subscribe(ctx, client.Feed{}, nil); err == nil {
		t.Error("there is nothing to subscribe to")
	}
	if _, err := c.WaitVideo(ctx, c.JobID(client.Video, "x")); !errors.Is(err, client.ErrBrokerUnavailable) {
		t.Errorf("there is nothing to follow: %v", err)
	}
	for _, o := range []client.Options{{Tenant: "a.b"}, {Prefix: "a b"}} {
		if _, err := client.New(nil, o); err == nil {
			t.Errorf("%+v passes", o)
		}
	}
}
