package sandbox

import (
	"cmp"
	"errors"
	"slices"
	"sync"
)

// Errors of taskStore.add.
var (
	errStoreFull     = errors.New("no more tasks can be remembered")
	errExternalTaken = errors.New("external_task_id already exists")
)

type taskStore struct {
	mu         sync.RWMutex
	byID       map[string]*task
	byExternal map[string]*task // by the client's external_task_id
	list       []*task          // ordered by row
	rows       int64            // the last row assigned
	limit      int
}

func newTaskStore(limit int) *taskStore {
	return &taskStore{byID: map[string]*task{}, byExternal: map[string]*task{}, limit: limit}
}

// add stores t and assigns its row. The error is errStoreFull or errExternalTaken.
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

func (s *taskStore) get(id string) *task {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// getEither returns the task with this ID or external_task_id, or nil.
func (s *taskStore) getEither(id string) *task {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return cmp.Or(s.byID[id], s.byExternal[id])
}

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

// those returns the tasks accepted by keep, oldest first.
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

// newest returns up to n tasks accepted by keep, newest first.
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
