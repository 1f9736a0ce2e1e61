package jobtable

import (
	"strconv"
	"strings"
	"unique"

	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
)

// Row describes a job in a table. JSON carries only its exported fields.
type Row struct {
	Created    int64  `json:"created"` // Unix nanoseconds
	ID         string `json:"id"`
	Status     string `json:"status"`
	Seq        uint64 `json:"seq"` // sequence of the latest known event
	unfinished bool   // counts as unfinished
	facts
}

// rowOf returns the row of an event. It does not copy the ID.
func rowOf(s joblog.Summary) Row {
	return Row{Created: s.CreatedAt.UnixNano(), ID: s.Name.ID, Seq: s.Seq, Status: unique.Make(s.Status).Value(), unfinished: isUnfinished(s), facts: factsOf(s)}
}

// isUnfinished reports whether an event leaves its job unfinished. Inline chats do not count as
// unfinished. They end with their connection, and if their replica dies, no event reports it.
// Inline chats are the only jobs that begin in progress.
func isUnfinished(s joblog.Summary) bool {
	begunInline := s.Status == "in_progress" && s.Version == 1
	return !task.TerminalWord(s.Status) && !begunInline
}

// facts are the searchable properties of a job besides its status.
type facts struct {
	updated int64 // time of the latest event, Unix nanoseconds
	shared  unique.Handle[words]
	task    string // upstream task ID
	labels  publisher.Labels
	// progress of a video, 0 to 100 percent.
	progress uint8
	erased   bool // hidden from searches; the row remains as a place where a list can resume
}

// words are facts with values that many jobs share, and retryOf, which few jobs have.
type words struct{ phase, route, model, upstream, key, code, retryOf string }

func factsOf(s joblog.Summary) facts {
	f := s.Facts
	progress, _ := strconv.ParseUint(f.Progress, 10, 8) // empty for 0
	return facts{
		progress: uint8(progress),
		updated:  s.Time.UnixNano(), task: strings.Clone(f.UpstreamTask), labels: publisher.Labels(strings.Clone(string(f.Labels))),
		shared: unique.Make(words{f.Phase, f.Route, f.Model, f.Upstream, f.Key, f.ErrorCode, f.RetryOf}),
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
