package broker

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
)

// noAnswer is a JetStream that loses the first answer to the creation of a stream.
type noAnswer struct {
	jetstream.JetStream
	lost bool
}

func (j *noAnswer) CreateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := j.JetStream.CreateStream(ctx, cfg)
	if err == nil && !j.lost {
		j.lost = true
		return nil, context.DeadlineExceeded
	}
	return s, err
}

// TestAStreamThatIsCreatedWithoutAnAnswerWasLost proves that a lost queue is reported even if the
// answer to its recreation does not arrive.
func TestAStreamThatIsCreatedWithoutAnAnswerWasLost(t *testing.T) {
	t.Parallel()
	names := subject.Default()
	b := openEmbedded(t, Limits{}, Embedded{DataDir: t.TempDir(), NoSync: true})
	if err := b.js.DeleteStream(t.Context(), names.Work()); err != nil {
		t.Fatal(err)
	}
	lossy := &noAnswer{JetStream: b.js}
	b.js = lossy
	for range 2 {
		if err := b.Streams().CreateMissing(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Streams().Recreated(names.Work()); n != 1 || !lossy.lost {
		t.Errorf("the queue was lost %d times", n)
	}
	if n := b.Streams().Recreated(names.Wait()); n != 0 {
		t.Errorf("the backlog was lost %d times", n)
	}
}
