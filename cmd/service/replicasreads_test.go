package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
)

// rank orders the statuses that clients see.
var rank = map[string]int{"queued": 1, "in_progress": 2, "completed": 3}

// TestReadsNeverGoBack proves that reads from two replicas in turn never show an earlier state, and
// never miss an accepted job, while the node that leads the log is cut off and returns.
func TestReadsNeverGoBack(t *testing.T) {
	t.Parallel()
	brokertest.ThreeNodes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*bedPatience)
	defer cancel()
	nodes, err := faultinject.StartNodes(ctx, faultinject.NodesOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := nodes.Close(); err != nil {
			t.Error(err)
		}
	})
	up, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: 800 * time.Millisecond, RepeatCreates: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	b := bedOn(t, nodes.ClientURLs())
	o := memberOptions{upstream: up.URL(), ackWait: 20 * time.Second, replicas: nodes.Len(), direct: true}
	r := &readers{t: t, replicas: []*member{b.start(o), b.start(o)}, ids: map[string]bool{}}

	clients, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { r.client(clients, i) })
	}
	r.await(b, 10)
	leader, err := nodes.LeaderOf(ctx, b.names.Tasks())
	if err != nil {
		t.Fatal(err)
	}
	nodes.Isolate(leader)
	r.await(b, r.count()+15)
	nodes.Rejoin(leader)
	if err := nodes.WaitHealthy(ctx); err != nil {
		t.Fatal(err)
	}
	r.await(b, r.count()+10)
	stop()
	wg.Wait()
	for id := range r.ids {
		b.endedOnce(subject.JobName{Kind: subject.Video, Tenant: "default", ID: id}, "completed")
	}
	if s := up.Sandbox.Stats(); s.MaxCreatesPerKey != 1 {
		t.Errorf("%d creates for one key", s.MaxCreatesPerKey)
	}
	t.Logf("%d jobs, %d reads, of which %d were refused for now", len(r.ids), r.reads, r.notNow)
}

// readers create videos and read each one to its end.
type readers struct {
	t        *testing.T
	replicas []*member

	mu            sync.Mutex
	ids           map[string]bool // of the jobs read to their end
	reads, notNow int
}

func (r *readers) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}

func (r *readers) await(b *bed, n int) {
	b.t.Helper()
	b.until(fmt.Sprintf("%d jobs ended", n), func(context.Context) error {
		if got := r.count(); got < n {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

// client creates one job at a time and reads each, including the last, to its end.
func (r *readers) client(ctx context.Context, client int) {
	whole := context.WithoutCancel(ctx)
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("c%d-%d", client, i)
		id := ""
		for try := 0; id == ""; try++ {
			got, err := r.do(whole, i+try, http.MethodPost, "/v1/video/generations", `{"model":"sandbox-video","prompt":"a cat"}`, "Idempotency-Key", key)
			switch {
			case err == nil && got.status == http.StatusOK:
				id = got.word("id")
			case err != nil || got.status < http.StatusInternalServerError || try > 5000:
				r.t.Errorf("create %s: %d %s, %v", key, got.status, got.body, err)
				return
			default:
				_ = broker.Wait(whole, 20*time.Millisecond)
			}
		}
		if !r.follow(whole, id) {
			return
		}
	}
}

func (r *readers) do(ctx context.Context, turn int, method, path, body string, header ...string) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, bedPatience)
	defer cancel()
	return r.replicas[turn%len(r.replicas)].do(ctx, method, path, body, header...)
}

// follow reads a job from each replica in turn until all replicas have reported its end.
func (r *readers) follow(ctx context.Context, id string) bool {
	last, ends := "", 0
	for turn := 0; ends < len(r.replicas); turn++ {
		got, err := r.do(ctx, turn, http.MethodGet, "/v1/video/generations/"+id, "")
		status := got.word("status")
		r.mu.Lock()
		r.reads++
		if err == nil && got.status == http.StatusServiceUnavailable {
			r.notNow++
		}
		r.mu.Unlock()
		switch {
		case err == nil && got.status == http.StatusServiceUnavailable:
		case err != nil || got.status != http.StatusOK || rank[status] < max(1, rank[last]):
			r.t.Errorf("%s at replica %d, after %q: %d %s, %v", id, turn%len(r.replicas), last, got.status, got.body, err)
			return false
		case status == "completed":
			last, ends = status, ends+1
		default:
			last = status
		}
		_ = broker.Wait(ctx, 10*time.Millisecond)
	}
	r.mu.Lock()
	r.ids[id] = true
	r.mu.Unlock()
	return true
}
