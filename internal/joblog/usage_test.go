package joblog_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/testing/protocmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/event"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

func usages(t testing.TB, b *broker.Broker, id string) (events []*genbusv1.UsageEvent, types []string) {
	t.Helper()
	n := b.Names()
	for seq := uint64(1); ; {
		m, err := b.Next(t.Context(), n.UsageStream(), n.Usage(subject.Video, "acme", id), seq)
		if err != nil {
			return events, types
		}
		u := new(genbusv1.UsageEvent)
		if err := event.Decode(m.Header, m.Data, u); err != nil {
			t.Fatal(err)
		}
		events, types, seq = append(events, u), append(types, m.Header.Get(subject.HeaderCEType)), m.Seq+1
	}
}

// TestUsageIsPublishedOnce proves that concurrent calls of Finish store one usage event, and that a
// later job with the ID of an erased one gets its own.
func TestUsageIsPublishedOnce(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		l, other := newLog(t, b, ""), newLog(t, open(t), "")
		end := complete(t, l, submit(t, l, "video_1"))
		var group sync.WaitGroup
		for range 4 {
			for _, replica := range []*joblog.Log{l, other} {
				group.Go(func() {
					if err := replica.Finish(t.Context(), end); err != nil {
						t.Error(err)
					}
				})
			}
		}
		group.Wait()
		got, types := usages(t, b, "video_1")
		if len(got) != 1 || types[0] != "genbus.job.usage.v1" {
			t.Fatalf("usage events %v of types %v", got, types)
		}
		want := &genbusv1.UsageEvent{
			Id: "video_1", Kind: "video", Tenant: "acme", Model: "m", Route: "r", Upstream: "u",
			Status: genbusv1.JobStatus_JOB_STATUS_COMPLETED, Time: got[0].GetTime(), Videos: 1, Attempts: 1, Labels: map[string]string{"k": "v"},
		}
		if diff := cmp.Diff(want, got[0], protocmp.Transform()); diff != "" {
			t.Error(diff)
		}

		if err := l.Erase(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		finished(t, l, "video_1")
		if got, _ := usages(t, b, "video_1"); len(got) != 2 {
			t.Errorf("%d usage events after a second job under the id, want 2", len(got))
		}
	})
}

func TestWhatWasNotSentHasNoUsage(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := newLog(t, b, "")
	e := must[joblog.Entry](t)(l.Commit(t.Context(), task.FromWork(work("video_1")), 0))
	next := must[task.Event](t)(task.Failed(e.Job, time.Now(), errcode.New(errcode.Expired, "too late").TaskError()))
	e = must[joblog.Entry](t)(l.Commit(t.Context(), next, e.Seq))
	if err := l.Finish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if got, _ := usages(t, b, "video_1"); len(got) != 0 {
		t.Errorf("usage %v of a job that no upstream has seen", got)
	}
}

// TestUsageAfterACrash proves that Finish stores the usage if a crash followed the feed copy.
func TestUsageAfterACrash(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		l := newLog(t, b, "")
		end := complete(t, l, submit(t, l, "video_1"))
		feedCopy, err := publisher.Encoder{Names: b.Names()}.Done(t.Context(), end.Event)
		if err != nil {
			t.Fatal(err)
		}
		feedCopy.Header.Set(jetstream.MsgIDHeader, end.ID()+".done")
		if _, err := b.Publish(t.Context(), feedCopy); err != nil {
			t.Fatal(err)
		}
		if err := newLog(t, open(t), "").Finish(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		if got, _ := usages(t, b, "video_1"); len(got) != 1 {
			t.Errorf("%d usage events", len(got))
		}
	})
}

// TestUsageAsJSON proves that a JSON usage event carries the job's totals and its event ID.
func TestUsageAsJSON(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := newLog(t, b, publisher.JSON)
	e := submit(t, l, "video_1")
	seconds := []*genbusv1.Video{{Url: "http://x/1.mp4", DurationSeconds: 5}, {Url: "http://x/2.mp4", DurationSeconds: 2.5}}
	tokens := int64(42)
	next := must[task.Event](t)(task.Completed(video(e), time.Now(), task.Result{Videos: seconds, Usage: &genbusv1.Usage{TotalTokens: &tokens}}))
	e = must[joblog.Entry](t)(l.Commit(t.Context(), next, e.Seq))
	if err := l.Finish(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	m, err := b.Last(t.Context(), b.Names().UsageStream(), b.Names().Usage(subject.Video, "acme", "video_1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"video_seconds":7.5`, `"videos":2`, `"total_tokens":42`, `"status":"completed"`, `"attempts":1`, `"k":"v"`} {
		if !strings.Contains(string(m.Data), want) {
			t.Errorf("no %s in %s", want, m.Data)
		}
	}
	if m.Header.Get(jetstream.MsgIDHeader) != e.ID()+".usage" || m.Header.Get(subject.HeaderCEID) != e.ID() {
		t.Errorf("headers %v", m.Header)
	}
}

// TestUsageOfAMonthFits proves that the default limits hold the usage events of all jobs that fit
// into the job log, for the promised time.
func TestUsageOfAMonthFits(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l, limits := newLog(t, b, ""), broker.DefaultLimits()
	finished(t, l, "video_1")
	s, err := b.Stream(t.Context(), b.Names().UsageStream())
	if err != nil {
		t.Fatal(err)
	}
	if state := s.CachedInfo().State; state.Msgs != 1 || state.Bytes > joblog.UsageBytes || state.Bytes < joblog.UsageBytes/2 {
		t.Errorf("%d usage events take %d bytes, want about %d", state.Msgs, state.Bytes, joblog.UsageBytes)
	}
	day := l.Capacity.JobsPerDay(joblog.Figures{Max: limits.TasksMaxBytes}, limits.TasksMaxAge)
	t.Logf("%d jobs a day", day)
	if need := day * int64(limits.UsageMaxAge/(24*time.Hour)) * joblog.UsageBytes; need > limits.UsageMaxBytes || day == 0 {
		t.Errorf("%d jobs a day for %s need %d bytes of usage events, and have %d", day, limits.UsageMaxAge, need, limits.UsageMaxBytes)
	}
}

// TestUnfinishedJobsAreReservedFor proves that each work item reserves capacity, twice as much with
// JSON events.
func TestUnfinishedJobsAreReservedFor(t *testing.T) {
	t.Parallel()
	for encoding, each := range map[publisher.Encoding]int64{publisher.Protobuf: 12 << 10, publisher.JSON: 24 << 10} {
		t.Run(string(encoding), func(t *testing.T) {
			t.Parallel()
			b := brokertest.Single(t)
			l, names := newLog(t, b, encoding), b.Names()
			for _, item := range []string{
				names.WorkItem(subject.Video, "r", "acme", "video_1"), names.WorkItem(subject.Chat, "r", "acme", "chat_1"), names.WaitItem(subject.Video, "r", "acme", "video_2"),
			} {
				if _, err := b.JetStream().Publish(t.Context(), item, nil); err != nil {
					t.Fatal(err)
				}
			}
			if figures, err := l.Capacity.Figures(t.Context()); err != nil || figures.Reserved != 3*each {
				t.Errorf("%d bytes are reserved for 3 jobs, %v, want %d", figures.Reserved, err, 3*each)
			}
			if got, want := l.Capacity.BytesFor(1000), 1250*each; got != want {
				t.Errorf("1000 jobs want %d bytes, want %d", got, want)
			}
		})
	}
}

// TestTheLogHasCapacityOnAFullDisk proves that refusable bodies leave the disk to the log, and that
// the log knows its shortfall if other bodies use it up.
func TestTheLogHasCapacityOnAFullDisk(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	b := brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t),
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true, MaxStore: 64 * mib},
		Limits:   broker.Limits{RequestsMaxBytes: mib, TasksMaxBytes: 16 * mib, DeadMaxBytes: mib, RejectedMaxBytes: mib, UsageMaxBytes: mib, OpsMaxBytes: mib},
	})
	l, bodies, body := newLog(t, b, ""), broker.NewBodies(b), make([]byte, mib)
	stored := 0
	for ; stored < 64; stored++ {
		_, err := bodies.PutNew(t.Context(), "acme", "body-"+strconv.Itoa(stored), body)
		if errors.Is(err, broker.ErrFull) || errors.Is(err, broker.ErrBodyTooLarge) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if left, known := b.StoreRemaining(); !known || left < 16*mib-64<<10 || stored < 40 {
		t.Errorf("%d bodies of 1 MiB are stored, and %d bytes are left", stored, left)
	}
	for i := range 12 { // replies are never refused
		if _, err := bodies.Put(t.Context(), "acme", "reply-"+strconv.Itoa(i), body); err != nil {
			t.Fatal(err)
		}
	}
	if room, err := l.Capacity.Figures(t.Context()); err != nil || room.Max-room.Short > 5*mib || room.Max-room.Short < 2*mib {
		t.Errorf("%+v, %v with about 4 MiB left", room, err)
	}
	finished(t, l, "video_1")
}

// TestEndsHaveCapacityOnAFullDisk proves that a tenth of the log stays reserved for the ends of
// running jobs even if the disk is much smaller than the log.
func TestEndsHaveCapacityOnAFullDisk(t *testing.T) {
	t.Parallel()
	const mib, size = 1 << 20, 80 << 20
	b := brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t),
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true, MaxStore: 96 * mib},
		Limits:   broker.Limits{RequestsMaxBytes: mib, TasksMaxBytes: size, DeadMaxBytes: mib, RejectedMaxBytes: mib, UsageMaxBytes: mib, OpsMaxBytes: mib},
	})
	bodies, body := broker.NewBodies(b), make([]byte, 2*mib)
	finished(t, newLog(t, b, ""), "video_1")
	submitted := 0
	for i := range 45 {
		if _, err := bodies.Put(t.Context(), "acme", "reply-"+strconv.Itoa(i), body); err != nil {
			t.Fatal(err)
		}
		l := newLog(t, b, "") // without older figures

		left, known := b.StoreRemaining()
		room, err := l.Capacity.Figures(t.Context())
		if err != nil || !known {
			t.Fatal(known, err)
		}
		if above := room.Used + left - room.SubmitLimit(); room.SubmitLimit() > room.Used && above < size/10 {
			t.Fatalf("%d bytes are left on the disk, and %d for the ends: %+v", left, above, room)
		}
		if release, ok := l.Capacity.ReserveSubmission(t.Context(), &genbusv1.VideoTask{}); ok {
			release()
			submitted++
		} else if l.Capacity.Check(t.Context()) == nil {
			t.Errorf("no job is submitted with %d bytes left, and the log says that it has room", left)
		}
	}
	if submitted < 35 || submitted == 45 {
		t.Errorf("submitted with %d of 45 bodies stored", submitted)
	}
}
