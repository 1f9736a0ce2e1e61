package faultinject

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// ledger records what an Upstream has seen. It is safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	posts   []*Post // in order of arrival
	tasks   []PaidTask
	origins map[string]string // by task ID, the name under which the task's polls are counted
	seen    map[string]int    // number of requests by op and key
	faults  map[string]int
	polls   int64
}

func newLedger() *ledger {
	return &ledger{origins: map[string]string{}, seen: map[string]int{}, faults: map[string]int{}}
}

// next counts a request with a key and returns its number, starting at 1.
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

func (l *ledger) decided(op Op, f Fault) {
	if f == None {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults[string(op)+"/"+string(f)]++
}

// add records a post. Callers must change it only through update.
func (l *ledger) add(p Post) *Post {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.posts = append(l.posts, &p)
	return &p
}

// update changes a post. A nil post is ignored.
func (l *ledger) update(p *Post, change func(*Post)) {
	if p == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	change(p)
}

// paid records the task of a post. A task that the sandbox returns again for the same key is
// recorded once.
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

// origin returns the name under which the polls of a task are counted. The name derives from the
// key of the create, so that the same seed gives the polls of the same job the same faults. For an
// unknown task, it is the task's ID.
func (l *ledger) origin(id string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o, ok := l.origins[id]; ok {
		return o
	}
	return id
}

// read calls look under the lock. look must not retain anything.
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
