package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

// watch is one replica as seen by a load balancer and its clients.
type watch struct {
	m *member

	mu       sync.Mutex
	notReady time.Time // when it was first seen not ready, or zero while it is ready
	refused  []string  // refusals while it was ready
}

func (w *watch) isReady() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notReady.IsZero()
}

// look polls /readyz/jobs like a load balancer.
func (w *watch) look(ctx context.Context) {
	for ctx.Err() == nil {
		asked := time.Now()
		err := w.m.ready(ctx)
		w.mu.Lock()
		switch {
		case err == nil:
			w.notReady = time.Time{}
		case w.notReady.IsZero():
			w.notReady = asked
		}
		w.mu.Unlock()
		_ = broker.Wait(ctx, 20*time.Millisecond)
	}
}

// refusal records that a request was refused, unless the replica had already reported not ready.
func (w *watch) refusal(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.notReady.IsZero() {
		w.refused = append(w.refused, what)
	}
}

// TestRollingRestartUnderLoad proves that two replicas can be restarted in turn under load.
// Readiness changes before the first refusal, every accepted job completes before its ack_wait
// passes, and no job is submitted twice.
func TestRollingRestartUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	up, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: 500 * time.Millisecond, RepeatCreates: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = up.Close() })
	o := memberOptions{upstream: up.URL(), ackWait: 10 * time.Minute, more: "shutdown: {delay: 500ms}"}
	watches := []*watch{{m: b.start(o)}, {m: b.start(o)}}

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, w := range watches {
		wg.Go(func() { w.look(ctx) })
	}
	accepted := &accepted{ids: map[string]string{}}
	for client := range 4 {
		wg.Go(func() { accepted.load(ctx, client, watches) })
	}
	accepted.await(b, 20)
	for _, w := range watches {
		mustDo(t, w.m.Terminate)
		ended, cancel := context.WithTimeout(t.Context(), bedPatience)
		if err := w.m.Wait(ended); err != nil {
			t.Errorf("the clean stop: %v", err)
		}
		if err := w.m.Restart(ended); err != nil {
			t.Fatal(err)
		}
		cancel()
		accepted.await(b, accepted.count()+20)
	}
	stop()
	wg.Wait()

	for key, id := range accepted.ids {
		n := subject.JobName{Kind: subject.Video, Tenant: "default", ID: id}
		b.awaitEnd(n)
		b.endedOnce(n, "completed")
		if t.Failed() {
			t.Fatalf("the request was %s", key)
		}
	}
	for _, w := range watches {
		if len(w.refused) > 0 {
			t.Errorf("%s refused before it was said to be not ready: %v", w.m.base, w.refused)
		}
	}
	if s := up.Sandbox.Stats(); s.MaxCreatesPerKey != 1 || s.Tasks != len(accepted.ids) {
		t.Errorf("%d accepted, %d tasks, %d creates for one key", len(accepted.ids), s.Tasks, s.MaxCreatesPerKey)
	}
	t.Logf("%d jobs", len(accepted.ids))
}

type accepted struct {
	mu  sync.Mutex
	ids map[string]string
}

func (a *accepted) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ids)
}

func (a *accepted) await(b *bed, n int) {
	b.t.Helper()
	b.until(fmt.Sprintf("%d jobs are accepted", n), func(context.Context) error {
		if got := a.count(); got < n {
			return fmt.Errorf("%d", got)
		}
		return nil
	})
}

// load creates videos on any ready replica, with the same key until one accepts it.
func (a *accepted) load(ctx context.Context, client int, watches []*watch) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("c%d-%d", client, i)
		for try := 0; ; try++ {
			w := watches[(i+try)%len(watches)]
			if !w.isReady() {
				if broker.Wait(ctx, 5*time.Millisecond) != nil {
					return
				}
				continue
			}
			// Finish a started request even after ctx ends, to know whether it was accepted.
			whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), bedPatience)
			got, err := w.m.do(whole, http.MethodPost, "/v1/video/generations", `{"model":"sandbox-video","prompt":"a cat"}`, "Idempotency-Key", key)
			cancel()
			if err == nil && got.status == http.StatusOK {
				a.mu.Lock()
				a.ids[key] = got.word("id")
				a.mu.Unlock()
				break
			}
			w.refusal(fmt.Sprintf("%s: %d %s %v", key, got.status, got.body, err))
			if err := broker.Wait(ctx, 5*time.Millisecond); err != nil && !errors.Is(err, context.Canceled) {
				return
			}
		}
		_ = broker.Wait(ctx, 30*time.Millisecond)
	}
}
