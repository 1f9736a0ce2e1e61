package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	events "github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
)

// sentLabel begins the label with the publish time of a job's request, in Unix nanoseconds.
const sentLabel = "sent="

// jobsFeed follows the feed like a client.
type jobsFeed struct {
	consuming jetstream.ConsumeContext

	mu     sync.Mutex
	ended  map[string]bool // by ID, because a job may appear twice
	failed string          // how the first failed job ended
	last   time.Time       // when the last end arrived
	delays jobDelays
}

// jobDelays are in seconds.
type jobDelays struct {
	total    []float64 // from the publish of a request to the arrival of its end at the client
	delivery []float64 // the part after the server stamped the end, which it does before storing it
}

// followJobs reads the headers of the feed from its first message.
func followJobs(ctx context.Context, js jetstream.JetStream) (*jobsFeed, error) {
	names := subject.Default()
	ordered, err := js.OrderedConsumer(ctx, names.Tasks(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{names.DonePattern()}, DeliverPolicy: jetstream.DeliverAllPolicy, HeadersOnly: true,
	})
	if err != nil {
		return nil, fmt.Errorf("follow the feed: %w", err)
	}
	f := &jobsFeed{ended: map[string]bool{}}
	f.consuming, err = ordered.Consume(func(m jetstream.Msg) {
		now := time.Now()
		meta, err := m.Metadata()
		if err != nil {
			return // not a stream message
		}
		f.add(m.Subject(), m.Headers(), now, meta.Timestamp)
	})
	return f, err
}

func (f *jobsFeed) close() {
	f.consuming.Stop()
	<-f.consuming.Closed()
}

func (f *jobsFeed) add(done string, header nats.Header, now, stored time.Time) {
	name, err := subject.Default().ParseDone(done)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended[name.ID] {
		return
	}
	f.ended[name.ID], f.last = true, now
	if name.Status != "completed" && f.failed == "" {
		f.failed = fmt.Sprintf("%s: %s", name.ID, name.Status)
	}
	if sent, err := sentAt(header); err == nil {
		f.delays.total = append(f.delays.total, now.Sub(sent).Seconds())
		f.delays.delivery = append(f.delays.delivery, now.Sub(stored).Seconds())
	}
}

// sentAt returns the time in the label. genbus stores labels in the facts of an event. The floor
// copies the request header.
func sentAt(header nats.Header) (time.Time, error) {
	labels := string(events.ParseFacts(header.Get(subject.HeaderIndex)).Labels)
	if labels == "" {
		labels = header.Get(subject.HeaderLabels)
	}
	digits, ok := strings.CutPrefix(labels, sentLabel)
	if !ok {
		return time.Time{}, errors.New("the job has no such label")
	}
	nanoseconds, err := strconv.ParseInt(digits, 10, 64)
	return time.Unix(0, nanoseconds), err
}

// count returns the number of ended jobs and the time of the last one.
func (f *jobsFeed) count() (n int, last time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != "" {
		err = fmt.Errorf("a job did not complete: %s", f.failed)
	}
	return len(f.ended), f.last, err
}

// wait waits until n jobs have ended, and returns the time of the last one.
func (f *jobsFeed) wait(ctx context.Context, n int, alive func() error) (time.Time, error) {
	for {
		ended, last, err := f.count()
		if err != nil || ended >= n {
			return last, err
		}
		if err := alive(); err != nil {
			return last, err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return last, fmt.Errorf("%d of %d jobs ended: %w", ended, n, err)
		}
	}
}

// takeDelays returns the sorted delays of the jobs that ended since the last call.
func (f *jobsFeed) takeDelays() jobDelays {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.delays
	f.delays = jobDelays{}
	slices.Sort(d.total)
	slices.Sort(d.delivery)
	return d
}
