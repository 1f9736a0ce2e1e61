package main

import (
	"bufio"
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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/test/npm"
)

// exampleTime limits each command of an example.
const exampleTime = time.Minute

// example is a publisher and a subscriber in another language, in their own directory.
type example struct {
	dir               string
	publish, finished []string // commands; publish takes options and then the prompt
}

// copyExample copies the sources of an example and writes the contract next to them.
func copyExample(t *testing.T, name string, patterns ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join("..", "..", "examples", name, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("examples/%s has no %s: %v", name, pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	descriptors, err := contract.Descriptors()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "descriptor.binpb"), descriptors, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// in runs a command in dir and returns its combined output.
func in(t *testing.T, dir string, env []string, command ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), exampleTime)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir, c.Env, c.WaitDelay = dir, append(os.Environ(), env...), time.Second
	out, err := c.CombinedOutput()
	return string(out), err
}

// subscriber is a running program that prints finished videos.
type subscriber struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string
	stderr *lockedBuffer
}

func subscribe(t *testing.T, e example, env []string) *subscriber {
	t.Helper()
	out, in := io.Pipe()
	s := &subscriber{t: t, cmd: exec.Command(e.finished[0], e.finished[1:]...), lines: make(chan string, 16), stderr: &lockedBuffer{}}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = e.dir, append(os.Environ(), env...), in, s.stderr
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // fails if it has exited
		_ = s.cmd.Wait()
		_ = in.Close()
	})
	if line := s.line(); !strings.HasPrefix(line, "waiting for finished videos of default") {
		t.Fatalf("it begins with %q", line)
	}
	return s
}

func (s *subscriber) line() string {
	s.t.Helper()
	select {
	case line := <-s.lines:
		return line
	case <-time.After(exampleTime):
		s.t.Fatalf("the subscriber is silent; on the other output: %s", s.stderr.String())
		return ""
	}
}

// stop interrupts it like Ctrl-C.
func (s *subscriber) stop() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("after an interrupt: %v: %s", err, s.stderr.String())
	}
}

var acceptedLine = regexp.MustCompile(`^accepted: (video_[a-z2-7]{26}), request id `)

func (e example) accepted(t *testing.T, env []string, options ...string) string {
	t.Helper()
	out, err := in(t, e.dir, env, slices.Concat(e.publish, options, []string{"a cat"})...)
	m := acceptedLine.FindStringSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("publish %v: %v: %s", options, err, out)
	}
	return m[1]
}

// check runs both programs against a service, with each event encoding.
func (e example) check(t *testing.T) {
	t.Helper()
	for encoding, run := range map[string]func(*testing.T, []string){config.EncodingProtobuf: e.all, config.EncodingJSON: e.one} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			w := newFastWorld(t, func(c *config.Config) { c.Events.Encoding = encoding })
			run(t, []string{"NATS_URL=" + w.NATSURL()})
		})
	}
}

// newFastWorld starts a client world with short videos.
func newFastWorld(t *testing.T, change ...func(*config.Config)) clientWorld {
	t.Helper()
	return newClientWorld(t, sandbox.Options{VideoDuration: 100 * time.Millisecond}, append(change, func(c *config.Config) {
		for i := range c.Routes {
			if c.Routes[i].Kind == config.KindVideo {
				c.Routes[i].Poll.Interval = 100 * time.Millisecond
			}
		}
	})...)
}

// one checks one video from the request to the line printed for it.
func (e example) one(t *testing.T, env []string) {
	s := subscribe(t, e, env)
	id := e.accepted(t, env)
	if line := s.line(); !strings.HasPrefix(line, id+"  sandbox-video  http://") {
		t.Errorf("after %s it prints %q", id, line)
	}
	s.stop()
}

// deleted checks that a subscriber exits with an error if its durable consumer is deleted.
func (e example) deleted(t *testing.T, w clientWorld, durable string) {
	s := subscribe(t, e, []string{"NATS_URL=" + w.NATSURL()})
	if err := w.js.DeleteConsumer(t.Context(), "GENBUS_TASKS", durable); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(exampleTime, func() { _ = s.cmd.Process.Kill() }).Stop()
	err := s.cmd.Wait()
	if exit, is := errors.AsType[*exec.ExitError](err); !is || exit.ExitCode() != 1 {
		t.Errorf("without its consumer it ends with %v", err)
	}
	if said := s.stderr.String(); !strings.Contains(said, "consumer not found") || strings.Count(said, "\n") != 1 {
		t.Errorf("without its consumer it says %q", said)
	}
}

// oneByOne checks that a subscriber with a blocked handler holds only one of three videos.
func (e example) oneByOne(t *testing.T, w clientWorld, durable string) {
	env := []string{"NATS_URL=" + w.NATSURL()}
	s := subscribe(t, e, env)
	for range 3 {
		e.accepted(t, env)
	}
	s.line()
	consumer, err := w.js.Consumer(t.Context(), "GENBUS_TASKS", durable)
	if err != nil {
		t.Fatal(err)
	}
	var info *jetstream.ConsumerInfo
	await(t, "three videos are finished", func() bool {
		info, err = consumer.Info(t.Context())
		return err == nil && info.NumAckPending+int(info.NumPending) == 3
	})
	if info.NumAckPending != 1 {
		t.Errorf("%d videos are in the hands of a subscriber that handles one", info.NumAckPending)
	}
}

// all checks the documented features of both programs.
func (e example) all(t *testing.T, env []string) {
	s := subscribe(t, e, env)
	first := e.accepted(t, env, "--request-id", "order-7")
	if line := s.line(); !strings.HasPrefix(line, first+"  sandbox-video  http://") {
		t.Errorf("after %s it prints %q", first, line)
	}
	if again := e.accepted(t, env, "--request-id", "order-7"); again != first {
		t.Errorf("the same request is %s, and was %s", again, first)
	}
	if out, err := in(t, e.dir, env, slices.Concat(e.publish, []string{"--request-id", "order-8", "--model", "none"})...); err == nil || !strings.Contains(out, "refused: model_not_found: ") {
		t.Errorf("an unknown model: %v: %s", err, out)
	}
	s.stop()

	if out, err := in(t, e.dir, env, slices.Concat(e.finished, []string{"--tenant", "other"})...); err == nil || strings.Contains(out, "waiting") {
		t.Errorf("with the durable of another tenant: %v: %s", err, out)
	}

	// A restart delivers first the video that finished in between, and no video twice.
	if out, err := in(t, e.dir, env, slices.Concat(e.publish, []string{"--stream", "--request-id", "order-9"})...); err != nil || !storedForAdmission.MatchString(out) {
		t.Fatalf("publish --stream: %v: %s", err, out)
	}
	s = subscribe(t, e, env)
	second := s.line()
	if strings.HasPrefix(second, first) || !strings.Contains(second, "  sandbox-video  http://") {
		t.Errorf("the subscriber that is back begins with %q", second)
	}
	s.stop()
}

// storedForAdmission matches a publisher's output for a request in the inbox. The sequence is large
// because a new inbox derives its first sequence from the time.
var storedForAdmission = regexp.MustCompile(`^stored for admission: GENBUS_REQUESTS, message [1-9][0-9]{15}, request id order-9\b`)

// completedLine matches the output of openai.js.
var completedLine = regexp.MustCompile(`^video_[a-z2-7]{26} completed\n$`)

// jobsLines matches the output of jobs.js.
var jobsLines = regexp.MustCompile(`^(?:event \d: (?:queued|in_progress)\n)+event \d+: completed\n(video_[a-z2-7]{26}) is completed\nwrote (.*)\n(video_[a-z2-7]{26}) is cancelled\ncompleted: (video_[a-z2-7]{26})\n$`)

// TestNodeExample proves that examples/node can be installed, generated and run as described in
// docs/node.md.
func TestNodeExample(t *testing.T) {
	t.Parallel()
	dir := copyExample(t, "node", "*.js", "package*.json")
	npm.Install(t, dir)
	if out, err := in(t, dir, nil, "npm", "run", "generate"); err != nil {
		t.Fatalf("generate: %v: %s", err, out)
	}
	e := example{dir: dir, publish: []string{"node", "publish.js"}, finished: []string{"node", "finished.js"}}
	e.check(t)
	t.Run("openai", func(t *testing.T) {
		t.Parallel()
		w := newFastWorld(t)
		if out, err := in(t, dir, nil, "node", "openai.js", w.base+"/v1"); err != nil || !completedLine.MatchString(out) {
			t.Errorf("openai.js: %v: %s", err, out)
		}
	})
	t.Run("jobs", func(t *testing.T) {
		t.Parallel()
		w, film := newFastWorld(t), filepath.Join(t.TempDir(), "film.mp4")
		hour := int(time.Hour.Milliseconds())
		w.up.Sandbox.SetBehaviour(func(_ *http.Request, body []byte) *sandbox.Behaviour {
			if bytes.Contains(body, []byte("not needed")) { // the video that the example cancels
				return &sandbox.Behaviour{DurationMS: &hour}
			}
			return nil
		})
		out, err := in(t, dir, []string{"NATS_URL=" + w.NATSURL()}, "node", "jobs.js", "--out", film, "a cat")
		m := jobsLines.FindStringSubmatch(out)
		if err != nil || m == nil || m[1] != m[4] || m[2] != film || m[3] == m[1] {
			t.Fatalf("jobs.js: %v: %s", err, out)
		}
		data, err := os.ReadFile(film)
		if err != nil {
			t.Fatal(err)
		}
		if _, want := w.fetch(t, http.MethodGet, "/v1/videos/"+m[1]+"/content", ""); !bytes.Equal(data, want) {
			t.Errorf("jobs.js wrote %d bytes, and the video has %d", len(data), len(want))
		}
	})
	t.Run("one by one and deleted", func(t *testing.T) {
		t.Parallel()
		w := newFastWorld(t)
		e.deleted(t, w, "node-finished")
		slow := e
		slow.finished = []string{"node", withSlowHandler(t, dir)}
		slow.oneByOne(t, w, "node-finished")
	})
}

// nodeVersion matches the lowest major version of Node in a page or in the engines of a package.
var nodeVersion = regexp.MustCompile(`(?:Node |^>= ?)(\d+)`)

// TestNodeExampleFitsItsPage proves that examples/node, with all its packages, runs on the version of
// Node that docs/node.md asks for.
func TestNodeExampleFitsItsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "node.md"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "examples", "node", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct{ Engines struct{ Node string } }
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		t.Fatal(err)
	}
	said, err := strconv.Atoi(string(nodeVersion.FindSubmatch(page)[1]))
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range lock.Packages {
		if p.Engines.Node == "" {
			continue
		}
		if wants := nodeVersion.FindStringSubmatch(p.Engines.Node); wants == nil {
			t.Errorf("%s needs Node %q, which this test cannot read", name, p.Engines.Node)
		} else if n, err := strconv.Atoi(wants[1]); err != nil || n > said {
			t.Errorf("%s needs Node %s, and docs/node.md says %d", name, p.Engines.Node, said)
		}
	}
}

// withSlowHandler writes a variant of finished.js whose handler never returns.
func withSlowHandler(t *testing.T, dir string) string {
	t.Helper()
	program, err := os.ReadFile(filepath.Join(dir, "finished.js"))
	if err != nil {
		t.Fatal(err)
	}
	const decoded = "await finished(decode(message));"
	if bytes.Count(program, []byte(decoded)) != 1 {
		t.Fatalf("finished.js has no %s", decoded)
	}
	program = bytes.Replace(program, []byte(decoded), []byte(decoded+" await new Promise(() => {});"), 1)
	if err := os.WriteFile(filepath.Join(dir, "slow.js"), program, 0o600); err != nil {
		t.Fatal(err)
	}
	return "slow.js"
}
