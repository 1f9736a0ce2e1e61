package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/subject"
)

// orphanFinder finds the routes that have jobs and are not configured. A look that
// fails goes on where it stopped when it is repeated.
type orphanFinder struct {
	*Consumer
	has func(subject.Kind, string) bool // such a route
	// jobs are the routes that were ever found, and how often jobs of each were seen: what
	// is found is never forgotten, and a watch that ends may begin
	// again.
	jobs map[routeID]int
	// line is the number of subjects of GENBUS_WORK that this look has had, and pages how
	// many pages there are of them, 1 or more.
	line, pages int
	// waiting is the last sequence of GENBUS_WAIT that was looked at, and removals how many
	// reloads had removed routes then.
	waiting, removals uint64
}

func newOrphanFinder(c *Consumer, has func(subject.Kind, string) bool) *orphanFinder {
	return &orphanFinder{Consumer: c, has: has, jobs: map[routeID]int{}, pages: 1, removals: c.removals.Load()}
}

// look finds what stands in line and what has come to wait since the last look; all that
// waits, where routes were removed meanwhile: it waited on a route that there was.
func (f *orphanFinder) look(ctx context.Context) error {
	if n := f.Consumer.removals.Load(); n != f.removals {
		f.removals, f.waiting = n, 0
	}
	if err := f.lookAtLine(ctx); err != nil {
		return err
	}
	return f.lookAtWaiting(ctx)
}

func (f *orphanFinder) found(n subject.WorkName) {
	if !f.has(n.Kind, n.Route) {
		f.jobs[routeID{n.Kind, n.Route}]++
	}
}

// lookAtLine reads the subjects of GENBUS_WORK, a page after the other. A work queue
// has no reader beside its consumers, and lines are short.
func (f *orphanFinder) lookAtLine(ctx context.Context) error {
	for {
		page, err := f.page(ctx)
		if err != nil {
			return err
		}
		for subj := range page.State.Subjects {
			if n, err := f.Broker.Names().ParseWorkItem(subj); err == nil {
				f.found(n)
			}
		}
		f.line += len(page.State.Subjects)
		if len(page.State.Subjects) == 0 || f.line >= page.Total {
			f.line, f.pages = 0, 1+page.Total/pageSubjects
			return nil
		}
	}
}

// subjectsPage is what we read of the answer to STREAM.INFO.
type subjectsPage struct {
	Error *jetstream.APIError `json:"error"`
	Total int                 `json:"total"` // subjects of all pages
	State struct {
		Subjects map[string]uint64 `json:"subjects"`
	} `json:"state"`
}

func (f *orphanFinder) page(ctx context.Context) (subjectsPage, error) {
	names := f.Broker.Names()
	ctx, cancel := context.WithTimeoutCause(ctx, pageTimeout, fmt.Errorf("subjects of %s: no answer within %s", names.Work(), pageTimeout))
	defer cancel()
	var page subjectsPage
	request, err := json.Marshal(map[string]any{"subjects_filter": names.WorkPattern(), "offset": f.line})
	if err != nil {
		return page, err
	}
	reply, err := f.Broker.Conn().RequestWithContext(ctx, "$JS.API.STREAM.INFO."+names.Work(), request)
	if err != nil {
		return page, fmt.Errorf("subjects of %s: %w", names.Work(), errors.Join(broker.ErrUnavailable, err))
	}
	if err := json.Unmarshal(reply.Data, &page); err != nil {
		return page, fmt.Errorf("subjects of %s: unreadable answer: %w", names.Work(), err)
	}
	if page.Error != nil {
		return page, fmt.Errorf("subjects of %s: %w", names.Work(), page.Error)
	}
	return page, nil
}

const (
	// pageSubjects is how many subjects the server puts on a page, and pageTimeout bounds
	// the wait for one. It takes seconds of the broker's time, so that what was many
	// pages is not looked at again soon.
	pageSubjects = 100_000
	pageTimeout  = 20 * time.Second
	// waitingBatch is how many headers of GENBUS_WAIT are asked for at a time.
	waitingBatch = 1000
	// waitingThreshold is when the server forgets a look at GENBUS_WAIT that was cut.
	waitingThreshold = 30 * time.Second
)

// lookAtWaiting reads along what has come to GENBUS_WAIT, without bodies: it may be a
// million jobs, which are not to be listed again and again.
func (f *orphanFinder) lookAtWaiting(ctx context.Context) error {
	names := f.Broker.Names()
	s, err := f.Broker.Stream(ctx, names.Wait())
	if err != nil {
		return err
	}
	state := s.CachedInfo().State
	if state.LastSeq < f.waiting {
		f.waiting = 0 // the stream was made anew
	}
	if state.Msgs == 0 || state.LastSeq == f.waiting {
		f.waiting = state.LastSeq
		return nil
	}
	cons, err := f.Broker.JetStream().CreateConsumer(ctx, names.Wait(), jetstream.ConsumerConfig{
		FilterSubject: names.WaitPattern(), AckPolicy: jetstream.AckNonePolicy, HeadersOnly: true,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.waiting + 1,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: waitingThreshold,
	})
	if err != nil {
		return fmt.Errorf("read along %s: %w", names.Wait(), err)
	}
	defer func() { // one that stays, as after a stop, is forgotten by the server
		_ = f.Broker.JetStream().DeleteConsumer(ctx, names.Wait(), cons.CachedInfo().Name)
	}()
	for left, read := cons.CachedInfo().NumPending, uint64(0); left > 0; {
		if left, read, err = f.readWaiting(ctx, cons, read); err != nil {
			return fmt.Errorf("read along %s: %w", names.Wait(), err)
		}
	}
	return nil
}

// readWaiting reads a batch. It gives the number of messages behind it, and of those
// that were read from the consumer so far.
func (f *orphanFinder) readWaiting(ctx context.Context, cons jetstream.Consumer, before uint64) (left, read uint64, err error) {
	batch, err := cons.FetchNoWait(waitingBatch)
	if err != nil {
		return 0, 0, err
	}
	read = before
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			return 0, 0, err
		}
		if read++; meta.Sequence.Consumer != read {
			return 0, 0, errors.New("a message was lost on its way")
		}
		if n, err := f.Broker.Names().ParseWaitItem(m.Subject()); err == nil {
			f.found(n)
		}
		left, f.waiting = meta.NumPending, meta.Sequence.Stream
	}
	if err := errors.Join(batch.Error(), ctx.Err()); err != nil {
		return 0, 0, err
	}
	if read > before {
		return left, read, nil
	}
	info, err := cons.Info(ctx) // what was left may have had its turn
	if err != nil {
		return 0, 0, err
	}
	return info.NumPending, read, nil
}
