package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
	"github.com/genbus/genbus/test/faultinject/load"
)

// removed is a stream, or one of its durable consumers.
type removed struct{ stream, durable string }

func (d removed) String() string {
	if d.durable == "" {
		return d.stream
	}
	return d.durable
}

// holdsJobs reports whether the deletion also deletes work items of accepted jobs.
func (d removed) holdsJobs() bool { return d.fault().Loses == check.LosesItems }

// fault returns the deletion as a fault for the checker.
func (d removed) fault() check.Fault {
	f := check.Fault{Kind: check.FaultDelete, Target: d.String()}
	if d.durable != "" {
		return f
	}
	names := subject.Default()
	f.Wipes = d.stream == names.Chunks()
	switch d.stream {
	case names.Requests():
		f.Loses = check.LosesRequests
	case names.Work(), names.Wait():
		f.Loses = check.LosesItems
	case names.Tasks():
		f.Loses = check.LosesLog
	}
	return f
}

var (
	durables = []removed{
		{subject.Default().Work(), workDurables[0]}, {subject.Default().Work(), workDurables[1]}, {subject.Default().Work(), workDurables[2]},
		{subject.Default().Requests(), subject.IntakeDurable(subject.Video)}, {subject.Default().Requests(), subject.IntakeDurable(subject.Chat)},
	}
	streams = []removed{{stream: subject.Default().Requests()}, {stream: subject.Default().Work()}, {stream: subject.Default().Wait()}, {stream: subject.Default().Chunks()}}
)

// backTimeout limits the time in which a running service must recreate a deleted stream or durable.
const backTimeout = 30 * time.Second

// removeStream deletes a stream. GENBUS_WAIT is usually empty, so removeStream first builds a
// backlog in it.
func (s *storm) removeStream(ctx context.Context, what removed) error {
	if what.stream != subject.Default().Wait() {
		return s.remove(ctx, what)
	}
	return s.withRoutesPaused(ctx, func(func() error) error {
		if err := s.burst(ctx, load.Plain, backlogBurst); err != nil {
			return err
		}
		faultinject.Pause(ctx, accepting)
		return s.remove(ctx, what)
	})
}

// remove deletes a stream or durable and waits until it is back. If the service does not recreate
// it, remove restarts the replicas, so that the run can continue.
func (s *storm) remove(ctx context.Context, what removed) error {
	defer s.begin(what.fault())()
	r, err := newReader(s.fleet.nats)
	if err != nil {
		return err
	}
	defer r.close()
	ctx = context.WithoutCancel(ctx) // the recovery must not end with ctx
	alarms := s.fleet.recreations(ctx, what.stream)
	if err := r.retryUntil(ctx, healTimeout, func(ctx context.Context) error { return r.remove(ctx, what) }); err != nil {
		return fmt.Errorf("delete %s: %w", what, err)
	}
	back := func(ctx context.Context) error { return r.there(ctx, what) }
	if r.retryUntil(ctx, backTimeout, back) == nil {
		s.awaitAlarm(ctx, what, alarms)
		return nil
	}
	s.broke("made-again", "%s was deleted, and is not there again after %s", what, backTimeout)
	if err := s.rolling(ctx, 0); err != nil {
		return err
	}
	return r.retryUntil(ctx, healTimeout, back)
}

// awaitAlarm checks that the metrics report a lost stream of work items.
func (s *storm) awaitAlarm(ctx context.Context, what removed, before int) {
	if !what.holdsJobs() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, backTimeout)
	defer cancel()
	for s.fleet.recreations(ctx, what.stream) <= before {
		if !faultinject.Pause(ctx, 100*time.Millisecond) {
			s.broke("alarm", "%s was deleted, and genbus_stream_recreations does not say so", what)
			return
		}
	}
}

// recreations returns how often the replicas recreated a stream. It skips replicas that do not
// answer.
func (f *fleet) recreations(ctx context.Context, stream string) (sum int) {
	name := fmt.Sprintf("genbus_stream_recreations{stream=%q} ", stream)
	for _, r := range f.replicas {
		text, err := f.metrics(ctx, r)
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			if value, is := strings.CutPrefix(strings.TrimSpace(line), name); is {
				n, _ := strconv.ParseFloat(value, 64)
				sum += int(n)
			}
		}
	}
	return sum
}

func (f *fleet) metrics(ctx context.Context, r *replica) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.HTTP+"/metrics", nil)
	if err != nil {
		return "", err
	}
	resp, err := f.probe.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// remove deletes a stream or durable. A missing one is not an error, because an earlier answer may
// have been lost.
func (r *reader) remove(ctx context.Context, what removed) error {
	var err error
	if what.durable == "" {
		err = r.js.DeleteStream(ctx, what.stream)
	} else {
		err = r.js.DeleteConsumer(ctx, what.stream, what.durable)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil
	}
	return err
}

// there returns an error unless a stream or durable exists.
func (r *reader) there(ctx context.Context, what removed) error {
	if what.durable == "" {
		_, err := r.js.Stream(ctx, what.stream)
		return err
	}
	_, err := r.js.Consumer(ctx, what.stream, what.durable)
	return err
}

// retryUntil retries until limit, because the broker may refuse for a while.
func (r *reader) retryUntil(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		once, stop := context.WithTimeout(ctx, 5*time.Second)
		err := try(once)
		stop()
		if err == nil {
			return nil
		}
		if !faultinject.Pause(ctx, 50*time.Millisecond) {
			return err
		}
	}
}
