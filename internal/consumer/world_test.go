package consumer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/parts"
	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/internal/subject"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

// newSandbox starts an upstream with short videos.
func newSandbox(t testing.TB) *sandbox.Server {
	t.Helper()
	s, err := sandbox.Start("127.0.0.1:0", sandbox.Options{VideoDuration: 300 * time.Millisecond, ChunkInterval: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// replica is a process of genbus without its servers.
type replica struct {
	*Consumer
	cfg    *config.Config
	log    *joblog.Log
	cancel context.CancelCauseFunc
	stop   func(graceful bool)
}

func newReplica(t testing.TB, b *broker.Broker, cfg *config.Config, change ...func(*parts.Options)) *replica {
	t.Helper()
	r := idleReplica(t, b, cfg, change...)
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// lookUpsOfTests has as many look-ups as the default, with shorter delays.
var lookUpsOfTests = []time.Duration{0, 50 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond}

// idleReplica returns a replica that has not started to take work.
func idleReplica(t testing.TB, b *broker.Broker, cfg *config.Config, change ...func(*parts.Options)) *replica {
	t.Helper()
	p := jobtest.NewProcess(t, b, cfg, change...)
	ctx, cancel := context.WithCancelCause(t.Context())
	c := New(ctx, p.Parts)
	c.counter.every, c.fetchWait = time.Second, 250*time.Millisecond
	c.videos.LookUps = lookUpsOfTests
	endLog, err := p.StartLog(ctx)
	if err != nil {
		t.Fatal(err)
	}
	unshare, err := p.Routes.Share(b.Conn(), b.Names().Upstreams(), p.Log.Writer())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unshare)
	r := &replica{Consumer: c, cfg: cfg, log: p.Log, cancel: cancel}
	r.stop = func() func(bool) {
		var once sync.Once
		return func(graceful bool) {
			once.Do(func() { r.shutDown(t, endLog, graceful) })
		}
	}()
	t.Cleanup(func() { r.stop(true) })
	return r
}

func (r *replica) shutDown(t testing.TB, endLog func(), graceful bool) {
	grace := patience
	if !graceful {
		grace = 0
		r.mute()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), grace)
	defer cancel()
	if err := r.Drain(ctx); err != nil && graceful {
		t.Error(err)
	}
	r.cancel(hold.ErrShutdown)
	endLog()
	r.Routes.Close()
}

// mute makes a replica die without a handover: its further settlements are lost.
func (r *replica) mute() {
	r.holder.Each(func(j hold.Held) {
		if j.Job().Name().Kind != subject.Video { // a chat's call is cut off, and its message returned
			return
		}
		d, err := hold.NewDelivery(r.Broker.Conn(), unsettled{seq: j.Job().Message.Delivery().Seq})
		if err != nil {
			panic(err)
		}
		n := j.Job().Name()
		item := &genbusv1.WorkItem{Id: n.ID, Kind: string(n.Kind), Tenant: n.Tenant}
		r.holder.Add(again{Held: j, job: r.holder.NewJob(item, d, r.Metrics.Route(n.Kind, "muted"))})
	})
}

// again is the redelivery of a held job.
type again struct {
	hold.Held
	job *hold.Job
}

func (a again) Job() *hold.Job { return a.job }

// unsettled is a delivery whose settlement is lost.
type unsettled struct {
	jetstream.Msg
	seq uint64
}

func (u unsettled) Reply() string        { return "nobody.listens" }
func (u unsettled) Subject() string      { return "" }
func (u unsettled) Headers() nats.Header { return nil }
func (u unsettled) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{NumDelivered: 2, Sequence: jetstream.SequencePair{Stream: u.seq}}, nil
}

func chatRequest(requestID, model string, stream bool) *genbusv1.ChatRequest {
	return &genbusv1.ChatRequest{RequestId: requestID, Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{
		Model: model, Stream: &stream,
		Messages: []*genbusv1.ChatMessage{{Role: "user", Content: &genbusv1.ChatMessage_Text{Text: "tell me of the sea"}}},
	}}}
}

// doneOnce checks that the feed has the job once, with the ce-id of its terminal event, and that
// its work item is gone.
func doneOnce(t testing.TB, b *broker.Broker, end joblog.Entry) {
	t.Helper()
	n := end.Name()
	status := strings.ToLower(strings.TrimPrefix(end.Job.GetStatus().String(), "JOB_STATUS_"))
	subj := b.Names().Done(n.Kind, n.Tenant, status, n.ID)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var first broker.Stored
	for {
		var err error
		if first, err = b.Next(ctx, b.Names().Tasks(), subj, 1); err == nil {
			break
		}
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("%s is not in the feed: %v", n.ID, err)
		}
	}
	if got := first.Header.Get(subject.HeaderCEID); got != end.ID() {
		t.Errorf("the feed has ce-id %s, the log %s", got, end.ID())
	}
	if _, err := b.Next(ctx, b.Names().Tasks(), subj, first.Seq+1); !errors.Is(err, broker.ErrNoMessage) {
		t.Errorf("%s stands twice in the feed: %v", n.ID, err)
	}
	for {
		_, err := b.Last(ctx, b.Names().Work(), b.Names().WorkAnyRoute(n.Kind, n.Tenant, n.ID))
		if errors.Is(err, broker.ErrNoMessage) {
			return
		}
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("the work item of %s was not acknowledged", n.ID)
		}
	}
}
