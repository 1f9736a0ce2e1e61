package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/sandbox"
)

// eraseWay is an API for deleting a task.
type eraseWay struct {
	name string
	// erase returns the HTTP status, or the one that corresponds to the gRPC code.
	erase func(w *world, t *testing.T, id string) int
}

var eraseWays = []eraseWay{
	{"DELETE /v1/videos", func(w *world, t *testing.T, id string) int {
		resp, body := w.fetch(t, http.MethodDelete, "/v1/videos/"+id, "")
		if resp.StatusCode == http.StatusOK && string(body) != `{"id":"`+id+`","object":"video.deleted","deleted":true}` {
			t.Errorf("answered %s", body)
		}
		return resp.StatusCode
	}},
	{"DELETE /genbus/v1/videos", func(w *world, t *testing.T, id string) int {
		resp, _ := w.fetch(t, http.MethodDelete, "/genbus/v1/videos/"+id, "")
		return resp.StatusCode
	}},
	{"gRPC DeleteVideoTask", func(w *world, t *testing.T, id string) int {
		_, err := genbusv1grpc.NewVideoServiceClient(w.grpc).DeleteVideoTask(t.Context(), &genbusv1.DeleteVideoTaskRequest{Id: id})
		switch status.Code(err) {
		case codes.OK:
			return http.StatusOK
		case codes.NotFound:
			return http.StatusNotFound
		default:
			t.Errorf("%v", err)
			return http.StatusInternalServerError
		}
	}},
}

// largeVideo returns a create body with a picture above limits.claim_check_bytes, which is stored
// in the object store.
func largeVideo(model string) string {
	picture := base64.StdEncoding.EncodeToString(make([]byte, 8<<10))
	return `{"model":"` + model + `","prompt":"a cat","image":"` + picture + `"}`
}

// newEraseWorld starts a service with a low claim check limit that copies every result.
func newEraseWorld(t *testing.T, o sandbox.Options, change ...func(*config.Config)) clientWorld {
	t.Helper()
	return newClientWorld(t, o, append(change, func(c *config.Config) {
		c.Limits.ClaimCheckBytes = 1 << 10
		for i := range c.Routes {
			c.Routes[i].Archive = c.Routes[i].Kind == config.KindVideo
		}
	})...)
}

func (w *world) createVideo(t *testing.T, body string) string {
	t.Helper()
	status, answer := w.post(t, "/v1/video/generations", body)
	if status != http.StatusOK {
		t.Fatalf("create: %d %v", status, answer)
	}
	return word(answer["id"])
}

func (w *world) phase(t *testing.T, id string, phase genbusv1.JobPhase) *genbusv1.VideoTask {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	stream, err := genbusv1grpc.NewVideoServiceClient(w.grpc).WatchVideoTask(ctx, &genbusv1.WatchVideoTaskRequest{Id: id})
	if err != nil {
		t.Fatal(err)
	}
	for {
		r, err := stream.Recv()
		if err != nil {
			t.Fatalf("%s did not become %v: %v", id, phase, err)
		}
		if v := r.GetEvent().GetTask(); v.GetExecution().GetPhase() == phase {
			return v
		}
	}
}

// traces returns the subjects that name a task, and its objects that still have data.
func (w *world) traces(t *testing.T, id string) (found []string) {
	t.Helper()
	names := w.Names()
	for _, name := range []string{names.Tasks(), names.Work(), names.Dead(), names.Chunks()} {
		stream, err := w.js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		if err != nil {
			t.Fatal(err)
		}
		for subj := range info.State.Subjects {
			if strings.Contains(subj, id) {
				found = append(found, subj)
			}
		}
	}
	store, err := w.js.ObjectStore(t.Context(), names.Bodies("default"))
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return found
	}
	if err != nil {
		t.Fatal(err)
	}
	objects, err := store.List(t.Context())
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		t.Fatal(err)
	}
	for _, o := range objects {
		if strings.HasPrefix(o.Name, id) {
			found = append(found, "object "+o.Name)
		}
	}
	return found
}

// checkErased checks that the task cannot be read and that nothing of it remains.
func (w *world) checkErased(t *testing.T, way eraseWay, id string) {
	t.Helper()
	if left := w.traces(t, id); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	for _, path := range []string{"/v1/videos/" + id, "/v1/videos/" + id + "/content", "/v1/video/generations/" + id, "/v1/video/generations/" + id + "/events"} {
		if resp, body := w.fetch(t, http.MethodGet, path, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %d %s", path, resp.StatusCode, body)
		}
	}
	if got := way.erase(w, t, id); got != http.StatusNotFound {
		t.Errorf("erased twice: %d", got)
	}
}

// pollsOf counts the polls of each upstream task.
func pollsOf(up *sandbox.Server) func(id string) int {
	var mu sync.Mutex
	counts := map[string]int{}
	up.Sandbox.SetBehaviour(func(r *http.Request, _ []byte) *sandbox.Behaviour {
		if id, ok := strings.CutPrefix(r.URL.Path, "/v1/video/generations/"); ok && r.Method == http.MethodGet {
			mu.Lock()
			counts[id]++
			mu.Unlock()
		}
		return nil
	})
	return func(id string) int {
		mu.Lock()
		defer mu.Unlock()
		return counts[id]
	}
}

// readEvents reads an event stream to its end. It closes seen at the first event.
func readEvents(t *testing.T, url string, seen chan<- struct{}) string {
	defer func() {
		if seen != nil {
			close(seen)
		}
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	var text strings.Builder
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		if seen != nil && strings.HasPrefix(lines.Text(), "data:") {
			close(seen)
			seen = nil
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return text.String()
}
