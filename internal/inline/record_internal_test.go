package inline

import (
	"testing"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/upstream/chat"
)

// TestRepliesAreWithinTheBudget proves that replies above the memory budget are not kept, whether
// streamed or whole.
func TestRepliesAreWithinTheBudget(t *testing.T) {
	t.Parallel()
	const reply = `{"choices":[{"index":0,"delta":{"content":"a long reply"}}]}`
	for name, outcomeOf := range map[string]func(*record) outcome{
		"streamed": func(rec *record) outcome {
			rec.assembler = chat.NewAssembler(0)
			_ = rec.assembler.Add([]byte(reply))
			return outcome{}
		},
		"whole": func(*record) outcome { return outcome{reply: []byte(reply)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &Runner{budget: publisher.NewBudget(1 << 10), backlog: &backlog{}}
			held, kept := 0, 0
			for range 100 {
				rec := &record{r: r, ctx: t.Context(), ended: make(chan struct{})}
				rec.close(outcomeOf(rec))
				held += rec.held
				if raw, err := rec.whole(); err == nil && len(raw) > 0 {
					kept++
				} else if rec.assembler != nil || rec.outcome.reply != nil || rec.held != 0 {
					t.Error("a reply that found no room is held")
				}
			}
			if kept == 0 || kept == 100 || held > 1<<10 || held < kept*len("a long reply") {
				t.Errorf("%d bytes are held, of %d replies", held, kept)
			}
		})
	}
}

func TestFailedChatsHoldNoReply(t *testing.T) {
	t.Parallel()
	r := &Runner{budget: publisher.NewBudget(0), backlog: &backlog{}}
	rec := &record{r: r, ctx: t.Context(), ended: make(chan struct{}), assembler: chat.NewAssembler(0)}
	_ = rec.assembler.Add([]byte(`{"choices":[{"index":0,"delta":{"content":"half a reply"}}]}`))
	rec.close(outcome{fault: errcode.New(errcode.CallerGone, "%w", errDisconnected)})
	if rec.assembler != nil || rec.held != 0 || rec.partial {
		t.Errorf("%d bytes are held", rec.held)
	}
}
