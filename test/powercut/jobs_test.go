package powercut_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/service/servicetest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/test/powercut/disk"
)

// job is a job's state as last reported to a caller or the upstream.
type job struct {
	kind    subject.Kind
	version uint64
	phase   genbusv1.JobPhase
}

type jobs map[string]job

// lost also returns jobs whose log is behind the reported state.
func (want jobs) lost(ctx context.Context, b *broker.Broker) (out []string) {
	log := joblog.New(joblog.Options{Broker: b})
	for id, told := range want {
		e, err := log.Find(ctx, told.kind, id)
		if err != nil {
			out = append(out, err.Error())
			continue
		}
		phase := e.Job.GetExecution().GetPhase()
		if e.Version() < told.version || e.Version() == told.version && phase != told.phase {
			out = append(out, fmt.Sprintf("%s %s is %s, of version %d; it was %s, of version %d",
				told.kind, id, task.PhaseWord(phase), e.Version(), task.PhaseWord(told.phase), told.version))
		}
	}
	slices.Sort(out)
	return out
}

// recorder records the job states reported by a service that runs on a Disk.
type recorder struct {
	disk *disk.Disk

	mu       sync.Mutex
	reported jobs
	cuts     []cut
	of       map[string]int // number of moments, by label
}

// Labels of the moments at which the power is cut, at one in oneIn of each.
const (
	atSubmit = "a submission"
	atEnd    = "an end"
	oneIn    = 12
)

// record records a reported state and cuts the power at some moments.
func (w *recorder) record(id string, now job, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reported[id].version < now.version {
		w.reported[id] = now
	}
	if w.of[why]++; why != "" && w.of[why]%oneIn == 1 {
		w.cuts = append(w.cuts, cut{why: why, want: maps.Clone(w.reported), image: w.disk.Cut(0)})
	}
}

// caller records a job as reported to a caller.
func (w *recorder) caller(kind subject.Kind, now task.Job) {
	phase, why := now.GetExecution().GetPhase(), ""
	if task.Terminal(phase) {
		why = atEnd
	}
	w.record(now.GetId(), job{kind, now.GetVersion(), phase}, why)
}

// upstream starts a sandbox that gets a create only after record has kept it, and returns its URL.
func (w *recorder) upstream(t *testing.T) string {
	box := sandbox.New(sandbox.Options{VideoDuration: 200 * time.Millisecond, ChunkInterval: time.Millisecond, ChunkCount: 3})
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if id := r.Header.Get("Idempotency-Key"); id != "" && strings.Contains(r.URL.Path, "video") {
			// A job's second event says that its submission begins.
			w.record(id, job{subject.Video, 2, genbusv1.JobPhase_JOB_PHASE_SUBMITTING}, atSubmit)
		}
		box.ServeHTTP(rw, r)
	}))
	t.Cleanup(func() {
		box.Close()
		s.Close()
	})
	return s.URL
}

// TestReportedJobsAreStored proves that reported job states survive a power cut: an upstream sees a
// video only if its submission is on disk, and a state reported to a caller is never lost.
func TestReportedJobsAreStored(t *testing.T) {
	brokertest.Full(t, "rebuilds nats-server")
	t.Parallel()
	dir := t.TempDir()
	w := &recorder{reported: jobs{}, of: map[string]int{}, disk: disk.Watch(dir, syncTakes, noCut)}
	t.Cleanup(w.disk.Close)
	s := servicetest.New(t, servicetest.Options{DataDir: dir, Upstream: w.upstream(t), Change: func(c *config.Config) { c.NATS.SyncAlways = true }})
	conn, err := grpc.NewClient(s.GRPCAddr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var group sync.WaitGroup
	for range 120 {
		group.Go(func() {
			if err := w.video(ctx, genbusv1grpc.NewVideoServiceClient(conn)); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			if err := w.chat(ctx, genbusv1grpc.NewChatServiceClient(conn)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	w.mu.Lock()
	cuts := w.cuts
	w.mu.Unlock()
	for _, why := range []string{atSubmit, atEnd} {
		if w.of[why] < 100 {
			t.Errorf("there was %s only %d times", why, w.of[why])
		}
	}
	for _, one := range cuts {
		t.Run(one.why, func(t *testing.T) { one.check(t) })
	}
}

func (w *recorder) video(ctx context.Context, c genbusv1grpc.VideoServiceClient) error {
	made, err := c.CreateVideoTask(ctx, &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{
		Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-video", Prompt: "a paper boat"}},
	}})
	if err != nil {
		return err
	}
	w.caller(subject.Video, made.GetTask())
	events, err := c.WatchVideoTask(ctx, &genbusv1.WatchVideoTaskRequest{Id: made.GetTask().GetId()})
	if err != nil {
		return err
	}
	for {
		m, err := events.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		w.caller(subject.Video, m.GetEvent().GetTask())
	}
}

func (w *recorder) chat(ctx context.Context, c genbusv1grpc.ChatServiceClient) error {
	made, err := c.SubmitChatCompletion(ctx, &genbusv1.SubmitChatCompletionRequest{Request: &genbusv1.ChatRequest{
		Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
			Model:    "sandbox-chat",
			Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Text{Text: "What floats?"}}},
		}},
	}})
	if err != nil {
		return err
	}
	w.caller(subject.Chat, made.GetChat())
	events, err := c.WatchChatCompletion(ctx, &genbusv1.WatchChatCompletionRequest{Id: made.GetChat().GetId()})
	if err != nil {
		return err
	}
	for {
		m, err := events.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if e := m.GetEvent(); e != nil { // chunks have no event
			w.caller(subject.Chat, e.GetChat())
		}
	}
}
