package joblog

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// unfinishedByKind are those of each kind, of all tenants, as far as this replica knows.
func (x *index) unfinishedByKind() map[subject.Kind]unfinished {
	x.mu.RLock()
	defer x.mu.RUnlock()
	out := map[subject.Kind]unfinished{}
	for key, l := range x.lists {
		u := out[key.kind]
		out[key.kind] = unfinished{jobs: u.jobs + l.unfinished.jobs, bytes: u.bytes + l.unfinished.bytes}
	}
	return out
}

// unfinishedOf is how many a tenant has of both kinds.
func (x *index) unfinishedOf(tenant string) int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := 0
	for _, kind := range subject.Kinds {
		if of := x.lists[listKey{kind, tenant}]; of != nil {
			n += int(of.unfinished.jobs)
		}
	}
	return n
}

// storedBytes is what a message takes in the log that came without its data.
func storedBytes(m jetstream.Msg) int {
	data, _ := strconv.Atoi(header(m.Headers(), "Nats-Msg-Size"))
	return data + stored(&nats.Msg{Subject: m.Subject(), Header: m.Headers()})
}

// isUnfinished judges the version of a job that an event has. An inline chat is no job that
// waits or is carried on: it ends with its connection, and where its replica dies no event
// says so. It alone begins in progress.
func isUnfinished(status, version string) bool {
	begunInline := status == "in_progress" && version == "1"
	return !task.TerminalWord(status) && !begunInline
}

// wrote lists a job that this replica has just made or ended, by an event of some bytes,
// before that event comes back. Of a job that was made, an event that was faster stays: it
// may be a later one.
func (x *index) wrote(e Entry, bytes int) {
	m, n := e.Job, e.Name()
	status := task.StatusWord(m.GetStatus())
	r := row{
		created: m.GetCreatedAt().AsTime().UnixNano(), id: strings.Clone(n.ID), status: status,
	}
	if isUnfinished(status, strconv.FormatUint(e.Version(), 10)) {
		r.unfinished = bytes
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.list(n)
	at, found := slices.BinarySearchFunc(l.rows, r, compareRows)
	switch {
	case !found && compareRows(r, l.cut) <= 0:
		if e.Terminal() { // and not one that was made: an event that was faster may have ended it
			l.recount(r)
		}
		x.drop(listKey{n.Kind, n.Tenant})
	case !found:
		x.insert(l, at, r)
	case e.Terminal():
		l.change(at, r)
	}
}
