package joblog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/joblog/joblogtest"
	"github.com/genbus/genbus/internal/task"
)

func finished(t testing.TB, l *joblog.Log, id string) joblog.Entry {
	t.Helper()
	e := complete(t, l, submit(t, l, id))
	if err := l.Finish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	return e
}

func subjects(t testing.TB, b *broker.Broker) map[string]uint64 {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Subjects
}

// TestEraseLeavesNothing proves that an erasure removes all events and the feed copy of one job,
// and that its ID can be used again.
func TestEraseLeavesNothing(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, ctx := open(t), t.Context()
		c := open(t)
		l, other := newLog(t, b, ""), newLog(t, c, "")
		gone, stays := finished(t, l, "video_gone"), finished(t, l, "video_stays")
		for range 2 { // may be repeated
			if err := l.Erase(ctx, gone); err != nil {
				t.Fatal(err)
			}
		}
		for b, replica := range map[*broker.Broker]*joblog.Log{b: l, c: other} {
			if _, err := replica.Get(ctx, gone.Name()); !errors.Is(err, joblog.ErrNotFound) {
				t.Errorf("get: %v", err)
			}
			if history, err := joblogtest.History(ctx, b, gone.Name()); err != nil || len(history) != 0 {
				t.Errorf("history: %d events, %v", len(history), err)
			}
			for _, err := range replica.Follow(ctx, gone.Name(), 0) {
				if !errors.Is(err, joblog.ErrNotFound) {
					t.Errorf("follow: %v", err)
				}
			}
		}
		n := b.Names()
		left := subjects(t, b)
		if len(left) != 2 || left[n.Task("video", "acme", "video_stays")] != 4 || left[n.Done("video", "acme", "completed", "video_stays")] != 1 {
			t.Errorf("the stream has %v", left)
		}
		if got, err := l.Get(ctx, stays.Name()); err != nil || got.Version() != stays.Version() {
			t.Errorf("the other job: %v, %v", got, err)
		}
		again := finished(t, l, "video_gone")
		if again.Version() != 4 || subjects(t, b)[n.Done("video", "acme", "completed", "video_gone")] != 1 {
			t.Errorf("used again it ended with version %d: %v", again.Version(), subjects(t, b))
		}
	})
}

// TestEraseFindsTheFeedsCopyOfEveryStatus proves this for completed, failed and cancelled jobs.
func TestEraseFindsTheFeedsCopyOfEveryStatus(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := newLog(t, b, "")
	for _, end := range []func(v *genbusv1.VideoTask) (task.Event, error){
		func(v *genbusv1.VideoTask) (task.Event, error) { return task.Completed(v, time.Now(), task.Result{}) },
		func(v *genbusv1.VideoTask) (task.Event, error) {
			return task.FailedUpstream(v, time.Now(), task.Failure{Status: "failed", Err: &genbusv1.TaskError{Code: "x"}})
		},
		func(v *genbusv1.VideoTask) (task.Event, error) {
			return task.Cancelled(v, time.Now(), &genbusv1.TaskError{Code: "cancelled"})
		},
	} {
		e := submit(t, l, "video_x")
		next, err := end(video(e))
		if err != nil {
			t.Fatal(err)
		}
		e = must[joblog.Entry](t)(l.Commit(t.Context(), next, e.Seq))
		if err := l.Finish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if err := l.Erase(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		if left := subjects(t, b); len(left) != 0 {
			t.Errorf("%v left %v", e.Job.GetStatus(), left)
		}
	}
}

// TestEraseLeavesALaterJobAlone proves that a repeated or late erasure keeps a later job with the
// same ID.
func TestEraseLeavesALaterJobAlone(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b, ctx := open(t), t.Context()
		l := newLog(t, b, "")
		earlier := finished(t, l, "video_x")
		if err := l.Erase(ctx, earlier); err != nil {
			t.Fatal(err)
		}
		later := finished(t, l, "video_x")
		if err := l.Erase(ctx, earlier); err != nil {
			t.Fatal(err)
		}
		left, n := subjects(t, b), b.Names()
		if len(left) != 2 || left[n.Task("video", "acme", "video_x")] != 4 || left[n.Done("video", "acme", "completed", "video_x")] != 1 {
			t.Errorf("the stream has %v", left)
		}
		if got, err := l.Get(ctx, later.Name()); err != nil || got.ID() != later.ID() {
			t.Errorf("the later job: %v, %v", got, err)
		}
	})
}

// TestEraseEndsFollowers proves that followers of an erased job on any replica see its cancellation
// and then end.
func TestEraseEndsFollowers(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
		defer cancel()
		l, other := newLog(t, open(t), ""), newLog(t, open(t), "")
		e := submit(t, l, "video_x")
		ends := make(chan string, 2)
		begun := make(chan struct{}, 2)
		for _, replica := range []*joblog.Log{l, other} {
			go func() {
				seen := ""
				for got, err := range replica.Follow(ctx, e.Name(), e.Version()-1) {
					if err != nil {
						seen += err.Error()
						break
					}
					if seen += task.StatusWord(got.Job.GetStatus()) + " "; seen == "queued " {
						begun <- struct{}{}
					}
				}
				ends <- seen
			}()
		}
		<-begun
		<-begun
		next := must[task.Event](t)(task.Cancelled(e.Job, time.Now(), &genbusv1.TaskError{Code: "cancelled"}))
		e = must[joblog.Entry](t)(l.Commit(ctx, next, e.Seq))
		if err := l.Erase(ctx, e); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if seen := <-ends; seen != "queued cancelled " {
				t.Errorf("a follower saw %q", seen)
			}
		}
	})
}

// TestEraseEndsAFollowerThatMissedTheEnd proves that a follower ends even if live delivery lost the
// terminal event and the job was erased.
func TestEraseEndsAFollowerThatMissedTheEnd(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
		defer cancel()
		// A lagging replica may answer the check after Wake. The next check, after a silence, finds
		// the job missing.
		l, reader := newLog(t, open(t), ""), quick(t, open(t), time.Second)
		e := submit(t, l, "video_x")
		var seen []uint64
		var last error
		for got, err := range reader.Follow(ctx, e.Name(), 1) {
			if last = err; err != nil {
				continue
			}
			seen = append(seen, got.Version())
			switch got.Version() {
			case 3: // no news: the follower continues
				reader.Wake()
				next := must[task.Event](t)(task.Submitted(video(e), time.Now(), task.Receipt{UpstreamID: "up_1", Status: "running"}))
				e = must[joblog.Entry](t)(l.Commit(ctx, next, e.Seq))
			case 4: // the follower never learns of this end
				if err := l.Erase(ctx, e); err != nil {
					t.Fatal(err)
				}
				reader.Wake()
			}
		}
		if diff := cmp.Diff([]uint64{2, 3, 4}, seen); diff != "" || !errors.Is(last, joblog.ErrNotFound) {
			t.Errorf("the follower ended with %v, versions:\n%s", last, diff)
		}
	})
}
