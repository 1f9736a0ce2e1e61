package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject/check"
)

type reader struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	names subject.Space
}

func newReader(urls string) (*reader, error) {
	nc, err := nats.Connect(urls, nats.Name("soak"), nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond))
	if err != nil {
		return nil, fmt.Errorf("NATS at %s: %w", urls, err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &reader{nc: nc, js: js, names: subject.Default()}, nil
}

func (r *reader) close() { r.nc.Close() }

// history reads the log, the feed, chunks, dead letters and usage, and the objects that they name.
func (r *reader) history(ctx context.Context, h *check.History) error {
	for _, stream := range []string{r.names.Tasks(), r.names.Chunks(), r.names.Dead(), r.names.Rejected(), r.names.UsageStream()} {
		if err := r.read(ctx, stream, h); err != nil {
			return fmt.Errorf("read %s: %w", stream, err)
		}
	}
	h.ReadObjects(func(o check.Object) ([]byte, error) { return r.object(ctx, o) })
	return ctx.Err()
}

// jobs reads only the log and the dead letters.
func (r *reader) jobs(ctx context.Context, h *check.History) error {
	err := errors.Join(r.read(ctx, r.names.Tasks(), h), r.read(ctx, r.names.Dead(), h), r.read(ctx, r.names.Rejected(), h))
	h.ReadDeadLetters(func(o check.Object) ([]byte, error) { return r.object(ctx, o) })
	return err
}

func (r *reader) object(ctx context.Context, o check.Object) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	store, err := r.js.ObjectStore(ctx, o.Bucket)
	if err != nil {
		return nil, err
	}
	return store.GetBytes(ctx, o.Name)
}

// read reads a stream up to its current last message.
func (r *reader) read(ctx context.Context, stream string, h *check.History) error {
	s, err := r.js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	last, left := s.CachedInfo().State.LastSeq, s.CachedInfo().State.Msgs
	if left == 0 {
		return nil
	}
	c, err := r.js.OrderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return err
	}
	messages, err := c.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		h.Add(r.names, check.Stored{Subject: m.Subject(), Seq: meta.Sequence.Stream, Time: meta.Timestamp, Header: m.Headers(), Data: m.Data()})
		if meta.Sequence.Stream >= last {
			return nil
		}
	}
}

// open counts the work items of accepted jobs and the requests in the inbox.
func (r *reader) open(ctx context.Context) (jobs, inbox int, err error) {
	for _, stream := range []string{r.names.Work(), r.names.Wait(), r.names.Requests()} {
		s, err := r.js.Stream(ctx, stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		n := int(min(s.CachedInfo().State.Msgs, 1<<31))
		if stream == r.names.Requests() {
			inbox += n
		} else {
			jobs += n
		}
	}
	return jobs, inbox, nil
}

// openJobs returns up to ten jobs whose work items remain.
func (r *reader) openJobs(ctx context.Context) (string, error) {
	s, err := r.js.Stream(ctx, r.names.Work())
	if err != nil {
		return "", err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(r.names.WorkPattern()))
	if err != nil {
		return "", err
	}
	var ids []string
	for subj := range info.State.Subjects {
		if len(ids) < 10 {
			ids = append(ids, subj[strings.LastIndexByte(subj, '.')+1:])
		}
	}
	return strings.Join(ids, " "), nil
}
