package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// send publishes a request to the inbox and returns the name of its job.
func (b *bed) send(kind subject.Kind, requestID string, m proto.Message) subject.JobName {
	b.t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.js.Publish(b.t.Context(), b.names.Request(kind, "default"), data); err != nil {
		b.t.Fatal(err)
	}
	return subject.JobName{Kind: kind, Tenant: "default", ID: subject.JobID(kind, "default", "request\x00"+requestID)}
}

func (b *bed) events(ctx context.Context, n subject.JobName) ([]task.Event, error) {
	s, err := b.js.Stream(ctx, b.names.Tasks())
	if err != nil {
		return nil, err
	}
	var out []task.Event
	for seq := uint64(1); ; {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(b.names.Task(n.Kind, n.Tenant, n.ID)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		e, err := publisher.DecodeEvent(n.Kind, m.Header, m.Data)
		if err != nil {
			return nil, err
		}
		out, seq = append(out, e), m.Sequence+1
	}
}

// awaitPhase waits for a phase and returns the events up to it.
func (b *bed) awaitPhase(n subject.JobName, phase genbusv1.JobPhase) []task.Event {
	b.t.Helper()
	var out []task.Event
	b.until(n.ID+" "+phase.String(), func(ctx context.Context) (err error) {
		if out, err = b.events(ctx, n); err != nil {
			return err
		}
		for i, e := range out {
			if e.Job.GetExecution().GetPhase() == phase {
				out = out[:i+1]
				return nil
			}
		}
		return errors.New(phaseWords(out))
	})
	return out
}

func (b *bed) awaitEnd(n subject.JobName) task.Event {
	b.t.Helper()
	var end task.Event
	b.until(n.ID+" ends", func(ctx context.Context) error {
		out, err := b.events(ctx, n)
		if err != nil {
			return err
		}
		if len(out) == 0 || !out[len(out)-1].Terminal() {
			return errors.New(phaseWords(out))
		}
		end = out[len(out)-1]
		return nil
	})
	return end
}

func phaseWords(events []task.Event) string {
	words := make([]string, 0, len(events))
	for _, e := range events {
		words = append(words, task.PhaseWord(e.Job.GetExecution().GetPhase()))
	}
	return strings.Join(words, " ")
}

// count returns the number of messages on a subject of a stream.
func (b *bed) count(ctx context.Context, stream, pattern string) (n uint64, err error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(pattern))
	if err != nil {
		return 0, err
	}
	for _, of := range info.State.Subjects {
		n += of
	}
	return n, nil
}

func (b *bed) hasItem(n subject.JobName) bool {
	b.t.Helper()
	there, err := b.count(b.t.Context(), b.names.Work(), b.names.WorkAnyRoute(n.Kind, n.Tenant, n.ID))
	if err != nil {
		b.t.Fatal(err)
	}
	return there > 0
}

// endedOnce checks a job that no replica holds: its log has no gaps, ends with its only terminal
// event, the feed contains it once, and its work item is gone.
func (b *bed) endedOnce(n subject.JobName, want string) {
	b.t.Helper()
	b.until("the feed and the item of "+n.ID, func(ctx context.Context) error {
		feed, err := b.count(ctx, b.names.Tasks(), b.names.Done(n.Kind, n.Tenant, "*", n.ID))
		if err == nil && (feed != 1 || b.hasItem(n)) {
			err = fmt.Errorf("%d times in the feed, item there: %t", feed, b.hasItem(n))
		}
		return err
	})
	events, err := b.events(b.t.Context(), n)
	if err != nil {
		b.t.Fatal(err)
	}
	for i, e := range events {
		if e.Version() != uint64(i+1) || e.Terminal() != (i == len(events)-1) {
			b.t.Errorf("%s: event %d has version %d, terminal %t", n.ID, i, e.Version(), e.Terminal())
		}
	}
	if got := task.PhaseWord(events[len(events)-1].Job.GetExecution().GetPhase()); got != want {
		b.t.Errorf("%s ended %s: %s, %v", n.ID, got, phaseWords(events), events[len(events)-1].Job.GetError())
	}
}
