package joblog_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// quick returns a log whose followers check after a short silence.
func quick(t testing.TB, b *broker.Broker, silence time.Duration) *joblog.Log {
	t.Helper()
	l := joblog.New(joblog.Options{Broker: b, Metrics: telemetry.NewMetrics("test"), Encoder: publisher.Encoder{Names: b.Names()}, Logger: brokertest.Logger(t), RereadEvery: silence})
	ctx, cancel := context.WithCancel(t.Context())
	wait := must[func()](t)(l.Start(ctx))
	t.Cleanup(func() {
		cancel()
		wait()
	})
	return l
}

// TestSilentJobsAreCheckedTogether proves that checks of many silent jobs share a few reads,
// without the leader, and still find lost events.
func TestSilentJobsAreCheckedTogether(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const jobs, silence = 200, 500 * time.Millisecond
		b := open(t)
		writer, l := newLog(t, open(t), ""), quick(t, b, silence)
		var leader, direct, looks atomic.Int64
		for subj, n := range map[string]*atomic.Int64{"$JS.API.STREAM.MSG.GET.*": &leader, "$JS.API.DIRECT.GET.>": &direct, "$JS.API.STREAM.INFO.*": &looks} {
			if _, err := b.Conn().Subscribe(subj, func(*nats.Msg) { n.Add(1) }); err != nil {
				t.Fatal(err)
			}
		}
		var ready, ended sync.WaitGroup
		var entries []joblog.Entry
		for i := range jobs {
			e := submit(t, writer, fmt.Sprint("video_", i))
			entries = append(entries, e)
			for range 2 {
				ready.Add(1)
				ended.Go(func() {
					begun := sync.OnceFunc(ready.Done)
					defer begun()
					last := uint64(0)
					for got, err := range l.Follow(t.Context(), e.Name(), 1) {
						if err != nil || got.Version() != max(last+1, 2) {
							t.Errorf("%s: version %d after %d, %v", e.Job.GetId(), got.Version(), last, err)
							return
						}
						if last = got.Version(); last == e.Version() {
							begun()
						}
					}
					if last != e.Version()+1 {
						t.Errorf("%s: ended after version %d", e.Job.GetId(), last)
					}
				})
			}
		}
		ready.Wait()
		wait := func(d time.Duration) {
			if err := broker.Wait(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		wait(silence) // the first checks
		l0, d0, s0 := leader.Load(), direct.Load(), looks.Load()
		wait(4 * silence)
		l1, d1, s1 := leader.Load()-l0, direct.Load()-d0, looks.Load()-s0
		// Two sweeps may each find some of the jobs.
		if l1 > jobs/10 || d1+s1 > jobs {
			t.Errorf("%d jobs, four silences: %d reads of the leader, %d of any replica, %d looks", jobs, l1, d1, s1)
		}
		l.DropLive(1)
		for _, e := range entries {
			next := must[task.Event](t)(task.Completed(video(e), time.Now(), task.Result{}))
			must[joblog.Entry](t)(writer.Commit(t.Context(), next, e.Seq))
		}
		ended.Wait()
	})
}

// TestFollowersOfAJobShareItsEvents proves that a second follower of a job needs no reads.
func TestFollowersOfAJobShareItsEvents(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := newLog(t, b, "")
	e := submit(t, l, "video_1")
	first := l.Join(e.Name(), 0)
	defer first.Close()
	if _, _, err := first.Started(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Next(t.Context()); err != nil { // the history
		t.Fatal(err)
	}
	var reads atomic.Int64
	for _, subj := range []string{"$JS.API.STREAM.MSG.GET.*", "$JS.API.DIRECT.GET.>"} {
		if _, err := b.Conn().Subscribe(subj, func(*nats.Msg) { reads.Add(1) }); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			next := uint64(1)
			for got, err := range l.Follow(t.Context(), e.Name(), 0) {
				if err != nil || got.Version() != next {
					t.Errorf("version %d, %v, want %d", got.Version(), err, next)
					return
				}
				if next++; next > 3 {
					return
				}
			}
		})
	}
	all.Wait()
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if n := reads.Load(); n > 0 {
		t.Errorf("%d reads", n)
	}
}
