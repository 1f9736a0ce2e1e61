package inline

import (
	"errors"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
)

// TestWhatBecameOfTheFirstEvent proves that a chat stays in the checks unless its first event
// certainly was not stored, and that a later event is left for the next check to read.
func TestWhatBecameOfTheFirstEvent(t *testing.T) {
	t.Parallel()
	event := func(version uint64) task.Event { return task.Event{Job: &genbusv1.Chat{Version: version}} }
	for name, c := range map[string]struct {
		entry    joblog.Entry
		err      error
		known    uint64
		unlogged bool
	}{
		"stored":             {entry: joblog.Entry{Event: event(1), Seq: 7}, known: 7},
		"and another's next": {entry: joblog.Entry{Event: event(2), Seq: 8}},
		"not known":          {err: errors.Join(joblog.ErrUncertain, errPatience)},
		"not stored":         {err: joblog.ErrFull, unlogged: true},
	} {
		rec := &record{first: event(1), entry: c.entry, err: c.err}
		rec.began()
		if known, unlogged := rec.known.Load(), rec.unlogged.Load(); known != c.known || unlogged != c.unlogged {
			t.Errorf("%s: known up to %d, unlogged %t", name, known, unlogged)
		}
	}
}
