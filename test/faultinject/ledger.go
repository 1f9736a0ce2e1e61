package faultinject

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// ledger keeps what an Upstream has seen. It is safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	posts   []*Post // in the order of their arrival
	tasks   []PaidTask
	origins map[string]string // of each task: what its polls are counted under
	seen    map[string]int    // requests by op and key
	faults  map[string]int
	polls   int64
}

func newLedger() *ledger {
	return &ledger{origins: map[string]string{}, seen: map[string]int{}, faults: map[string]int{}}
}

// next counts a request of a key, from 1.
func (l *ledger) next(op Op, key string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if op == OpPoll {
		l.polls++
	}
	name := string(op) + " " + key
	l.seen[name]++
	return l.seen[name]
}

// decided counts a fault.
func (l *ledger) decided(op Op, f Fault) {
	if f == None {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults[string(op)+"/"+string(f)]++
}

// add keeps a post; the caller changes it by update alone from here on.
func (l *ledger) add(p Post) *Post {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.posts = append(l.posts, &p)
	return &p
}

// update changes a post, unless it is nil.
func (l *ledger) update(p *Post, change func(*Post)) {
	if p == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	change(p)
}

// paid notes that a post has made a task. A task that the sandbox has given before,
// for the same key, is noted once.
func (l *ledger) paid(p *Post, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p.Accepted, p.TaskID = true, id
	if _, known := l.origins[id]; known {
		return
	}
	name := "tasks of " + p.name()
	l.seen[name]++
	l.origins[id] = p.name() + "#" + strconv.Itoa(l.seen[name])
	l.tasks = append(l.tasks, PaidTask{ID: id, Key: p.Key, Marker: p.Marker, Time: time.Now(), Fault: p.Fault})
}

// origin is what the polls of a task are counted under: the key of its create, so
// that a seed meets the same job's polls with the same faults; for an unknown id
// the id.
func (l *ledger) origin(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o, ok := l.origins[id]; ok {
		return o
	}
	return id
}

// read lets look at what is kept; nothing of it may be held on to.
func (l *ledger) read(look func(*ledger)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	look(l)
}

func (l *ledger) record() Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Record{
		Posts: make([]Post, 0, len(l.posts)), Tasks: slices.Clone(l.tasks), Faults: maps.Clone(l.faults), Polls: l.polls,
	}
	for _, p := range l.posts {
		r.Posts = append(r.Posts, *p)
	}
	return r
}
