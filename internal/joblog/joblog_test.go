package joblog_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/joblog/joblogtest"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

func newLog(t testing.TB, b *broker.Broker, encoding publisher.Encoding) *joblog.Log {
	t.Helper()
	l := joblog.New(joblog.Options{
		Broker: b, Encoder: publisher.Encoder{Names: b.Names(), Encoding: encoding}, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t),
	})
	ctx, cancel := context.WithCancel(t.Context())
	wait, err := l.Start(ctx)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		wait()
	})
	return l
}

func work(id string) *genbusv1.WorkItem {
	return &genbusv1.WorkItem{
		Id: id, Kind: "video", Tenant: "acme", Route: "r", Model: "m", Fingerprint: []byte("fp"),
		AcceptedAt: timestamppb.Now(), Labels: map[string]string{"k": "v"},
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func video(e joblog.Entry) *genbusv1.VideoTask {
	v, _ := e.Job.(*genbusv1.VideoTask)
	return v
}

// submit commits queued, submitting and submitted.
func submit(t testing.TB, l *joblog.Log, id string) joblog.Entry {
	t.Helper()
	ctx, now := t.Context(), time.Now()
	e := must[joblog.Entry](t)(l.Commit(ctx, task.FromWork(work(id)), 0))
	next := must[task.Event](t)(task.Submitting(video(e), now, task.Submission{Upstream: "u", Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)}))
	e = must[joblog.Entry](t)(l.Commit(ctx, next, e.Seq))
	next = must[task.Event](t)(task.Submitted(video(e), now, task.Receipt{UpstreamID: "up_1", Status: "queued"}))
	return must[joblog.Entry](t)(l.Commit(ctx, next, e.Seq))
}

func complete(t testing.TB, l *joblog.Log, e joblog.Entry) joblog.Entry {
	t.Helper()
	next := must[task.Event](t)(task.Completed(video(e), time.Now(), task.Result{Videos: []*genbusv1.Video{{Url: "http://x/1.mp4"}}}))
	return must[joblog.Entry](t)(l.Commit(t.Context(), next, e.Seq))
}

func TestLastEventIsTheStateAndAllAreTheHistory(t *testing.T) {
	t.Parallel()
	for _, encoding := range []publisher.Encoding{publisher.Protobuf, publisher.JSON} {
		t.Run(string(encoding), func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			l := newLog(t, b, encoding)
			end := complete(t, l, submit(t, l, "video_1"))
			got := must[joblog.Entry](t)(l.Get(t.Context(), end.Name()))
			if diff := cmp.Diff(end.Job, got.Job, protocmp.Transform()); diff != "" {
				t.Errorf("what was stored is not what was committed:\n%s", diff)
			}
			history := must[[]joblog.Entry](t)(joblogtest.History(t.Context(), b, end.Name()))
			if len(history) != 4 {
				t.Fatalf("%d events", len(history))
			}
			for i, e := range history {
				if e.Version() != uint64(i+1) || e.ID() != fmt.Sprintf("video_1.%d.%s", i+1, e.Nonce) {
					t.Errorf("event %d is %s", i, e.ID())
				}
			}
		})
	}
}

func TestUnknownJobIsNotFound(t *testing.T) {
	t.Parallel()
	l := newLog(t, brokertest.Single(t), "")
	name := subject.JobName{Kind: subject.Video, Tenant: "acme", ID: "video_none"}
	if _, err := l.Get(t.Context(), name); !errors.Is(err, joblog.ErrNotFound) {
		t.Errorf("Get: %v", err)
	}
	for _, err := range l.Follow(t.Context(), name, 0) {
		if !errors.Is(err, joblog.ErrNotFound) {
			t.Errorf("Follow: %v", err)
		}
	}
}

// TestOneOfManyWritersWins proves that one of several concurrent writers wins each version, and
// that the others get the stored event.
func TestOneOfManyWritersWins(t *testing.T) {
	t.Parallel()
	brokertest.EachCAS(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		logs := []*joblog.Log{newLog(t, open(t), ""), newLog(t, open(t), "")}
		last := submit(t, logs[0], "video_race")
		for round := range 20 {
			var mu sync.Mutex
			var won []joblog.Entry
			var wg sync.WaitGroup
			for w := range 6 {
				wg.Go(func() {
					event, err := task.Submitted(video(last), time.Now(), task.Receipt{UpstreamID: "up_1", Status: fmt.Sprint(round, w)})
					if err != nil {
						t.Error(err)
						return
					}
					entry, err := logs[w%2].Commit(t.Context(), event, last.Seq)
					var lost *joblog.LostError
					switch {
					case err == nil:
						mu.Lock()
						won = append(won, entry)
						mu.Unlock()
					case !errors.As(err, &lost):
						t.Errorf("round %d: %v", round, err)
					case lost.Current.Version() != last.Version()+1:
						t.Errorf("round %d: told of version %d", round, lost.Current.Version())
					}
				})
			}
			wg.Wait()
			if len(won) != 1 {
				t.Fatalf("round %d: %d winners", round, len(won))
			}
			last = won[0]
		}
	})
}

func TestLostCommitNamesTheWinner(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		l := newLog(t, open(t), "")
		e := must[joblog.Entry](t)(l.Commit(t.Context(), task.FromWork(work("video_1")), 0))
		cancelled := must[task.Event](t)(task.Cancelled(e.Job, time.Now(), &genbusv1.TaskError{Code: "cancelled"}))
		winner := must[joblog.Entry](t)(l.Commit(t.Context(), cancelled, e.Seq))
		late := must[task.Event](t)(task.Submitting(video(e), time.Now(), task.Submission{}))
		_, err := l.Commit(t.Context(), late, e.Seq)
		var lost *joblog.LostError
		if !errors.As(err, &lost) || lost.Current.Seq != winner.Seq || !lost.Current.Terminal() {
			t.Errorf("got %v", err)
		}
		if _, err := l.Commit(t.Context(), task.FromWork(work("video_1")), 0); !errors.As(err, &lost) {
			t.Errorf("a second first event: %v", err)
		}
	})
}

func TestFinishIsStoredOnce(t *testing.T) {
	t.Parallel()
	brokertest.EachCAS(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		l := newLog(t, b, "")
		end := complete(t, l, submit(t, l, "video_1"))
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if err := l.Finish(t.Context(), end); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		subj := b.Names().Done(subject.Video, "acme", "completed", "video_1")
		first := must[broker.Stored](t)(b.Next(t.Context(), b.Names().Tasks(), subj, 1))
		if got := first.Header.Get(subject.HeaderCEID); got != end.ID() {
			t.Errorf("ce-id %q, want %q", got, end.ID())
		}
		if _, err := b.Next(t.Context(), b.Names().Tasks(), subj, first.Seq+1); !errors.Is(err, broker.ErrNoMessage) {
			t.Errorf("a second twin: %v", err)
		}
	})
}

func TestFollowGivesHistoryThenLive(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		writer, reader := newLog(t, open(t), ""), newLog(t, open(t), "")
		e := submit(t, writer, "video_1")
		var got []uint64
		var writing sync.WaitGroup
		defer writing.Wait()
		for entry, err := range reader.Follow(t.Context(), e.Name(), 1) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, entry.Version())
			if entry.Version() == 3 { // end of the history; the rest is live
				writing.Go(func() {
					next, _, err := task.Observed(video(e), time.Now(), task.Observation{Started: true, Status: "running", Progress: 40})
					if err != nil {
						t.Error(err)
						return
					}
					running, err := writer.Commit(t.Context(), next, e.Seq)
					if err != nil {
						t.Error(err)
						return
					}
					complete(t, writer, running)
				})
			}
		}
		if diff := cmp.Diff([]uint64{2, 3, 4, 5}, got); diff != "" {
			t.Errorf("versions:\n%s", diff)
		}
	})
}

func TestFollowOfAnEndedJobEnds(t *testing.T) {
	t.Parallel()
	l := newLog(t, brokertest.Single(t), "")
	end := complete(t, l, submit(t, l, "video_1"))
	for _, after := range []uint64{0, 3, 4, 99} {
		n := 0
		for _, err := range l.Follow(t.Context(), end.Name(), after) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if want := max(0, 4-int(after)); n != want {
			t.Errorf("after %d: %d events, want %d", after, n, want)
		}
	}
}

func TestSlowReaderIsCut(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := joblog.New(joblog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t), ReaderBuffer: 2000})
	ctx, cancel := context.WithCancel(t.Context())
	wait := must[func()](t)(l.Start(ctx))
	defer func() {
		cancel()
		wait()
	}()
	e := submit(t, l, "video_1")
	seen := make(chan struct{}, 100) // a reader of headers must not block
	stop := must[func()](t)(must[*joblog.Headers](t)(l.Headers(ctx)).Each(func(joblog.Summary) { seen <- struct{}{} }, func() {}, func(error) {}))
	defer stop()
	<-seen // the job's last event
	var last error
	for entry, err := range l.Follow(t.Context(), e.Name(), 2) {
		last = err
		if err != nil || entry.Version() > 3 {
			continue
		}
		for i := range 10 { // the reader stalls for ten events
			next := must[task.Event](t)(task.Submitted(video(e), time.Now(), task.Receipt{UpstreamID: "up_1", Status: fmt.Sprint(i)}))
			e = must[joblog.Entry](t)(l.Commit(t.Context(), next, e.Seq))
		}
		for range 10 { // one value per event
			<-seen
		}
	}
	if !errors.Is(last, joblog.ErrSlowReader) {
		t.Errorf("got %v", last)
	}
}
