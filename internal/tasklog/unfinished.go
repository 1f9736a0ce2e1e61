package tasklog

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Unfinished is how many of a tenant's jobs, of both kinds and on all replicas,
// have begun and not ended, as far as this replica knows: at once of those that
// it has accepted itself, as soon as their events arrive of the others, and after
// a start not before the list's index is filled. Inline chats are not among them.
func (l *Log) Unfinished(tenant string) int {
	l.index.mu.RLock()
	defer l.index.mu.RUnlock()
	n := 0
	for _, kind := range subject.Kinds {
		if of := l.index.lists[listKey{kind, tenant}]; of != nil {
			n += of.unfinished
		}
	}
	return n
}

// unfinishedByKind is how many jobs of each kind have begun and not ended, of all tenants,
// as far as this replica knows.
func (x *index) unfinishedByKind() map[subject.Kind]int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := map[subject.Kind]int64{}
	for key, l := range x.lists {
		out[key.kind] += int64(l.unfinished)
	}
	return out
}

// unfinished reads the header of an event. An inline chat is no job that waits or
// is carried on: it ends with its connection, and where its replica dies no event
// says so. It alone begins in progress.
func unfinished(h nats.Header, status string) bool {
	begunInline := status == inProgress && header(h, subject.HeaderVersion) == strconv.Itoa(1)
	return !task.TerminalWord(status) && !begunInline
}

const inProgress = "in_progress"

// begin lists a job that this replica has just made, before its event comes back.
// An event that was faster stays: it may be a later one.
func (x *index) begin(e Entry) {
	m, n := e.Job, e.Name()
	status := task.StatusWord(m.GetStatus())
	r := row{
		created: m.GetCreatedAt().AsTime().UnixNano(), id: strings.Clone(n.ID), status: status,
		unfinished: !task.TerminalWord(status) && status != inProgress,
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.list(n)
	if at, found := slices.BinarySearchFunc(l.rows, r, compareRows); !found {
		x.insert(l, at, r)
	}
}

// count follows a row that has changed.
func (l *list) count(before, after bool) {
	switch {
	case after && !before:
		l.unfinished++
	case before && !after:
		l.unfinished--
	}
}

// keep remembers the unfinished jobs among rows that fall out of the index: they
// go on counting until they end.
func (l *list) keep(rows []row) {
	for _, r := range rows {
		if !r.unfinished {
			continue
		}
		if l.evicted == nil {
			l.evicted = map[string]struct{}{}
		}
		l.evicted[r.id] = struct{}{}
	}
}

// recall reports whether a job that comes back into the index counts already.
func (l *list) recall(id string) bool {
	_, counted := l.evicted[id]
	delete(l.evicted, id)
	return counted
}
