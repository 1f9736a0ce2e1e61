package sandbox

import (
	"cmp"
	"errors"
	"slices"
	"sync"
)

// Why a task is not kept.
var (
	errStoreFull     = errors.New("no more tasks can be remembered")
	errExternalTaken = errors.New("external_task_id already exists")
)

// taskStore keeps the tasks of all protocols.
type taskStore struct {
	mu         sync.RWMutex
	byID       map[string]*task
	byExternal map[string]*task // by the client's own id
	list       []*task          // in the order of their rows
	rows       int64            // the last row given
	limit      int
}

func newTaskStore(limit int) *taskStore {
	return &taskStore{byID: map[string]*task{}, byExternal: map[string]*task{}, limit: limit}
}

// add keeps t and numbers it; the error is one of the two above.
func (s *taskStore) add(t *task) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= s.limit {
		return errStoreFull
	}
	if t.external != "" {
		if s.byExternal[t.external] != nil {
			return errExternalTaken
		}
		s.byExternal[t.external] = t
	}
	s.rows++
	t.row = s.rows
	s.byID[t.id] = t
	s.list = append(s.list, t)
	return nil
}

// get gives the task, or nil.
func (s *taskStore) get(id string) *task {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// getEither gives the task with this id, or with this id of the client's own, or
// nil.
func (s *taskStore) getEither(id string) *task {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return cmp.Or(s.byID[id], s.byExternal[id])
}

// remove forgets t.
func (s *taskStore) remove(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, t.id)
	delete(s.byExternal, t.external)
	at, found := slices.BinarySearchFunc(s.list, t.row, func(t *task, row int64) int { return cmp.Compare(t.row, row) })
	if found {
		s.list = slices.Delete(s.list, at, at+1)
	}
}

// those gives the tasks that keep says yes to, oldest first.
func (s *taskStore) those(keep func(*task) bool) []*task {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*task
	for _, t := range s.list {
		if keep(t) {
			out = append(out, t)
		}
	}
	return out
}

// newest gives the last tasks, at most n, that keep says yes to, newest first.
func (s *taskStore) newest(n int, keep func(*task) bool) []*task {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []*task
	for i := len(s.list) - 1; i >= 0 && len(out) < n; i-- {
		if keep(s.list[i]) {
			out = append(out, s.list[i])
		}
	}
	return out
}

func (s *taskStore) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.byID)
}
