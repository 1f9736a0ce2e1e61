//nolint:staticcheck // SA1019: deprecated with OpenAI's own service; gateways still implement the API
package clients_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/npm"
)

// Clients of `genbus serve --sandbox`. The script run runs all of these tests.

// clientTime limits one script or command of a client.
const clientTime = time.Minute

// TestNodeClients proves that public Node clients work. The scripts in test/clients/node also run
// by hand. They run one at a time, because one of them makes the upstream busy for all.
func TestNodeClients(t *testing.T) {
	t.Parallel()
	dir := npm.Project(t, "node")
	s := serveSandbox(t)
	for _, script := range []string{"openai.mjs", "aisdk.mjs", "langchain.mjs", "nats.mjs", "cloudevents.mjs"} {
		t.Run(script, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), clientTime)
			defer cancel()
			node := exec.CommandContext(ctx, "node", script)
			node.Dir, node.Stdout, node.Stderr = dir, t.Output(), t.Output()
			node.Env = append(os.Environ(), "CLIENTS_HTTP="+s.http, "CLIENTS_NATS="+s.nats, "CLIENTS_KEY="+s.key, "CLIENTS_TENANT="+s.tenant)
			if err := node.Run(); err != nil {
				t.Errorf("test/clients/node/%s: %v", script, err)
			}
		})
	}
}

// openAIGo lists releases of openai-go: the oldest and the newest one of each line that the module
// proxy has, and the last one before 3.43, which began to skip events without data. The sums of
// further releases belong in test/clients/openai/go.sum.
var openAIGo = []string{
	"github.com/openai/openai-go@v1.5.0", "github.com/openai/openai-go@v1.12.0",
	"github.com/openai/openai-go/v2@v2.1.1", "github.com/openai/openai-go/v2@v2.7.1",
	"github.com/openai/openai-go/v3@v3.1.0", "github.com/openai/openai-go/v3@v3.37.0", "github.com/openai/openai-go/v3@v3.99.0",
}

// TestOpenAIReleases proves that the releases of openai-go in openAIGo and those of openai-node in
// test/clients/openai/package.json can read genbus's answers, above all streams with comments.
func TestOpenAIReleases(t *testing.T) {
	t.Parallel()
	if os.Getenv("COMPILE_CLIENTS") == "" {
		t.Skip("installs and compiles 15 clients: run test/clients/run, which .ci/full does too")
	}
	s := serveSandbox(t)
	s.checkComments(t)
	env := []string{"CLIENTS_HTTP=" + s.http, "CLIENTS_KEY=" + s.key}
	const dir = "openai"
	t.Run("openai-node", func(t *testing.T) {
		if out, err := in(t, npm.Project(t, dir), env, "node", "openai.mjs"); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, release := range openAIGo {
		t.Run(release, func(t *testing.T) {
			if out, err := in(t, t.TempDir(), env, buildOpenAIGo(t, dir, release)); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// checkComments checks that the stream that the releases read has comments.
func (s served) checkComments(t *testing.T) {
	const body = `{"model":"sandbox-chat:chunks=4,chunk_interval_ms=100","stream":true,"messages":[{"role":"user","content":"hi"}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.http+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || !bytes.Contains(text, []byte("\n: ping\n")) && os.Getenv("CLIENTS_HTTP") == "" {
		t.Errorf("no comment between the chunks: %s, %v", text, err)
	}
}

// buildOpenAIGo builds the program in from with a release, and returns its path.
func buildOpenAIGo(t *testing.T, from, release string) string {
	t.Helper()
	dir := t.TempDir()
	module, _, _ := strings.Cut(release, "@")
	for _, name := range []string{"main.go", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		data = bytes.ReplaceAll(data, []byte(`"github.com/openai/openai-go/v3`), []byte(`"`+module))
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{{"mod", "init", "clients"}, {"mod", "edit", "-require", release}, {"build", "-mod=mod", "-o", "client", "."}} {
		run := exec.CommandContext(t.Context(), "go", command...)
		run.Dir, run.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("go %q: %v: %s", command, err, out)
		}
	}
	return filepath.Join(dir, "client")
}

// TestGoClients proves that openai-go and the CloudEvents SDK cover common uses. TestOpenAIGoVideos,
// TestOpenAIGoChats and TestCloudEventsGo test the rest.
func TestGoClients(t *testing.T) {
	t.Parallel()
	s := serveSandbox(t)
	t.Run("openai-go", s.checkOpenAIGo)
	t.Run("CloudEvents", s.checkCloudEvents)
}

func (s served) checkOpenAIGo(t *testing.T) {
	c, sent := openAI(s.http, s.key, option.WithMaxRetries(2))
	models, err := c.Models.List(t.Context())
	if err != nil || !slices.ContainsFunc(models.Data, func(m openai.Model) bool { return m.ID == "sandbox-videos" }) {
		t.Errorf("models: %+v, %v", models, err)
	}

	params := chatParams("sandbox-chat", "tell me of the sea")
	whole, err := c.Chat.Completions.New(t.Context(), params)
	if err != nil || len(whole.Choices) != 1 || !strings.HasPrefix(whole.Choices[0].Message.Content, "You wrote 5 words") {
		t.Fatalf("a chat: %+v, %v", whole, err)
	}
	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	var streamed openai.ChatCompletionAccumulator
	for stream.Next() {
		streamed.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || len(streamed.Choices) != 1 || streamed.Choices[0].Message.Content != whole.Choices[0].Message.Content {
		t.Errorf("a streamed chat: %+v, %v", streamed.Choices, err)
	}
	params.Model = "none"
	before := sent.Load()
	_, err = c.Chat.Completions.New(t.Context(), params)
	checkError(t, err, http.StatusNotFound, "model_not_found")
	if n := sent.Load() - before; n != 1 {
		t.Errorf("a model that does not exist was asked for %d times", n)
	}

	v := pollVideo(t, c, newVideo(t, c, "sandbox-videos:duration_ms=300").ID)
	if v.Status != openai.VideoStatusCompleted {
		t.Errorf("a video: %s", v.RawJSON())
	}
	content, err := c.Videos.DownloadContent(t.Context(), v.ID, openai.VideoDownloadContentParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer content.Body.Close()
	if data, err := io.ReadAll(content.Body); err != nil || !bytes.Equal(data, theClip(t)) {
		t.Errorf("the content: %d bytes, %v", len(data), err)
	}
	if ids := listVideos(t, c, openai.VideoListParams{}); !slices.Contains(ids, v.ID) {
		t.Errorf("the list has no %s: %v", v.ID, ids)
	}
	if deleted, err := c.Videos.Delete(t.Context(), v.ID); err != nil || !deleted.Deleted {
		t.Errorf("the deletion: %+v, %v", deleted, err)
	}
	_, err = c.Videos.Get(t.Context(), v.ID)
	checkError(t, err, http.StatusNotFound, "task_not_found")
}

// commands builds grpcurl and nats, which takes minutes without a cache.
func commands(t *testing.T) string {
	t.Helper()
	if os.Getenv("COMPILE_CLIENTS") == "" {
		t.Skip("compiles grpcurl and nats: run test/clients/run, which .ci/full does too")
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", filepath.Join("..", "..", "tools", "clients"), "-o", dir,
		"github.com/fullstorydev/grpcurl/cmd/grpcurl", "github.com/nats-io/natscli/nats")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// TestCommandLineClients proves that grpcurl and nats work as shown in the README.
func TestCommandLineClients(t *testing.T) {
	t.Parallel()
	dir := commands(t)
	s := serveSandbox(t)
	t.Run("grpcurl", func(t *testing.T) { s.checkGRPCurl(t, filepath.Join(dir, "grpcurl")) })
	t.Run("nats", func(t *testing.T) { s.checkNATS(t, filepath.Join(dir, "nats")) })
}

func (s served) checkGRPCurl(t *testing.T, program string) {
	grpcurl := func(options ...string) (string, error) {
		return in(t, t.TempDir(), nil, slices.Concat([]string{program, "-plaintext", "-H", "authorization: Bearer " + s.key}, options)...)
	}
	if out, err := grpcurl(s.grpc, "list"); err != nil || !strings.Contains(out, "genbus.v1.VideoService\n") {
		t.Errorf("list: %v: %s", err, out)
	}
	const service = "genbus.v1.VideoService"
	if out, err := grpcurl(s.grpc, "describe", service); err != nil || !strings.Contains(out, "rpc CreateVideoTask ( .genbus.v1.CreateVideoTaskRequest )") {
		t.Errorf("describe: %v: %s", err, out)
	}
	out, err := grpcurl("-d", `{"request":{"video":{"model":"sandbox-video:duration_ms=300","prompt":"a cat"}}}`, s.grpc, service+"/CreateVideoTask")
	var created struct{ Task struct{ ID string } }
	if err := errors.Join(err, json.Unmarshal([]byte(out), &created)); err != nil {
		t.Fatalf("create: %v: %s", err, out)
	}
	out, err = grpcurl("-d", `{"id":"`+created.Task.ID+`"}`, s.grpc, service+"/WatchVideoTask")
	if err != nil || !strings.Contains(out, `"status": "JOB_STATUS_QUEUED"`) || !strings.Contains(out, `"status": "JOB_STATUS_COMPLETED"`) {
		t.Errorf("watch: %v: %s", err, out)
	}
	out, err = grpcurl("-d", `{"id":"video_none"}`, s.grpc, service+"/GetVideoTask")
	if err == nil || !strings.Contains(out, "Code: NotFound") || !strings.Contains(out, `"reason": "task_not_found"`) {
		t.Errorf("a video that does not exist: %v: %s", err, out)
	}
}

var jobPattern = regexp.MustCompile(`"id":"(video_[a-z2-7]{26})"`)

func (s served) checkNATS(t *testing.T, program string) {
	home := t.TempDir() // ignore the user's nats contexts
	run := func(options ...string) string {
		t.Helper()
		out, err := in(t, home, []string{"HOME=" + home, "XDG_CONFIG_HOME=" + home}, slices.Concat([]string{program, "-s", s.nats}, options)...)
		if err != nil {
			t.Fatalf("nats %q: %v: %s", options, err, out)
		}
		return out
	}
	const request = `{"model":"sandbox-video:duration_ms=300","prompt":"a cat"}`
	json := []string{"-H", "content-type:application/json"}
	names := subject.Default()
	run("consumer", "add", "GENBUS_TASKS", "finished-nats-cli", "--filter", names.Done("video", s.tenant, "completed", "*"), "--pull", "--deliver", "new", "--ack", "explicit", "--defaults")
	out := run(slices.Concat([]string{"req", names.Call("video", s.tenant)}, json, []string{request})...)
	if !jobPattern.MatchString(out) {
		t.Errorf("request-reply: %s", out)
	}
	out = run(slices.Concat([]string{"req", names.Request("video", s.tenant)}, json, []string{request})...)
	if !strings.Contains(out, `"stream":"GENBUS_REQUESTS"`) {
		t.Errorf("into the inbox: %s", out)
	}
	out = run(slices.Concat([]string{"req", names.Call("video", s.tenant)}, json, []string{`{"model":"none","prompt":"a cat"}`})...)
	if !strings.Contains(out, "model_not_found") {
		t.Errorf("a model that does not exist: %s", out)
	}
	out = run("consumer", "next", "GENBUS_TASKS", "finished-nats-cli", "--count", "2", "--timeout", "20s")
	if n := strings.Count(out, "ce-type: genbus.video.task.completed.v1"); n != 2 {
		t.Errorf("the feed has %d videos: %s", n, out)
	}
	run("consumer", "rm", "GENBUS_TASKS", "finished-nats-cli", "--force")
	if out := run("micro", "ls"); !strings.Contains(out, "genbus") {
		t.Errorf("micro: %s", out)
	}
}

// in runs a command in a directory, and returns its output.
func in(t *testing.T, dir string, env []string, command ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir, c.Env, c.WaitDelay = dir, append(os.Environ(), env...), time.Second
	out, err := c.CombinedOutput()
	return string(out), err
}
