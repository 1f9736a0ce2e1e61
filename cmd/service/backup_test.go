package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// TestBackup proves the procedure in docs/deploy.md. Routes that were paused during the backup come
// back paused, later changes are lost, and jobs that the operator removes before resuming are not
// submitted again.
func TestBackup(t *testing.T) {
	t.Parallel()
	for name, newStore := range map[string]func(*testing.T) store{"a copied data directory": newDirectory, "snapshots of three nodes": newThreeNodes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRecovery(t, newStore(t))
			for i := range 6 {
				r.create(fmt.Sprint("k", i))
			}
			for _, key := range []string{"k0", "k1"} { // the route has two slots
				r.await(key, "in_progress")
			}
			r.pause()
			r.store.save(r.m, func() { r.create("meanwhile") })
			r.resume()

			r.cancel("k0")
			r.await("k2", "in_progress") // it takes the slot of k0
			r.create("later")
			submitted := r.submitted()
			r.lose()

			r.isPaused()
			r.await("k0", "in_progress") // the cancellation is lost
			if got := r.status("later"); got != http.StatusNotFound {
				t.Errorf("a job that was accepted after the backup is answered %d", got)
			}
			for key, id := range r.ids {
				if strings.Contains(submitted, id) && r.waits(key) {
					r.cancel(key)
				}
			}
			r.resume()
			r.up.complete()
			for key, want := range map[string]string{
				"k0": "completed", "k1": "completed", "k2": "cancelled", "k3": "completed", "k4": "completed", "k5": "completed",
			} {
				r.await(key, want)
				if posts := r.up.sentFor(r.ids[key]); len(posts) != 1 {
					t.Errorf("%s was submitted %d times", key, len(posts))
				}
			}
			r.cancelLeftOver("meanwhile")
		})
	}
}

type recovery struct {
	*bed
	store store
	up    *handUpstream
	m     *backedUp
	ids   map[string]string // of jobs, by request ID
}

type store interface {
	// serve starts a service on the current data.
	serve(upstream string) *backedUp
	// save takes the backup. It either restarts the service, or calls during after copying the
	// work and before copying the log.
	save(m *backedUp, during func())
	// lose deletes the data and restores the backup. No service may be running.
	lose()
}

func newRecovery(t *testing.T, s store) *recovery {
	t.Helper()
	r := &recovery{bed: &bed{t: t}, store: s, up: newHandUpstream(t), ids: map[string]string{}}
	r.m = s.serve(r.up.url + "/it")
	return r
}

// create submits a video whose body is too large for a message and is stored in an object store.
func (r *recovery) create(key string) {
	r.t.Helper()
	body := fmt.Sprintf(`{"model":"sandbox-video","prompt":"a cat","metadata":{"note":%q}}`, strings.Repeat("x", 300<<10))
	got, err := r.m.do(r.t.Context(), http.MethodPost, "/v1/video/generations", body, "Idempotency-Key", key)
	if err != nil || got.status != http.StatusOK {
		r.t.Fatalf("%s: %d %s, %v", key, got.status, got.body, err)
	}
	r.ids[key] = got.word("id")
}

func (r *recovery) await(key, status string) {
	r.t.Helper()
	r.until(key+" is "+status, func(ctx context.Context) error {
		got, err := r.m.do(ctx, http.MethodGet, "/v1/video/generations/"+r.ids[key], "")
		if err == nil && got.word("status") != status {
			err = fmt.Errorf("%d %s", got.status, got.body)
		}
		return err
	})
}

func (r *recovery) status(key string) int {
	r.t.Helper()
	code, _, err := r.m.get(r.t.Context(), "/v1/video/generations/"+r.ids[key])
	if err != nil {
		r.t.Fatal(err)
	}
	return code
}

// waits reports whether a job was not submitted according to its log.
func (r *recovery) waits(key string) bool {
	r.t.Helper()
	got, err := r.m.do(r.t.Context(), http.MethodGet, "/genbus/v1/videos/"+r.ids[key], "")
	if err != nil || got.status != http.StatusOK {
		r.t.Fatalf("%s: %d %s, %v", key, got.status, got.body, err)
	}
	return strings.Contains(got.body, "JOB_STATUS_QUEUED") && !strings.Contains(got.body, "upstream_task_id")
}

func (r *recovery) cancel(key string) {
	r.t.Helper()
	got, err := r.m.do(r.t.Context(), http.MethodPost, "/genbus/v1/videos/"+r.ids[key]+"/cancel", "{}")
	if err != nil || got.status != http.StatusOK {
		r.t.Fatalf("cancel %s: %d %s, %v", key, got.status, got.body, err)
	}
}

// cancelLeftOver cancels a job that was accepted during the backup and has a log but no work item.
func (r *recovery) cancelLeftOver(key string) {
	r.t.Helper()
	id, saved := r.ids[key]
	if !saved {
		return // save stopped the service and created no job
	}
	r.await(key, "queued")
	r.cancel(key)
	r.await(key, "cancelled")
	if posts := r.up.sentFor(id); len(posts) != 0 {
		r.t.Errorf("%s was submitted %d times", key, len(posts))
	}
}

func (r *recovery) operator() operatorCommand {
	return operatorCommand{t: r.t, server: r.m.grpc, key: opsKey}
}

func (r *recovery) pause() { r.operator().ok("pause", "video", "video") }

func (r *recovery) resume() { r.operator().ok("resume", "video", "video") }

// isPaused checks that the route is still paused. It ignores the backlog: a restored consumer on
// three nodes no longer knows which jobs were held.
func (r *recovery) isPaused() {
	r.t.Helper()
	var list struct {
		Routes []struct {
			Name   string
			Paused bool
		}
	}
	r.operator().into(&list, "routes")
	if len(list.Routes) != 1 || !list.Routes[0].Paused {
		r.t.Fatalf("the routes came back as %+v", list)
	}
}

// submitted returns the log lines about submissions.
func (r *recovery) submitted() string {
	r.t.Helper()
	data, err := os.ReadFile(r.m.log)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if strings.Contains(line, "submitted video task") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

func (r *recovery) lose() {
	r.t.Helper()
	mustDo(r.t, r.m.Kill)
	r.store.lose()
	r.m = r.store.serve(r.up.url + "/it")
}
