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
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/command"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/listener/certtest"
	"github.com/genbus/genbus/internal/sandbox"
)

const opsKey = "gb_ops-0123456789abcdef0123"

func withOps(c *config.Config) {
	c.APIKeys = []config.APIKey{{Tenant: "acme", KeyEnv: "ACME", Key: config.NewSecret("acme-0123456789abcdef")}}
	c.OperatorKeys = []config.OperatorKey{{Name: "ops", KeyEnv: "OPS", Key: config.NewSecret(opsKey)}}
	for i := range c.Routes {
		if c.Routes[i].Kind == config.KindVideo {
			c.Routes[i].Poll.Interval = 50 * time.Millisecond
		}
	}
}

// operatorCommand runs the command line against one service.
type operatorCommand struct {
	t      *testing.T
	server string
	key    string // passed in the environment; empty for none
}

// run runs "genbus operator" with args. It returns the output and the exit code.
func (c operatorCommand) run(args ...string) (out string, code int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, os.Args[0], append([]string{"operator", "--server", c.server}, args...)...)
	run.Env = append(os.Environ(), runAsService+"=1", "GENBUS_OPERATOR_KEY="+c.key)
	var both bytes.Buffer
	run.Stdout, run.Stderr = &both, &both
	err := run.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if strings.Contains(both.String(), opsKey) {
		c.t.Errorf("%v printed the key:\n%s", args, both.String())
	}
	return both.String(), run.ProcessState.ExitCode()
}

// ok is run for commands that must succeed.
func (c operatorCommand) ok(args ...string) string {
	c.t.Helper()
	out, code := c.run(args...)
	if code != 0 {
		c.t.Fatalf("%v ended with %d:\n%s", args, code, out)
	}
	return out
}

// into runs a command with --json and decodes its output.
func (c operatorCommand) into(v any, args ...string) {
	c.t.Helper()
	out := c.ok(append([]string{"--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), v); err != nil {
		c.t.Fatalf("%v printed %s: %v", args, out, err)
	}
}

type listedDeadLetter struct {
	Sequence   string
	DataSize   string `json:"data_size"`
	DeadLetter struct {
		ID, Data       string
		UpstreamTaskID string `json:"upstream_task_id"`
		Error          struct{ Code string }
	} `json:"letter"`
}

func (c operatorCommand) deadLettersOf(code string) []listedDeadLetter {
	c.t.Helper()
	var list struct{ Letters []listedDeadLetter }
	c.into(&list, "dead", "list", "--code", code)
	return list.Letters
}

// acmeVideo creates a task of tenant acme and returns its ID.
func (w clientWorld) acmeVideo(t *testing.T, model, prompt string) string {
	t.Helper()
	status, answer := w.post(t, "/v1/video/generations", fmt.Sprintf(`{"model":%q,"prompt":%q}`, model, prompt), "Authorization", "Bearer acme-0123456789abcdef")
	if status != http.StatusOK {
		t.Fatalf("%d %v", status, answer)
	}
	return fmt.Sprint(answer["id"])
}

func (w clientWorld) statusOf(t *testing.T, id string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.base+"/v1/video/generations/"+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer acme-0123456789abcdef")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var task struct{ Status string }
	if err := json.NewDecoder(resp.Body).Decode(&task); err != nil {
		t.Fatal(err)
	}
	return task.Status
}

func (w clientWorld) awaitStatus(t *testing.T, id, status string) {
	t.Helper()
	await(t, id+" is "+status, func() bool { return w.statusOf(t, id) == status })
}

// jobOf returns the job ID in the output of a command.
func jobOf(t *testing.T, out string) string {
	t.Helper()
	for _, word := range strings.Fields(out) {
		if strings.HasPrefix(word, "video_") {
			return word
		}
	}
	t.Fatalf("no job in %q", out)
	return ""
}

// TestOperatorCommand proves that an operator can find and recover failed jobs with the command
// line.
func TestOperatorCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond}, withOps)
	c := operatorCommand{t: t, server: w.GRPCAddr().String(), key: opsKey}
	if out := c.ok("dead", "list"); out != "no dead letters\n" {
		t.Errorf("printed %q", out)
	}
	w.up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method != http.MethodPost {
			return nil
		}
		return &sandbox.Behaviour{Drop: sandbox.DropAfterCreate}
	})
	unknown := w.acmeVideo(t, "sandbox-video", "first secret")
	w.awaitStatus(t, unknown, "failed")
	dropped := w.acmeVideo(t, "sandbox-video", "second secret")
	w.awaitStatus(t, dropped, "failed")
	w.up.Sandbox.SetBehaviour(nil)
	if out := c.ok("dead", "list"); strings.Count(out, "submission_outcome_unknown") != 2 || !strings.Contains(out, unknown) || strings.Contains(out, "secret") {
		t.Errorf("printed\n%s", out)
	}
	letters := c.deadLettersOf("submission_outcome_unknown")
	if len(letters) != 2 || letters[0].DeadLetter.ID != unknown || letters[0].DeadLetter.Data != "" || letters[0].DataSize == "" {
		t.Fatalf("listed %+v", letters)
	}
	first, second := letters[0].Sequence, letters[1].Sequence
	if out := c.ok("dead", "show", first); !strings.Contains(out, "submission_outcome_unknown") || strings.Contains(out, "secret") {
		t.Errorf("show printed\n%s", out)
	}
	if out := c.ok("dead", "show", first, "--body"); !strings.Contains(out, `secret"`) {
		t.Errorf("show --body printed\n%s", out)
	}
	var shown listedDeadLetter
	if c.into(&shown, "dead", "show", first); shown.DeadLetter.Data != "" || shown.DeadLetter.ID != unknown {
		t.Errorf("show --json printed %+v", shown)
	}
	before := w.up.Sandbox.Stats().Creates
	redriven := jobOf(t, c.ok("dead", "redrive", first))
	w.awaitStatus(t, redriven, "completed")
	if n := w.up.Sandbox.Stats().Creates - before; n != 1 {
		t.Errorf("%d creates after the redrive", n)
	}
	if out, code := c.run("dead", "drop", "98", second, "99"); code != command.ExitNotFound || !strings.Contains(out, "dead letter "+second+" removed\n") ||
		!strings.Contains(out, "genbus: dead letter 98: letter_not_found: ") || !strings.Contains(out, "\ndead letter 99: letter_not_found: ") {
		t.Errorf("drop ended with %d and printed %q", code, out)
	}
	if out := c.ok("dead", "list"); out != "no dead letters\n" {
		t.Errorf("printed %q", out)
	}
	if out, code := c.run("dead", "show", first); code != command.ExitNotFound || !strings.HasPrefix(out, "genbus: letter_not_found: ") {
		t.Errorf("%d %q", code, out)
	}
	if out := c.ok("erase", "acme", redriven); out != "erased "+redriven+"\n" {
		t.Errorf("erase printed %q", out)
	}
	if out, code := c.run("erase", "acme", redriven); code != command.ExitNotFound {
		t.Errorf("erased twice: %d %q", code, out)
	}
}

// holdCreates makes the upstream hold all creates until answer is closed. begun receives a value
// for each create.
func (w *clientWorld) holdCreates() (begun <-chan struct{}, answer chan<- struct{}) {
	arrived, goOn := make(chan struct{}, 10), make(chan struct{})
	w.up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if r.Method == http.MethodPost {
			arrived <- struct{}{}
			select {
			case <-goOn:
			case <-r.Context().Done():
			}
		}
		return nil
	})
	return arrived, goOn
}

// TestOperatorAttachCommand proves that the upstream task of a job cancelled during submission can
// be attached without another create, and that its dead letter is then gone for every command.
func TestOperatorAttachCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond}, withOps)
	c := operatorCommand{t: t, server: w.GRPCAddr().String(), key: opsKey}
	begun, answer := w.holdCreates()
	id := w.acmeVideo(t, "sandbox-video", "a cat")
	<-begun
	videos := genbusv1grpc.NewVideoServiceClient(w.grpc)
	if _, err := videos.CancelVideoTask(asTenant(t.Context()), &genbusv1.CancelVideoTaskRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	close(answer)
	var letters []listedDeadLetter
	await(t, "the dead letter", func() bool {
		letters = c.deadLettersOf("orphaned_submission")
		return len(letters) == 1
	})
	if out, code := c.run("erase", "acme", id); code != 0 {
		t.Errorf("erase of the cancelled job: %d %q", code, out)
	}
	letter := letters[0].Sequence
	attached := jobOf(t, c.ok("attach", letter))
	w.awaitStatus(t, attached, "completed")
	for _, again := range [][]string{{"dead", "redrive", letter}, {"attach", letter}, {"attach", letter, "another"}, {"dead", "drop", letter}} {
		if out, code := c.run(again...); code != command.ExitNotFound || !strings.Contains(out, "letter_not_found: ") || !strings.Contains(out, "attached") {
			t.Errorf("%v of a dead letter that was attached: %d %q", again, code, out)
		}
	}
	if n := w.up.Sandbox.Stats().Creates; n != 1 {
		t.Errorf("%d creates", n)
	}
}

// TestOperatorLookUpCommand proves that Kling can look up the task of a dead letter by our ID, and
// that the look-up is refused for another protocol.
func TestOperatorLookUpCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond}, withOps)
	c := operatorCommand{t: t, server: w.GRPCAddr().String(), key: opsKey}
	begun, answer := w.holdCreates()
	videos := genbusv1grpc.NewVideoServiceClient(w.grpc)
	for _, model := range []string{"sandbox-kling", "sandbox-video"} {
		typed := &genbusv1.VideoGeneration{Model: model, Prompt: "a cat"}
		made, err := videos.CreateVideoTask(asTenant(t.Context()), &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Video{Video: typed}}})
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		if _, err := videos.CancelVideoTask(asTenant(t.Context()), &genbusv1.CancelVideoTaskRequest{Id: made.GetTask().GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	close(answer)
	var letters []listedDeadLetter
	await(t, "the dead letters", func() bool {
		letters = c.deadLettersOf("orphaned_submission")
		return len(letters) == 2
	})
	found := 0
	for _, l := range letters {
		switch out, code := c.run("look-up", l.Sequence); {
		case code == 0 && strings.Contains(out, "the upstream has task "):
			found++
		case code != command.ExitNotPossible || !strings.Contains(out, "letter_unusable"):
			t.Errorf("look-up: %d %q", code, out)
		}
	}
	if found != 1 {
		t.Errorf("%d are found", found)
	}
}

// TestOperatorCancelCommand proves that a job can be cancelled, and cancelled again without effect.
func TestOperatorCancelCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: time.Hour}, withOps)
	c := operatorCommand{t: t, server: w.GRPCAddr().String(), key: opsKey}
	id := w.acmeVideo(t, "sandbox-video", "a cat")
	for range 2 {
		if out := c.ok("cancel", "acme", id); out != id+" is cancelled\n" {
			t.Errorf("printed %q", out)
		}
	}
	if status := w.statusOf(t, id); status != "cancelled" {
		t.Errorf("the job is %s", status)
	}
	var answer struct{ ID, Status string }
	if c.into(&answer, "cancel", "acme", id); answer.ID != id || answer.Status != "JOB_STATUS_CANCELLED" {
		t.Errorf("printed %+v", answer)
	}
	if out, code := c.run("cancel", "globex", id); code != command.ExitNotFound || !strings.Contains(out, "task_not_found") {
		t.Errorf("another tenant's: %d %q", code, out)
	}
}

// TestOperatorJobsCommand proves that an operator can list jobs of any tenant and show how they
// ended.
func TestOperatorJobsCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond}, withOps)
	c := operatorCommand{t: t, server: w.GRPCAddr().String(), key: opsKey}
	if out := c.ok("jobs", "list"); out != "no jobs match\n" {
		t.Errorf("printed %q", out)
	}
	done := w.acmeVideo(t, "sandbox-video", "first secret")
	w.awaitStatus(t, done, "completed")
	failed := w.acmeVideo(t, "sandbox-video:statuses=in_progress|failed", "second secret")
	w.awaitStatus(t, failed, "failed")
	await(t, "both are listed", func() bool { return strings.Contains(c.ok("jobs", "list", "--status", "failed"), failed) })
	if out := c.ok("jobs", "list"); !strings.Contains(out, done) || !strings.HasSuffix(out, "\n2 of 2\n") || strings.Contains(out, "secret") {
		t.Errorf("printed\n%s", out)
	}
	if out := c.ok("jobs", "list", "--status", "failed", "--tenant", "acme", "--since", "1h", "--route", config.SandboxVideoRoute); strings.Contains(out, done) || !strings.HasSuffix(out, "\n1 of 1\n") {
		t.Errorf("printed\n%s", out)
	}
	if out := c.ok("jobs", "list", "--limit", "1", "--oldest"); !strings.Contains(out, done) || strings.Contains(out, failed) || !strings.HasSuffix(out, "\n1 of 2; see --limit\n") {
		t.Errorf("printed\n%s", out)
	}
	var listed struct {
		Jobs []struct {
			ID           string
			UpstreamTask string `json:"upstream_task_id"`
		}
	}
	c.into(&listed, "jobs", "list", "--status", "completed")
	if len(listed.Jobs) != 1 || listed.Jobs[0].ID != done || listed.Jobs[0].UpstreamTask == "" {
		t.Fatalf("listed %+v", listed)
	}
	for _, id := range []string{done, listed.Jobs[0].UpstreamTask} {
		out := c.ok("jobs", "show", id)
		for _, want := range []string{done, "acme", "sandbox-video", "completed", "submitting", listed.Jobs[0].UpstreamTask, "100 %"} {
			if !strings.Contains(out, want) || strings.Contains(out, "secret") {
				t.Errorf("show lacks %q, or has the prompt:\n%s", want, out)
			}
		}
	}
	unread := w.acmeVideo(t, "sandbox-video:poll_status=503", "third secret")
	failing := regexp.MustCompile(`\npolls +the last (\d+ failed, the last one|one failed,) at \S+Z: status 503, code `)
	await(t, "failing polls are shown", func() bool { return failing.MatchString(c.ok("jobs", "show", unread)) })
	if out, code := c.run("jobs", "show", "nothing"); code != command.ExitNotFound || !strings.Contains(out, "not_found: ") {
		t.Errorf("%d %q", code, out)
	}
	if out, code := c.run("jobs", "list", "--status", "done"); code != command.ExitUsage || !strings.Contains(out, "status: must be queued") {
		t.Errorf("%d %q", code, out)
	}
}

// TestOperatorFleetCommand proves that the commands show the replica, and an upstream that refused
// its key.
func TestOperatorFleetCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: time.Hour}, withOps)
	c := operatorCommand{t: t, server: w.GRPCAddr().String(), key: opsKey}
	var replicas struct {
		Replicas []struct {
			ID, Address, Version string
			HeldJobs             string `json:"held_jobs"`
			IndexReady           bool   `json:"index_ready"`
		}
	}
	w.acmeVideo(t, "sandbox-video", "a cat")
	await(t, "the job is held", func() bool {
		c.into(&replicas, "replicas")
		return len(replicas.Replicas) == 1 && replicas.Replicas[0].HeldJobs == "1" && replicas.Replicas[0].IndexReady
	})
	if out := c.ok("replicas"); !strings.Contains(out, replicas.Replicas[0].ID) || !strings.Contains(out, replicas.Replicas[0].Address+" ") || !strings.Contains(out, "serves") || strings.Count(out, "\n") != 2 {
		t.Errorf("printed\n%s", out)
	}
	for _, limit := range []string{"0", "-1", "101"} {
		if out, code := c.run("tenants", "--limit="+limit); code != command.ExitUsage || !strings.Contains(out, "--limit: "+limit+" is invalid; use 1 to 100") {
			t.Errorf("a limit of %s ended with %d: %s", limit, code, out)
		}
	}
	for _, list := range [][]string{{"jobs", "list"}, {"dead", "list"}, {"audit"}} {
		if out, code := c.run(append(list, "--limit=-1")...); code != command.ExitUsage || !strings.Contains(out, "--limit: -1 is invalid; use 1 or more, or 0 for all") {
			t.Errorf("%v with a negative limit ended with %d: %s", list, code, out)
		}
	}
	if out := c.ok("tenants"); !strings.Contains(out, "acme") || !strings.HasSuffix(out, "\n1 of 1\n") {
		t.Errorf("printed\n%s", out)
	}
	if out := c.ok("overview"); !strings.Contains(out, config.SandboxVideoRoute) || !strings.Contains(out, "1 job has not ended; dead letters: 0 to decide") || !strings.Contains(out, "0 of 1") {
		t.Errorf("printed\n%s", out)
	}
	if out := c.ok("routes"); !strings.Contains(out, "STARTED, 1 MIN") {
		t.Errorf("printed\n%s", out)
	}
	if out := c.ok("streams"); !strings.Contains(out, "GENBUS_TASKS") || !strings.Contains(out, "GENBUS_OPS") || !strings.Contains(out, " %") {
		t.Errorf("printed\n%s", out)
	}
	if out := c.ok("upstreams"); !strings.Contains(out, "in use") || !strings.Contains(out, "0 of 1") {
		t.Errorf("printed\n%s", out)
	}
	w.up.Sandbox.SetBehaviour(func(*http.Request, []byte) *sandbox.Behaviour {
		return &sandbox.Behaviour{Status: http.StatusUnauthorized}
	})
	w.acmeVideo(t, "sandbox-video", "second secret")
	await(t, "the refused key", func() bool { return strings.Contains(c.ok("upstreams"), "key refused (401), last resort until ") })
	if out := c.ok("upstreams"); strings.Contains(out, "secret") {
		t.Errorf("printed\n%s", out)
	}
}

// TestOperatorRoutesCommand proves that a route can be paused and resumed.
func TestOperatorRoutesCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond}, withOps)
	c := operatorCommand{t: t, server: w.GRPCAddr().String(), key: opsKey}
	if out := c.ok("routes"); !strings.Contains(out, config.SandboxVideoRoute) || strings.Contains(out, "paused") || strings.Count(out, "\n") != len(w.Config().Routes)+1 {
		t.Errorf("routes printed\n%s", out)
	}
	if out := c.ok("audit"); out != "no records\n" {
		t.Errorf("audit printed\n%s", out)
	}
	if out := c.ok("pause", "video", config.SandboxVideoRoute); !strings.Contains(out, "paused since ") || !strings.Contains(out, " by ops") {
		t.Errorf("pause printed\n%s", out)
	}
	// Refused and repeated commands change neither route.
	if out, code := c.run("orphans", "fail", "--no-replica-serves-it", "video", config.SandboxVideoRoute); code == 0 {
		t.Errorf("orphans fail of a route that is configured: %s", out)
	}
	first := c.ok("routes")
	c.ok("pause", "video", config.SandboxVideoRoute)
	if again := c.ok("routes"); again != first || !strings.Contains(again, "paused since ") {
		t.Errorf("paused again:\n%s\nbefore:\n%s", again, first)
	}
	if out := c.ok("pause", "video", config.SandboxVideoRoute, "--reason", "repair", "--for", "2h"); !strings.Contains(out, " by ops until ") || !strings.Contains(out, " (repair)") {
		t.Errorf("pause with a reason and an end printed\n%s", out)
	}
	if out := c.ok("audit"); !strings.Contains(out, "ops paused route video/"+config.SandboxVideoRoute+" until ") || !strings.Contains(out, " UTC: repair ") {
		t.Errorf("audit printed\n%s", out)
	}
	if out, code := c.run("pause", "video", config.SandboxVideoRoute, "--for", "721h"); code != command.ExitUsage || !strings.Contains(out, "must be positive and at most 720h") {
		t.Errorf("a pause that is too long: %d\n%s", code, out)
	}
	id := w.acmeVideo(t, "sandbox-video", "a cat")
	var until time.Time
	await(t, "the waiting job", func() bool {
		var list struct {
			Routes []struct {
				Name, Waiting string
				Paused        bool
				Pause         struct{ Until time.Time }
			}
		}
		c.into(&list, "routes")
		for _, r := range list.Routes {
			if r.Name == config.SandboxVideoRoute && r.Paused && r.Waiting == "1" {
				until = r.Pause.Until
				return true
			}
		}
		return false
	})
	if status := w.statusOf(t, id); status != "queued" {
		t.Errorf("the job of a paused route is %s", status)
	}
	notice := "waits because an operator paused its route until " + until.Format(time.RFC3339) + ", reason: repair (route_paused)\n"
	for _, by := range [][]string{{"--server", w.GRPCAddr().String()}, {"--nats", w.NATSURL(), "--tenant", "acme"}} {
		tenant := userCommand{t: t, env: []string{"GENBUS_API_KEY=acme-0123456789abcdef"}, args: by}
		await(t, "the notice of a submission", func() bool {
			id, said, _ := tenant.run("submit", "video", "--detach", "--request-id", "paused"+by[0], "-m", "sandbox-video", "a cat")
			return said == "genbus: "+strings.TrimSpace(id)+": the job "+notice
		})
	}
	if out := c.ok("jobs", "show", id); !strings.Contains(out, notice) {
		t.Errorf("a job of a paused route is shown as\n%s", out)
	}
	out := c.ok("attention")
	_, fix, found := strings.Cut(out, "\n  genbus operator ")
	if !found || !strings.HasPrefix(out, "route paused: video route sandbox-video, since ") || !strings.Contains(out, "  3 jobs wait. Paused by ops until ") {
		t.Fatalf("attention printed\n%s", out)
	}
	if out := c.ok(strings.Fields(fix)...); !strings.Contains(out, "running") {
		t.Errorf("%s printed\n%s", fix, out)
	}
	if out := c.ok("attention"); out != "Nothing needs attention.\n" {
		t.Errorf("attention printed\n%s", out)
	}
	w.awaitStatus(t, id, "completed")
	if out, code := c.run("pause", "video", "gone"); code != command.ExitNotFound || !strings.Contains(out, "route_not_found") {
		t.Errorf("%d %q", code, out)
	}
}

// TestOperatorOrphansCommand proves that orphaned jobs are failed only with an explicit flag, and
// only for an unconfigured route.
func TestOperatorOrphansCommand(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{VideoDuration: 200 * time.Millisecond}, withOps)
	c := operatorCommand{t: t, server: w.GRPCAddr().String(), key: opsKey}
	if out := c.ok("orphans", "list"); out != "no jobs of unconfigured routes\n" {
		t.Errorf("list printed\n%s", out)
	}
	if out, code := c.run("orphans", "fail", "video", "gone"); code != command.ExitUsage || !strings.Contains(out, "--no-replica-serves-it") {
		t.Errorf("without the flag: %d\n%s", code, out)
	}
	if out, code := c.run("orphans", "fail", "video", config.SandboxVideoRoute, "--no-replica-serves-it"); code != command.ExitUsage && code != command.ExitDenied || !strings.Contains(out, "is a configured route") {
		t.Errorf("fail of a configured route: %d\n%s", code, out)
	}
	if out, code := c.run("orphans", "fail", "video", "gone", "--no-replica-serves-it"); code != command.ExitNotFound || !strings.Contains(out, "no job has video route gone") {
		t.Errorf("fail: %d\n%s", code, out)
	}
}

// TestOperatorCommandIsRefused proves that errors of keys, addresses and arguments have their own
// exit codes and messages.
func TestOperatorCommandIsRefused(t *testing.T) {
	t.Parallel()
	w := newClientWorld(t, sandbox.Options{}, withOps)
	server := w.GRPCAddr().String()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(opsKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		c    operatorCommand
		args []string
		code int
		says string
	}{
		"no key":              {operatorCommand{t, server, ""}, []string{"routes"}, command.ExitUsage, "GENBUS_OPERATOR_KEY"},
		"a tenant's key":      {operatorCommand{t, server, "acme-0123456789abcdef"}, []string{"routes"}, command.ExitDenied, "operator_required"},
		"an unknown key":      {operatorCommand{t, server, "nobody"}, []string{"routes"}, command.ExitDenied, "invalid_api_key"},
		"key in a file":       {operatorCommand{t, server, ""}, []string{"--key-file", file, "routes"}, 0, config.SandboxVideoRoute},
		"no such file":        {operatorCommand{t, server, ""}, []string{"--key-file", file + "x", "routes"}, command.ExitUsage, "no such file"},
		"nobody there":        {operatorCommand{t, "127.0.0.1:1", opsKey}, []string{"routes"}, command.ExitUnavailable, "genbus: cannot reach genbus at 127.0.0.1:1 (--server): connection refused"},
		"in clear":            {operatorCommand{t, "192.0.2.1:9090", opsKey}, []string{"routes"}, command.ExitUsage, "--tls"},
		"a wrong kind":        {operatorCommand{t, server, opsKey}, []string{"dead", "list", "--kind", "audio"}, command.ExitUsage, "invalid_request"},
		"no job":              {operatorCommand{t, server, opsKey}, []string{"erase", "acme", "x"}, command.ExitUsage, "video_… or chat_…"},
		"no job either":       {operatorCommand{t, server, opsKey}, []string{"cancel", "acme", "video_x"}, command.ExitUsage, "video_… or chat_…"},
		"not TLS there":       {operatorCommand{t, server, opsKey}, []string{"--tls", "routes"}, command.ExitUsage, "the server does not speak TLS: omit --tls"},
		"no certificate":      {operatorCommand{t, server, opsKey}, []string{"--ca", file, "routes"}, command.ExitUsage, "--ca"},
		"no pair":             {operatorCommand{t, server, opsKey}, []string{"--cert", file, "--key", file, "routes"}, command.ExitUsage, "--cert"},
		"no such dead letter": {operatorCommand{t, server, opsKey}, []string{"attach", "77"}, command.ExitNotFound, "letter_not_found"},
		"limit":               {operatorCommand{t, server, opsKey}, []string{"tenants", "--limit", "-1"}, command.ExitUsage, "--limit: -1 is invalid; use 1 to 100"},
		"since":               {operatorCommand{t, server, opsKey}, []string{"jobs", "list", "--since", "-1h"}, command.ExitUsage, "--since: -1h0m0s is negative; use a duration such as 1h"},
		"idle":                {operatorCommand{t, server, opsKey}, []string{"bulk", "cancel", "--all", "--idle", "-.5h"}, command.ExitUsage, "--idle: -30m0s is negative; use a duration such as 1h"},
		"timeout":             {operatorCommand{t, server, opsKey}, []string{"routes", "--timeout", "0s"}, command.ExitUsage, "--timeout: 0s must be more than 0"},
		"not even a number":   {operatorCommand{t, server, opsKey}, []string{"dead", "drop", "x"}, command.ExitUsage, "expected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.c.t = t
			if out, code := row.c.run(row.args...); code != row.code || !strings.Contains(out, row.says) {
				t.Errorf("ended with %d:\n%s", code, out)
			}
		})
	}
}

// TestOperatorCommandAndTLS proves that an error names the flag that a TLS server requires.
func TestOperatorCommandAndTLS(t *testing.T) {
	t.Parallel()
	ca, clients := certtest.New(t, "ca"), certtest.New(t, "clients")
	open, mutual := secured(t, ca, "").GRPCAddr().String(), secured(t, ca, clients.File).GRPCAddr().String()
	for name, row := range map[string]struct {
		server string
		args   []string
		says   string
	}{
		"plain":          {open, []string{"routes"}, "the server speaks TLS: use --tls, and --ca FILE"},
		"plain, mutual":  {mutual, []string{"routes"}, "the server speaks TLS: use --tls"},
		"no authority":   {open, []string{"--tls", "routes"}, "--ca"},
		"another name":   {open, []string{"--ca", ca.File, "--server-name", "x.example", "routes"}, "--server-name"},
		"no certificate": {mutual, []string{"--ca", ca.File, "routes"}, "--cert and --key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code := operatorCommand{t, row.server, opsKey}.run(row.args...)
			cut := strings.Contains(out, "the server closed the connection") // the connection closed before the reason could be read
			if code != command.ExitUsage && (code != command.ExitUnavailable || !cut) || !strings.Contains(out, row.says) {
				t.Errorf("ended with %d:\n%s", code, out)
			}
		})
	}
	if out, code := (operatorCommand{t, open, opsKey}).run("--ca", ca.File, "routes"); code != command.ExitDenied {
		t.Errorf("by TLS: %d %s", code, out)
	}
	c := userCommand{t: t, env: []string{"GENBUS_SERVER=" + open, "GENBUS_CA=" + ca.File, "GENBUS_OPERATOR_KEY=" + opsKey}}
	c.ok("models")
	if _, problems, code := c.run("operator", "routes"); code != command.ExitDenied {
		t.Errorf("by TLS, from the environment: %d %s", code, problems)
	}
}

func asTenant(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer acme-0123456789abcdef")
}
