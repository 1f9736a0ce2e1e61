package consumer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Paths of an upstream of the primary protocol.
const (
	createPath = "POST /v1/video/generations"
	pollPath   = "GET /v1/video/generations/{id}"
	filePath   = "GET /file/{name}"
)

// scripted starts an upstream whose answers the test defines by path. It ignores requests whose
// body was cut off, as real upstreams do.
func scripted(t testing.TB, answers map[string]http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	for path, answer := range answers {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			whole, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(whole))
			answer(w, r)
		})
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func respond(format string, args ...any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, format, args...)
	}
}

func respondStatus(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

func respondCompleted(w http.ResponseWriter, r *http.Request) {
	respond(`{"task_id":%q,"status":"completed","url":"http://%s/file/%s"}`, r.PathValue("id"), r.Host, r.PathValue("id"))(w, r)
}

func archives(r *config.Route) { r.Archive = true }

// copies returns the names of the tenant's stored objects.
func copies(t testing.TB, b *broker.Broker) (names []string) {
	t.Helper()
	store, err := b.JetStream().ObjectStore(t.Context(), b.Names().Bodies("acme"))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	objects, err := store.List(t.Context())
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		t.Fatal(err)
	}
	for _, o := range objects {
		names = append(names, o.Name)
	}
	return names
}

func promptOf(r *http.Request) string {
	var body struct{ Prompt string }
	_ = json.NewDecoder(r.Body).Decode(&body)
	return body.Prompt
}

// acceptsByPrompt accepts every create, and names the task after its prompt.
func acceptsByPrompt(w http.ResponseWriter, r *http.Request) {
	respond(`{"task_id":%q,"status":"queued"}`, promptOf(r))(w, r)
}

// TestCompletedStaysCompleted proves that a completed upstream task whose file cannot be copied
// still completes when the copy's time is over, whatever later polls say.
func TestCompletedStaysCompleted(t *testing.T) {
	t.Parallel()
	later := map[string]http.HandlerFunc{
		"failed":     respond(`{"task_id":"failed","status":"failed","error":{"message":"boom"}}`),
		"expired":    respond(`{"task_id":"expired","status":"expired"}`),
		"processing": respond(`{"task_id":"processing","status":"processing"}`),
		"unknown":    respond(`{"task_id":"unknown","status":"unknown"}`),
		"gone":       respondStatus(http.StatusNotFound),
		"broken":     respondStatus(http.StatusInternalServerError),
	}
	var mu sync.Mutex
	polls := map[string]int{}
	url := scripted(t, map[string]http.HandlerFunc{
		createPath: acceptsByPrompt,
		pollPath: func(w http.ResponseWriter, r *http.Request) {
			id := r.PathValue("id")
			mu.Lock()
			polls[id]++
			first := polls[id] == 1
			mu.Unlock()
			if first {
				respondCompleted(w, r)
				return
			}
			later[id](w, r)
		},
		filePath: respondStatus(http.StatusServiceUnavailable),
	})
	b := brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, url, videoRoutes(func(r *config.Route) {
		// A copy is retried after at least 4 s. Its time is over then, and not before the first
		// attempt.
		r.Archive, r.Timeouts.Archive, r.Timeouts.Deadline = true, 3900*time.Millisecond, 4*time.Second
	})))
	for name := range later {
		publish(t, b, subject.Video, name, videoRequest(name, "sandbox-video", name))
	}
	for name := range later {
		end := last(follow(t, r.log, videoID(name)))
		v := videoOf(end)
		if v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || len(v.GetVideos()) != 1 || v.GetVideos()[0].GetUrl() != url+"/file/"+name || v.GetArchive().GetError() == nil {
			t.Errorf("%s: ended %v with %v, archive %v", name, v.GetError(), v.GetVideos(), v.GetArchive())
		}
		doneOnce(t, b, end)
		mu.Lock()
		if polls[name] < 2 {
			t.Errorf("%s: the upstream was not asked again", name)
		}
		mu.Unlock()
	}
}

// TestNextHolderAsksForALostResult proves that a holder which takes a finished job over after its
// deadline and copy time polls once before it decides.
func TestNextHolderAsksForALostResult(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		poll http.HandlerFunc
		code string
	}{
		"the upstream still has it": {respondCompleted, ""},
		"the upstream forgot it":    {respondStatus(http.StatusNotFound), "deadline_exceeded"},
		"the upstream denies it":    {respond(`{"task_id":"up_1","status":"failed"}`), "deadline_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			var polls atomic.Int64
			url := scripted(t, map[string]http.HandlerFunc{
				pollPath: func(w http.ResponseWriter, r *http.Request) {
					polls.Add(1)
					c.poll(w, r)
				},
				filePath: respondStatus(http.StatusServiceUnavailable),
			})
			r := newReplica(t, b, testConfig(t, url))
			inherit(t, r, "v", completedUpstream(-time.Second)...)
			end := last(follow(t, r.log, videoID("v")))
			if end.Job.GetError().GetCode() != c.code || polls.Load() != 1 {
				t.Errorf("ended %v after %d polls", end.Job.GetError(), polls.Load())
			}
			if results := videoOf(end).GetVideos(); c.code == "" && (len(results) != 1 || results[0].GetUrl() != url+"/file/up_1") {
				t.Errorf("the result is %v", results)
			}
			doneOnce(t, b, end)
		})
	}
}

// TestCancelEndsACopy proves that a cancelled job is dropped at once during an endless copy and
// leaves no objects.
func TestCancelEndsACopy(t *testing.T) {
	t.Parallel()
	b, reading := brokertest.Single(t), make(chan struct{}, 1)
	url := scripted(t, map[string]http.HandlerFunc{
		createPath: acceptsByPrompt,
		pollPath:   respondCompleted,
		filePath: func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "video/mp4")
			_, _ = w.Write(make([]byte, 600<<10)) // more than one chunk of the object store
			_ = http.NewResponseController(w).Flush()
			reading <- struct{}{}
			<-r.Context().Done()
		},
	})
	r := newReplica(t, b, testConfig(t, url, videoRoutes(archives)))
	id := publish(t, b, subject.Video, "v", videoRequest("v", "sandbox-video", "cat"))
	<-reading
	end := cancelJob(t, r.log, last(follow(t, r.log, id, genbusv1.JobPhase_JOB_PHASE_IN_PROGRESS)))
	doneOnce(t, b, end)
	if left := copies(t, b); len(left) != 0 {
		t.Errorf("the object store has %v", left)
	}
}

// TestNextHolderDropsCopiesOfTheLast proves that copies of a dead holder are removed after the
// job's end.
func TestNextHolderDropsCopiesOfTheLast(t *testing.T) {
	t.Parallel()
	up, b := newSandbox(t), brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, up.URL()))
	for i := range 2 {
		if _, err := r.Bodies.Put(t.Context(), "acme", publisher.CopyBody(videoID("v"), i), []byte("a video")); err != nil {
			t.Fatal(err)
		}
	}
	other, err := r.Bodies.Put(t.Context(), "acme", publisher.CopyBody(videoID("other"), 0), []byte("a video"))
	if err != nil {
		t.Fatal(err)
	}
	inherit(t, r, "v", append(completedUpstream(time.Hour), func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
		return task.Cancelled(v, now, errcode.New(errcode.Cancelled, "cancelled").TaskError())
	})...)
	doneOnce(t, b, last(follow(t, r.log, videoID("v"))))
	if left := copies(t, b); !slices.Equal(left, []string{other.Name}) {
		t.Errorf("the object store has %v", left)
	}
}
