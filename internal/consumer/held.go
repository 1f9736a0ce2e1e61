package consumer

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/tasklog"
)

// job is a job whose message this process holds.
type job interface {
	// redelivered replaces the message's handle: the broker was away longer than
	// AckWait and delivers everything to its own holder.
	redelivered(delivery)
	// extend extends the AckWait of the message.
	extend()
	// confirm has the job read its log again.
	confirm()
	// handOver gives the message back as soon as no call is in hand.
	handOver()
}

// shards spread the extensions of very many held messages over the third of
// AckWait, and the lock over the jobs.
const shards = 32

// registry knows what this process holds.
type registry struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu   sync.Mutex
	jobs map[string]job
}

func newRegistry() *registry {
	r := &registry{seed: maphash.MakeSeed()}
	for i := range r.shards {
		r.shards[i].jobs = map[string]job{}
	}
	return r
}

func (r *registry) shard(id string) *shard {
	return &r.shards[maphash.String(r.seed, id)%shards]
}

// add registers a job, or returns the one that is held under the id already.
func (r *registry) add(id string, j job) (held job, added bool) {
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

func (r *registry) get(id string) job {
	s := r.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[id]
}

// all copies a shard's jobs, so that nothing is called under the lock.
func (s *shard) all() []job {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]job, 0, len(s.jobs))
	for _, j := range s.jobs {
		out = append(out, j)
	}
	return out
}

// notice is the observer of the log: an end, or a write of another replica,
// makes the holder look. Our own progress is no news.
func (r *registry) notice(writer string) func(tasklog.Notice) {
	return func(n tasklog.Notice) {
		if n.Writer == writer && !task.TerminalWord(n.Status) {
			return
		}
		if j := r.get(n.Name.ID); j != nil {
			j.confirm()
		}
	}
}

// keepExtending extends every held message each period, a shard at a time, until
// ctx ends.
func (r *registry) keepExtending(ctx context.Context, period time.Duration) {
	ticker := time.NewTicker(period / shards)
	defer ticker.Stop()
	for i := 0; ; i = (i + 1) % shards {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, j := range r.shards[i].all() {
				j.extend()
			}
		}
	}
}

func (r *registry) extendAll() { r.each(job.extend) }

func (r *registry) drain() { r.each(job.handOver) }

// confirmAll has every job read its log again.
func (r *registry) confirmAll(ctx context.Context) {
	r.each(func(j job) {
		if ctx.Err() == nil {
			j.confirm()
		}
	})
}

func (r *registry) each(f func(job)) {
	for i := range r.shards {
		for _, j := range r.shards[i].all() {
			f(j)
		}
	}
}
