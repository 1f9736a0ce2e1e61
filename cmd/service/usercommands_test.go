package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
)

// userCommand runs the binary as a tenant.
type userCommand struct {
	t    *testing.T
	env  []string
	args []string // appended to the arguments of each run
}

// run returns the output of a command and its exit code.
func (c userCommand) run(args ...string) (stdout, stderr string, code int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, os.Args[0], append(args, c.args...)...)
	run.Env = append(append(os.Environ(), runAsService+"=1"), c.env...)
	var out, problems bytes.Buffer
	run.Stdout, run.Stderr = &out, &problems
	err := run.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return out.String(), problems.String(), run.ProcessState.ExitCode()
}

// ok is run for commands that must succeed.
func (c userCommand) ok(args ...string) string {
	c.t.Helper()
	out, problems, code := c.run(args...)
	if code != 0 {
		c.t.Fatalf("%v ended with %d:\n%s%s", args, code, out, problems)
	}
	return out
}

// TestJobsFromTheCommandLine proves that jobs can be submitted and followed over gRPC and NATS, and
// listed, shown and cancelled.
func TestJobsFromTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond, ChunkInterval: time.Millisecond})
	byGRPC := userCommand{t: t, args: []string{"--server", w.GRPCAddr().String()}}
	byNATS := userCommand{t: t, args: []string{"--nats", w.NATSURL()}}
	body := filepath.Join(t.TempDir(), "body.json")
	if err := os.WriteFile(body, []byte(`{"model":"sandbox-video","prompt":"a cat","duration":5}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]userCommand{"gRPC": byGRPC, "NATS": byNATS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.t = t
			out := c.ok("submit", "video", "--model", "sandbox-video", "a cat", "--size", "1280x720", "--label", "team=a")
			if !strings.Contains(out, "  v1   queued        0 %\n") || !strings.Contains(out, "  queued        0 %  (submitting)\n") || !strings.Contains(out, "  completed   100 %\nhttp://") || strings.ContainsRune(out, '\r') {
				t.Errorf("a video was followed with:\n%s", out)
			}
			out = c.ok("submit", "video", "--model", "sandbox-videos", "a cat")
			content := regexp.MustCompile(`  completed   100 %\n/v1/videos/(video_\w+)/content\n$`).FindStringSubmatch(out)
			if content == nil {
				t.Errorf("a video without an address was followed with:\n%s", out)
			} else if out := (userCommand{t: t, args: byGRPC.args}).ok("tasks", "get", content[1]); !strings.Contains(out, " /v1/videos/"+content[1]+"/content\n") {
				t.Errorf("it is shown as\n%s", out)
			} else if out := (userCommand{t: t, args: byNATS.args}).ok("events", "--done", "--id", content[1]); !strings.HasSuffix(out, "  /v1/videos/"+content[1]+"/content\n") {
				t.Errorf("its end is printed as\n%s", out)
			}
			if out := c.ok("submit", "chat", "--model", "sandbox-chat", "hello"); !strings.HasPrefix(out, "You wrote 1 word") || strings.Count(out, "\n") != 1 {
				t.Errorf("a chat was printed as %q", out)
			}
			var last struct {
				Task struct{ Status string }
			}
			lines := strings.Split(strings.TrimSpace(c.ok("submit", "video", "--json", "--body", body)), "\n")
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Task.Status != "completed" || len(lines) < 4 {
				t.Errorf("as JSON: %v, %v", lines, err)
			}
			out, problems, code := c.run("submit", "video", "--model", "sandbox-video:fail=no", "a cat")
			if code != command.ExitFailed || !strings.Contains(problems, "the job has no result: upstream_failed: no") {
				t.Errorf("a video that fails ended with %d:\n%s%s", code, out, problems)
			}
			if _, problems, code := c.run("submit", "video", "--model", "nope", "a cat"); code != command.ExitNotFound || !strings.Contains(problems, "model_not_found: ") {
				t.Errorf("an unknown model ended with %d: %s", code, problems)
			}
			if out := c.ok("submit", "video", "--model", "sandbox-video:duration_ms=1", "--image", "https://example.com/a.png"); !strings.Contains(out, "  completed   100 %\nhttp://") {
				t.Errorf("a video of an image, without a prompt, was followed with:\n%s", out)
			}
			if _, problems, code := c.run("submit", "video", "--model", "sandbox-video"); code != command.ExitUsage || !strings.Contains(problems, "prompt") {
				t.Errorf("neither a prompt nor an image ended with %d: %s", code, problems)
			}
			for _, kind := range []string{"video", "chat"} {
				_, problems, code := c.run("submit", kind, "--tenant", "acme", "--model", "nope", "a cat")
				if want := map[string]string{"gRPC": "--tenant", "NATS": "model_not_found"}[name]; !strings.Contains(problems, want) || (code == command.ExitUsage) != (name == "gRPC") {
					t.Errorf("a %s of a tenant ended with %d: %s", kind, code, problems)
				}
			}
			if _, problems, code := c.run("submit", "video", "a cat"); code != command.ExitUsage || !strings.Contains(problems, "--model") {
				t.Errorf("no model ended with %d: %s", code, problems)
			}
		})
	}
	t.Run("tasks", func(t *testing.T) {
		t.Parallel()
		byGRPC := userCommand{t: t, args: byGRPC.args}
		id := strings.TrimSpace(byGRPC.ok("submit", "video", "--detach", "--model", "sandbox-video:duration_ms=60000", "a cat"))
		await(t, "the task in the list", func() bool { return strings.Contains(byGRPC.ok("tasks", "list", "--since", "1h"), id+"  ") })
		if out := byGRPC.ok("tasks", "cancel", id); out != id+" is cancelled\n" {
			t.Errorf("cancelled as %q", out)
		}
		if out := byGRPC.ok("tasks", "get", id); !strings.Contains(out, "cancelled, ") || !regexp.MustCompile(`error +cancelled: `).MatchString(out) {
			t.Errorf("it is\n%s", out)
		}
		for _, addr := range []string{w.HTTPAddr().String(), strings.TrimPrefix(w.NATSURL(), "nats://")} {
			if _, problems, code := (userCommand{t: t}).run("tasks", "list", "--server", addr); code != command.ExitUsage || !strings.Contains(problems, addr+" does not speak gRPC (--server): ") {
				t.Errorf("at an address of another protocol it ended with %d: %s", code, problems)
			}
		}
		for _, row := range []struct {
			args []string
			code int
		}{
			{[]string{"tasks", "get", id[:len(id)-1]}, command.ExitUsage},
			{[]string{"tasks", "cancel", "video_aaaaaaaaaaaaaaaaaaaaaaaaaa"}, command.ExitNotFound},
			{[]string{"tasks", "list", "--status", "done"}, command.ExitUsage},
			{[]string{"tasks", "list", "--limit=-1"}, command.ExitUsage},
		} {
			if _, problems, code := byGRPC.run(row.args...); code != row.code {
				t.Errorf("%v ended with %d, want %d: %s", row.args, code, row.code, problems)
			}
		}
	})
}

// TestTasksAreShownAsByHTTP proves that --json prints the same as HTTP, and that a waiting task
// shows the upstream's refusal.
func TestTasksAreShownAsByHTTP(t *testing.T) {
	t.Parallel()
	s := runService(t, startSandbox(t, sandbox.Options{}).URL(), func(*config.Config) {})
	c := userCommand{t: t, args: []string{"--server", s.GRPCAddr().String()}}
	chat := strings.TrimSpace(c.ok("submit", "chat", "--detach", "-m", "sandbox-chat", "hello"))
	await(t, "the end of the chat", func() bool { return strings.Contains(c.ok("tasks", "get", chat), "completed") })
	await(t, "the chat in the list", func() bool { return strings.Contains(c.ok("tasks", "list", "--kind", "chat"), chat+"  ") })
	id := strings.TrimSpace(c.ok("submit", "video", "--detach", "-m", "sandbox-video:status=429,retry_after=600", "a cat"))
	await(t, "the refusal", func() bool { return strings.Contains(c.ok("tasks", "get", id), "upstream  rate_limited\n") })
	for path, args := range map[string][]string{
		"/genbus/v1/videos/" + id: {"tasks", "get", id, "--json"}, "/genbus/v1/chats/" + chat: {"tasks", "get", chat, "--json"}, "/genbus/v1/videos": {"tasks", "list", "--json"},
		"/genbus/v1/models": {"models", "--json"},
		"/genbus/v1/chats":  {"tasks", "list", "--kind", "chat", "--json"},
	} {
		res, err := http.Get("http://" + s.HTTPAddr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		var byHTTP, printed map[string]any
		err = errors.Join(json.NewDecoder(res.Body).Decode(&byHTTP), res.Body.Close(), json.Unmarshal([]byte(c.ok(args...)), &printed))
		if err != nil || res.StatusCode != http.StatusOK || !reflect.DeepEqual(printed, byHTTP) {
			t.Errorf("%v printed %v, want as %s: %v, %v", args, printed, path, byHTTP, err)
		}
	}
	if out := c.ok("tasks", "cancel", id, "--json"); !strings.Contains(out, `"task"`) || strings.Contains(out, `"execution"`) {
		t.Errorf("it is cancelled as %s", out)
	}
}

// TestCommandsBringTheTenantsKey proves that commands send the API key from the environment or a
// file.
func TestCommandsBringTheTenantsKey(t *testing.T) {
	t.Parallel()
	const key = "acme-0123456789abcdef"
	s := runService(t, startSandbox(t, sandbox.Options{VideoDuration: 50 * time.Millisecond}).URL(), func(c *config.Config) {
		c.APIKeys = []config.APIKey{{Tenant: "acme", KeyEnv: "ACME", Key: config.NewSecret(key)}}
	})
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := []string{"--server", s.GRPCAddr().String()}
	userCommand{t: t, env: []string{command.EnvAPIKey + "=" + key}, args: server}.ok("submit", "video", "-m", "sandbox-video", "a cat")
	userCommand{t: t, args: append(server, "--key-file", file)}.ok("tasks", "list")
	if _, problems, code := (userCommand{t: t, args: server}).run("tasks", "list"); code != command.ExitDenied || !strings.Contains(problems, "invalid_api_key") {
		t.Errorf("without a key it ended with %d: %s", code, problems)
	}
}

// TestWrongCommandLines proves that a usage error prints the problem and a one-line usage.
func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"sumbit video x":          "genbus: unexpected argument sumbit, did you mean \"submit\"?\nUsage: genbus <command> [flags]; run \"genbus --help\" for help\n",
		"help sumbit":             "genbus: unexpected argument sumbit, did you mean \"submit\"?\nUsage: genbus <command> [flags]; run \"genbus --help\" for help\n",
		"operator jbos list":      "genbus: unexpected argument jbos, did you mean \"jobs\"?\nUsage: genbus operator <command> [flags]; run \"genbus operator --help\" for help\n",
		"tasks gte x":             "genbus: unexpected argument gte, did you mean \"get\"?\nUsage: genbus tasks <command> [flags]; run \"genbus tasks --help\" for help\n",
		"submit video --sise 3 x": "genbus: unknown flag --sise, did you mean \"--size\"?\nUsage: genbus submit video [<prompt>] [flags]; run \"genbus submit video --help\" for help\n",
		"--foo":                   "genbus: unknown flag --foo\nUsage: genbus <command> [flags]; run \"genbus --help\" for help\n",
		"serve now":               "genbus: unexpected argument now\nUsage: genbus serve [flags]; run \"genbus serve --help\" for help\n",
	} {
		out, problems, code := userCommand{t: t}.run(strings.Fields(line)...)
		if out != "" || problems != want || code != command.ExitUsage {
			t.Errorf("%s ended with %d:\n%s%s", line, code, out, problems)
		}
	}
}

// TestHelpAndVersion proves that these commands print the same as the flags.
func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for line, flag := range map[string]string{"help": "--help", "help tasks list": "tasks list --help", "help operator jobs": "operator jobs --help", "version": "--version"} {
		c := userCommand{t: t}
		got, want := c.ok(strings.Fields(line)...), c.ok(strings.Fields(flag)...)
		if got != want || len(got) < 10 {
			t.Errorf("%s printed\n%s\nand %s printed\n%s", line, got, flag, want)
		}
	}
}

// TestServerFromTheEnvironment proves that commands read the address from a variable, and that flags
// override it.
func TestServerFromTheEnvironment(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{})
	at := func(address string) userCommand { return userCommand{t: t, env: []string{"GENBUS_SERVER=" + address}} }
	for _, row := range []string{"sandbox-video ", "sandbox-chat "} {
		if out := at(w.GRPCAddr().String()).ok("models"); !strings.Contains(out, "\n"+row) {
			t.Errorf("the models lack %s:\n%s", row, out)
		}
	}
	nowhere := at("127.0.0.1:1")
	if _, problems, code := nowhere.run("models"); code != command.ExitUnavailable || !strings.Contains(problems, "127.0.0.1:1") {
		t.Errorf("of the address of nobody, it ended with %d: %s", code, problems)
	}
	nowhere.ok("models", "--server", w.GRPCAddr().String())
	nowhere.ok("submit", "chat", "--nats", w.NATSURL(), "-m", "sandbox-chat", "hello")
}

// TestNobodyThere proves that connection and argument errors are specific and contain no password.
func TestNobodyThere(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args []string
		code int
		says string
	}{
		"gRPC":         {[]string{"tasks", "list", "--server", "127.0.0.1:1"}, command.ExitUnavailable, "cannot reach genbus at 127.0.0.1:1 (--server): connection refused"},
		"TLS":          {[]string{"submit", "video", "-m", "m", "p", "--server", "127.0.0.1:1", "--tls"}, command.ExitUnavailable, "cannot reach genbus at 127.0.0.1:1 (--server): connection refused"},
		"a URL":        {[]string{"tasks", "list", "--server", "http://127.0.0.1:9090"}, command.ExitUsage, "GENBUS_SERVER must be host:port"},
		"no such file": {[]string{"tasks", "list", "--server", "unix:///nowhere/genbus.sock"}, command.ExitUnavailable, "/nowhere/genbus.sock"},
		"NATS":         {[]string{"events", "--nats", "nats://me:secret@127.0.0.1:1,127.0.0.1:2"}, command.ExitUnavailable, "cannot connect to NATS at …@127.0.0.1:1,127.0.0.1:2 (--nats): "},
		"no such host": {[]string{"events", "--nats", "nats://nowhere.invalid:1"}, command.ExitUnavailable, "cannot connect to NATS at nats://nowhere.invalid:1 (--nats): "},
		"no such port": {[]string{"submit", "chat", "-m", "m", "p", "--nats", "nats://me:secret@127.0.0.1:x"}, command.ExitUsage, "--nats: address 1 is invalid"},
		"slash":        {[]string{"events", "--nats", "nats://me:secret/secret@127.0.0.1:1"}, command.ExitUsage, "--nats: address 1 is invalid"},
		"question":     {[]string{"events", "--nats", "nats://me:secret?secret@127.0.0.1:1"}, command.ExitUsage, "--nats: address 1 is invalid"},
		"comma":        {[]string{"events", "--nats", "nats://me:secret,secret@127.0.0.1:1"}, command.ExitUsage, "--nats: address 1 is invalid"},
		"status":       {[]string{"tasks", "list", "--status", "faild", "--server", "127.0.0.1:1"}, command.ExitUsage, `--status: "faild" is invalid; use queued, `},
		"since":        {[]string{"tasks", "list", "--since", "1d", "--server", "127.0.0.1:1"}, command.ExitUsage, `--since: "1d" is neither a time (2026-01-31T12:00:00Z) nor a duration (2h)`},
		"limit":        {[]string{"tasks", "list", "--server", "127.0.0.1:1", "--limit", "-1"}, command.ExitUsage, "--limit: -1 is invalid; use 1 or more, or 0 for all"},
		"time to come": {[]string{"tasks", "list", "--server", "127.0.0.1:1", "--since", "-1h"}, command.ExitUsage, `--since: "-1h" is negative; use a duration such as 2h for the last two hours`},
		"no events":    {[]string{"events", "--nats", "nats://127.0.0.1:1", "--since", "-1h"}, command.ExitUsage, `--since: "-1h" is negative; use a duration such as 2h`},
		"timeout":      {[]string{"tasks", "list", "--server", "127.0.0.1:1", "--timeout", "-1s"}, command.ExitUsage, "--timeout: -1s must be more than 0"},
		"no health":    {[]string{"health", "--timeout", "-1s"}, command.ExitUsage, "--timeout: -1s must be more than 0"},
		"no length":    {[]string{"submit", "video", "-m", "m", "p", "--server", "127.0.0.1:1", "--duration", "-1"}, command.ExitUsage, "--duration: -1 must be more than 0"},
		"no value":     {[]string{"tasks", "list", "--server", "--limit", "1"}, command.ExitUsage, "--server: expected string value"},
		"hash":         {[]string{"events", "--nats", "127.0.0.1:1,nats://secret#secret@127.0.0.1:1"}, command.ExitUsage, "--nats: address 2 is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems, code := userCommand{t: t}.run(row.args...)
			if code != row.code || !strings.Contains(problems, row.says) || strings.Contains(problems, "secret") {
				t.Errorf("ended with %d: %s", code, problems)
			}
		})
	}
}

// TestBodyThatIsTooLarge proves that a large body is a usage error, whether gRPC or genbus refuses
// it.
func TestBodyThatIsTooLarge(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	s := runService(t, startSandbox(t, sandbox.Options{}).URL(), func(c *config.Config) {
		c.HTTP.MaxBodyBytes, c.GRPC.MaxMessageBytes = limit, limit
	})
	c := userCommand{t: t, args: []string{"--server", s.GRPCAddr().String()}}
	for _, size := range []int{limit + 1, 2 * limit} {
		file := filepath.Join(t.TempDir(), "big.json")
		if err := os.WriteFile(file, fmt.Appendf(nil, `{"model":"sandbox-video","prompt":"%s"}`, strings.Repeat("x", size)), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, problems, code := c.run("submit", "video", "--body", file); code != command.ExitUsage || !strings.Contains(problems, "body_too_large: ") {
			t.Errorf("%d bytes ended with %d: %s%s", size, code, out, problems)
		}
	}
}

// TestBodyThatIsNoJSON proves that an invalid body file is reported with its position and without
// calling a server.
func TestBodyThatIsNoJSON(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		`{bad`: " is not valid JSON: syntax error near byte 1", `{"model":"m"`: " is not valid JSON: it ends too early",
		`[]`: " is an array; it must be a JSON object", "\n": " is not valid JSON: it ends too early", "": " is empty; it must be JSON",
	} {
		file := filepath.Join(t.TempDir(), "body.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"submit", "video", "--body", file}, {"submit", "chat", "--body", file}, {"operator", "jobs", "retry", "video_x", "--edit", file}} {
			_, problems, code := userCommand{t: t, args: []string{"--server", "127.0.0.1:1"}, env: []string{"GENBUS_OPERATOR_KEY=x"}}.run(args...)
			if want := fmt.Sprintf("genbus: %s: %s%s\n", args[len(args)-2], file, says); code != command.ExitUsage || problems != want {
				t.Errorf("%q in %v: ended with %d and %q, want %q", text, args, code, problems, want)
			}
		}
	}
}

// TestEventsFromTheCommandLine proves that "events" prints stored and new events that match its
// filters.
func TestEventsFromTheCommandLine(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 50 * time.Millisecond, ChunkInterval: time.Millisecond})
	submit := userCommand{t: t, args: []string{"--server", w.GRPCAddr().String()}}
	submit.ok("submit", "video", "-m", "sandbox-video", "a cat")
	submit.ok("submit", "chat", "-m", "sandbox-chat", "hello")

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, os.Args[0], "events", "--nats", w.NATSURL(), "--done", "--kind", "video", "--tenant", "default", "--since", "1h")
	run.Env = append(os.Environ(), runAsService+"=1")
	out, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make([]byte, 4096)
	for _, when := range []string{"before", "after"} {
		n, err := out.Read(lines)
		if text := string(lines[:n]); err != nil || strings.Count(text, "\n") != 1 || !strings.Contains(text, "  completed  ") || !strings.Contains(text, "  video_") {
			t.Fatalf("of the job %s it printed %q, %v", when, text, err)
		}
		if when == "before" {
			submit.ok("submit", "video", "-m", "sandbox-video", "a dog")
		}
	}
	if err := run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := run.Wait(); err != nil {
		t.Errorf("interrupted, it ended with %v", err)
	}
	id := strings.TrimSpace(submit.ok("submit", "video", "--detach", "-m", "sandbox-video", "a bird"))
	one := userCommand{t: t, args: []string{"--nats", w.NATSURL()}}
	if out := one.ok("events", "--id", id, "--since", "1h"); strings.Count(out, id) < 4 || !strings.Contains(out, "  v1   queued") || !strings.Contains(out, "  completed") {
		t.Errorf("of one job it printed\n%s", out)
	}
	last := regexp.MustCompile(`^\S+  default     ` + id + `  v\d+ +completed  .*\n$`)
	for _, args := range [][]string{nil, {"--done"}, {"--since", "1ms"}, {"--done", "--since", "1ms"}, {"--tenant", "default"}} {
		if out := one.ok(append([]string{"events", "--id", id}, args...)...); !last.MatchString(out) {
			t.Errorf("of a job that has ended, with %v, it printed %q", args, out)
		}
	}
	for id, want := range map[string]string{"video_aaaaaaaaaaaaaaaaaaaaaaaaaa": "task_not_found: ", "chat_aaaaaaaaaaaaaaaaaaaaaaaaaa": "chat_not_found: "} {
		for _, args := range [][]string{nil, {"--since", "1h"}} {
			if _, problems, code := one.run(append([]string{"events", "--id", id}, args...)...); code != command.ExitNotFound || !strings.Contains(problems, want) {
				t.Errorf("%s with %v ended with %d: %s", id, args, code, problems)
			}
		}
	}
	for _, args := range [][]string{{"--since", "yesterday"}, {"--id", "video_x"}, {"--tenant", "a.b"}} {
		c := userCommand{t: t, args: []string{"--nats", w.NATSURL()}}
		if _, problems, code := c.run(append([]string{"events"}, args...)...); code != command.ExitUsage {
			t.Errorf("%v ended with %d: %s", args, code, problems)
		}
	}
}

// TestShellsComplete proves that commands and flags are completed.
func TestShellsComplete(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{"genbus sub": "submit", "genbus tasks ca": "cancel", "genbus events --do": "--done"} {
		c := userCommand{t: t, env: []string{"COMP_LINE=" + line}}
		if out := c.ok(); !strings.Contains(out, want) {
			t.Errorf("%q is completed with %q", line, out)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out := (userCommand{t: t}).ok("completion", "--code", shell); !strings.Contains(out, "complete ") {
			t.Errorf("for %s it printed %q", shell, out)
		}
	}
}
