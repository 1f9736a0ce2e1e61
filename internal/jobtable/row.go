package jobtable

import (
	"strings"
	"unique"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
)

// Row is a job as a table knows it. Only its exported fields leave the table as JSON.
type Row struct {
	Created    int64  `json:"created"` // Unix nanoseconds
	ID         string `json:"id"`
	Status     string `json:"status"`
	Seq        uint64 `json:"seq"` // of the latest known event
	unfinished bool   // it counts as a job that has not ended
	facts
}

// rowOf returns the row of an event. It keeps the ID without copying it.
func rowOf(n joblog.Notice) Row {
	return Row{Created: n.CreatedAt.UnixNano(), ID: n.Name.ID, Seq: n.Seq, Status: unique.Make(n.Status).Value(), unfinished: isUnfinished(n), facts: factsOf(n)}
}

// isUnfinished judges the version of a job that an event has. An inline chat is no job that
// waits or is carried on: it ends with its connection, and where its replica dies no event
// says so. It alone begins in progress.
func isUnfinished(n joblog.Notice) bool {
	begunInline := n.Status == "in_progress" && n.Version == 1
	return !task.TerminalWord(n.Status) && !begunInline
}

// facts are what jobs are looked for by, in addition to the status.
type facts struct {
	updated int64 // when the latest event happened, Unix nanoseconds
	shared  unique.Handle[words]
	task    string // the upstream's id
	labels  publisher.Labels
	erased  bool // the job is found no more; its row is one that a list may still begin after
}

// words are those facts that many jobs have in common.
type words struct{ phase, route, model, upstream, key, code string }

func factsOf(n joblog.Notice) facts {
	f := n.Facts
	return facts{
		updated: n.Time.UnixNano(), task: strings.Clone(f.UpstreamTask), labels: publisher.Labels(strings.Clone(string(f.Labels))),
		shared: unique.Make(words{f.Phase, f.Route, f.Model, f.Upstream, f.Key, f.ErrorCode}),
	}
}

func (f facts) words() words {
	if f.shared == (unique.Handle[words]{}) {
		return words{}
	}
	return f.shared.Value()
}

func compareRows(a, b Row) int {
	if a.Created != b.Created {
		if a.Created < b.Created {
			return -1
		}
		return 1
	}
	return strings.Compare(a.ID, b.ID)
}
