package hold

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Held is a job whose message this process holds. Its methods are safe for concurrent use and do
// not block.
type Held interface {
	// Job returns the job.
	Job() *Job
	// Extend extends its AckWait.
	Extend()
	// Confirm makes the job reread its log.
	Confirm()
	// HandOver returns the message as soon as no call is running.
	HandOver()
	// Details returns, for operators, details that no event contains. The result must not be
	// changed.
	Details() *genbusv1.HeldJob
}

// shards is the number of shards of a registry. They spread the extensions of many held messages
// over a third of AckWait, and reduce lock contention.
const shards = 32

// registry holds this process's held jobs by ID.
type registry struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu   sync.Mutex
	jobs map[string]Held
}

func newRegistry() *registry {
	r := &registry{seed: maphash.MakeSeed()}
	for i := range r.shards {
		r.shards[i].jobs = map[string]Held{}
	}
	return r
}

func (r *registry) shard(id string) *shard {
	return &r.shards[maphash.String(r.seed, id)%shards]
}

// add registers a job, or returns the job already held under the ID.
func (r *registry) add(id string, j Held) (held Held, added bool) {
	s := r.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.jobs[id]; ok {
		return old, false
	}
	s.jobs[id] = j
	return j, true
}

func (r *registry) remove(id string) {
	s := r.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, id)
}

func (r *registry) get(id string) Held {
	s := r.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[id]
}

func (r *registry) size() (n int) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		n += len(s.jobs)
		s.mu.Unlock()
	}
	return n
}

// all copies a shard's jobs, so that no method is called under the lock.
func (s *shard) all() []Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Held, 0, len(s.jobs))
	for _, j := range s.jobs {
		out = append(out, j)
	}
	return out
}

func (r *registry) each(f func(Held)) {
	for i := range r.shards {
		for _, j := range r.shards[i].all() {
			f(j)
		}
	}
}

// keepExtending extends every held message once per period, a shard at a time, until ctx ends.
func (r *registry) keepExtending(ctx context.Context, period time.Duration) {
	ticker := time.NewTicker(period / shards)
	defer ticker.Stop()
	for i := 0; ; i = (i + 1) % shards {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, j := range r.shards[i].all() {
				j.Extend()
			}
		}
	}
}
