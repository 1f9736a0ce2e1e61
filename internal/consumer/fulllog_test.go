package consumer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// fillLog adds foreign ends to the feed until the log has used a share of its bytes. With a share
// of 1 it stops when the log is full.
func fillLog(t testing.TB, b *broker.Broker, share float64) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.Names().Tasks())
	if err != nil {
		t.Fatal(err)
	}
	size := 16 << 10
	for i := 0; ; i++ {
		info, err := s.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if share < 1 && float64(info.State.Bytes) >= share*float64(info.Config.MaxBytes) {
			return
		}
		_, err = b.JetStream().Publish(t.Context(), b.Names().Done(subject.Video, "foreign", "completed", fmt.Sprintf("f%d-%d", size, i)), make([]byte, size))
		var refused *jetstream.APIError
		switch {
		case err == nil:
		case !errors.As(err, &refused):
			t.Fatal(err)
		case size == 1:
			return
		default:
			size /= 4
		}
	}
}

// TestFullLog proves that a nearly full log refuses new jobs and completes accepted ones, and that
// a full log delays every end until it has capacity again.
func TestFullLog(t *testing.T) {
	t.Parallel()
	for name, share := range map[string]float64{"nearly full": 0.93, "full to the last byte": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			brokertest.EachLimited(t, broker.Limits{TasksMaxBytes: 2 << 20}, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				testFullLog(t, open(t), share)
			})
		})
	}
}

func testFullLog(t *testing.T, b *broker.Broker, share float64) {
	up := newSlowUpstream(t)
	r := newReplica(t, b, testConfig(t, up.url))
	const videos = 10
	ids := inFlight(t, b, r.log, up, videos)
	fillLog(t, b, share)
	ask := func(request string) error {
		_, err := r.Admission.Admit(t.Context(), admission.Request{
			Kind: subject.Video, Tenant: "acme", RequestID: request, Body: body.Parse([]byte(`{"model":"sandbox-video","prompt":"a dog"}`)),
		})
		return err
	}
	// The share is read at most once a second. Until then, accepted requests would use up the log.
	shortly(t, "the log is seen to be full", func() bool {
		room, err := r.log.Capacity.Figures(t.Context())
		return err == nil && room.Used > room.AdmitLimit()
	})
	if f := errcode.From(ask("later")); f.Code != errcode.StorageFull || f.RetryAfter == 0 {
		t.Errorf("refused with %v, retry after %s", f, f.RetryAfter)
	}
	close(up.done)
	if share == 1 {
		shortly(t, "the ends are tried", func() bool {
			return up.number(func() int { return up.reads }) > videos && heldJobs(r.holder) >= videos+1
		})
		emptyLog(t, b)
	}
	allCompleted(t, b, r.log, ids)
	emptyLog(t, b)
	shortly(t, "admission is open again", func() bool { return ask("last") == nil })
	allCompleted(t, b, r.log, []string{videoID("last")})
	for _, id := range ids[:videos] {
		if n := up.number(func() int { return up.creates[id] }); n != 1 {
			t.Errorf("%s was created %d times", id, n)
		}
	}
}

// TestSubmissionsWaitForCapacity proves that accepted jobs are not submitted without log capacity
// for their ends: they can still expire, and later go to the first upstream.
func TestSubmissionsWaitForCapacity(t *testing.T) {
	t.Parallel()
	b, m := brokertest.SingleLimited(t, broker.Limits{TasksMaxBytes: 2 << 20}), telemetry.NewMetrics("test")
	url, creates := longReplies(t, 100)
	r := idleReplica(t, b, testConfig(t, url, withSecond(url)), func(o *parts.Options) { o.Metrics = m })
	admit := func(request admission.Request) subject.JobName {
		request.Tenant, request.Body = "acme", body.Parse([]byte(`{"model":"sandbox-video","prompt":"a dog"}`))
		if request.Kind == subject.Chat {
			request.Body = body.Parse([]byte(`{"model":"sandbox-chat","messages":[{"role":"user","content":"hi"}]}`))
		}
		e, err := r.Admission.Admit(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return e.Name()
	}
	late := admit(admission.Request{Kind: subject.Video, ExpiresAt: time.Now().Add(5 * time.Second)})
	waiting := []subject.JobName{admit(admission.Request{Kind: subject.Video}), admit(admission.Request{Kind: subject.Chat})}
	fillLog(t, b, 0.9)
	shortly(t, "the log is seen to be full", func() bool { return r.log.Capacity.Check(t.Context()) != nil })
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := last(follow(t, r.log, late.ID))
	if end.Job.GetError().GetCode() != string(errcode.Expired) {
		t.Errorf("%s ended with %v", late.ID, end.Job.GetError())
	}
	doneOnce(t, b, end)
	shortly(t, "submissions are held", func() bool {
		videos, _ := value(t, m, "genbus_submissions_held_total", map[string]string{"kind": "video"})
		chats, _ := value(t, m, "genbus_submissions_held_total", map[string]string{"kind": "chat"})
		return videos > 0 && chats > 0
	})
	if n := len(creates()); n != 0 {
		t.Errorf("%d creates without room", n)
	}
	for _, n := range waiting {
		if e, err := r.log.Get(t.Context(), n); err != nil || e.Version() != 1 {
			t.Errorf("%s has %d events, %v", n.ID, e.Version(), err)
		}
	}
	emptyLog(t, b)
	allEnded(t, b, r.log, waiting)
	for _, n := range waiting {
		if e, err := r.log.Get(t.Context(), n); err != nil || e.Job.GetExecution().GetUpstream() != config.SandboxUpstream {
			t.Errorf("%s went to %v, %v", n.ID, e.Job.GetExecution(), err)
		}
	}
}

// TestRefusalNeedsNoCapacity proves that a refused request with a request ID leaves the inbox with
// one dead letter while the log is full.
func TestRefusalNeedsNoCapacity(t *testing.T) {
	t.Parallel()
	b := brokertest.SingleLimited(t, broker.Limits{TasksMaxBytes: 2 << 20})
	r := idleReplica(t, b, testConfig(t, "http://127.0.0.1:1"))
	in := r.intake(subject.Video)
	fillLog(t, b, 1)
	shortly(t, "the log is seen to be full", func() bool { return r.log.Capacity.Check(t.Context()) != nil })
	id := publish(t, b, subject.Video, "bad", videoRequest("bad", "", "a cat"))
	cons, err := b.JetStream().CreateConsumer(t.Context(), b.Names().Requests(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	if _, out := in.Admit(t.Context(), brokertest.Next(t, cons)); out != nil {
		t.Errorf("settled with %v", out)
	}
	if n := messages(t, b, b.Names().Rejected()); n != 1 {
		t.Errorf("%d dead letters", n)
	}
	if e, err := r.log.Get(t.Context(), subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}); !errors.Is(err, joblog.ErrNotFound) {
		t.Errorf("the log has %v, %v", e.Job, err)
	}
}

// emptyLog removes the messages of fillLog.
func emptyLog(t testing.TB, b *broker.Broker) {
	t.Helper()
	purge(t, b, b.Names().Tasks(), b.Names().Done(subject.Video, "foreign", "*", "*"))
}

// TestAnObjectStoreThatRefuses proves that a video completes without the long parts of its result
// if its copy failed for good and neither log nor object store has capacity. URLs too long for any
// event are never stored.
func TestAnObjectStoreThatRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		store func(*jetstream.StreamConfig)
		left  time.Duration // of the time for the copy
		files int
	}{
		"as it is full":          {func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 10 }, time.Hour, 0},
		"until the time is over": {func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 << 10 }, 5 * time.Second, 0},
		"nothing":                {func(*jetstream.StreamConfig) {}, time.Hour, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testStoreRefuses(t, c.store, c.left, c.files)
		})
	}
}

func testStoreRefuses(t *testing.T, store func(*jetstream.StreamConfig), left time.Duration, files int) {
	b := brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Limits: broker.Limits{TasksMaxBytes: 2 << 20},
		Embedded: broker.Embedded{DataDir: t.TempDir(), NoSync: true},
	})
	var reads atomic.Int64
	long := "/file/v?" + strings.Repeat("x", 2*joblog.SpareReply)
	url := scripted(t, map[string]http.HandlerFunc{
		pollPath: func(w http.ResponseWriter, r *http.Request) {
			respond(`{"status":"completed","videos":[{"url":"http://%s/file/v"},{"url":"http://%s%s"},{"url":"data:video/mp4,%s"}],"metadata":{"long":%q}}`,
				r.Host, r.Host, long, strings.Repeat("x", 2*(64<<10)), strings.Repeat("x", 2<<10))(w, r)
		},
		filePath: func(w http.ResponseWriter, _ *http.Request) {
			reads.Add(1)
			_, _ = w.Write(make([]byte, 2<<10))
		},
	})
	r := idleReplica(t, b, testConfig(t, url, func(c *config.Config) { c.Limits.ArchiveBytes = 1 << 10 }))
	bucket := b.Names().Bodies("acme")
	if _, err := r.Bodies.Put(t.Context(), "acme", "first", nil); err != nil {
		t.Fatal(err)
	}
	s, err := b.JetStream().Stream(t.Context(), "OBJ_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	store(&cfg)
	if _, err := b.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	fillLog(t, b, 0.9)
	shortly(t, "the log is seen to be full", func() bool { return r.log.Capacity.Check(t.Context()) != nil })
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Only now, because startup would use up the time left.
	inherit(t, r, "v", completedUpstream(left)...)
	end := last(follow(t, r.log, videoID("v")))
	v := videoOf(end)
	if v.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED || len(v.GetVideos()) != 3 || v.GetVideos()[0].GetUrl() == "" || v.GetArchive().GetError().GetCode() != string(errcode.ArchiveFailed) {
		t.Errorf("ended %v", v)
	}
	if reads.Load() != 1 {
		t.Errorf("the file was read %d times", reads.Load())
	}
	stored := v.GetArchive().GetFiles()
	if len(stored) != files || files > 0 && stored[files-1].GetSize() != uint64(len(url+long+"\n")) {
		t.Errorf("stored files: %v", stored)
	}
	doneOnce(t, b, end)
}
