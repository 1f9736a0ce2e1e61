package hold_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// heldJob counts the calls of its holder.
type heldJob struct {
	job       *hold.Job
	confirmed atomic.Int32
}

func (j *heldJob) Job() *hold.Job { return j.job }
func (j *heldJob) Extend()        {}
func (j *heldJob) Confirm()       { j.confirmed.Add(1) }
func (j *heldJob) HandOver()      {}

func (j *heldJob) Details() *genbusv1.HeldJob { return &genbusv1.HeldJob{} }

// take holds n jobs whose first event a dead replica had written.
func take(t *testing.T, b *broker.Broker, h *hold.Holder, p *jobtest.Process, n int) (jobs []*heldJob) {
	t.Helper()
	items, err := b.JetStream().CreateConsumer(t.Context(), b.Names().Work(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		item := jobtest.ItemOf(fmt.Sprint("v", i), config.SandboxVideoRoute, "a cat")
		jobtest.PastOf(t, jobtest.Forerunner(t, b), item)
		data, err := proto.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		m := nats.NewMsg(b.Names().WorkItem(subject.Video, item.GetRoute(), "acme", item.GetId()))
		m.Data = data
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		d, err := hold.NewDelivery(b.Conn(), brokertest.Next(t, items))
		if err != nil {
			t.Fatal(err)
		}
		j := &heldJob{job: h.NewJob(item, d, p.Metrics.Route(subject.Video, config.SandboxVideoRoute))}
		if err := j.job.Load(t.Context()); err != nil || !h.Add(j) {
			t.Fatalf("job %d is not held: %v", i, err)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// TestALostNotificationIsFound proves that a check, also after a reconnect, finds lost
// notifications without reading the other jobs, and asks only for news since the last check.
func TestALostNotificationIsFound(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		p := jobtest.NewProcess(t, b, jobtest.Config(t, "http://127.0.0.1:1"))
		p.Start(t) // nothing receives the peer notifications
		h := p.Holder(t)
		jobs := take(t, b, h, p, 5)
		check := func() {
			t.Helper()
			if err := h.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(step string, want ...int32) {
			t.Helper()
			for i, j := range jobs {
				if n := j.confirmed.Load(); n != want[i] {
					t.Errorf("%s: job %d was read %d times, want %d", step, i, n, want[i])
				}
			}
		}
		check()
		expect("nothing happened", 0, 0, 0, 0, 0)
		newest := jobs[4].job.Entry().Seq
		for i, j := range jobs {
			if up := j.job.Record.UpTo(); up < newest {
				t.Errorf("job %d is known up to %d, and the log was checked up to %d", i, up, newest)
			}
		}

		cancel := func(e joblog.Entry) {
			t.Helper()
			end, err := task.Cancelled(e.Job, time.Now(), nil)
			if err == nil {
				_, err = jobtest.Forerunner(t, b).Commit(t.Context(), end, e.Seq)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		cancel(jobs[1].job.Entry())
		check()
		expect("one was cancelled", 0, 1, 0, 0, 0)

		cancel(jobs[3].job.Entry())
		if err := p.Log.Erase(t.Context(), jobs[0].job.Entry()); err != nil {
			t.Fatal(err)
		}
		h.Reclaim(t.Context())
		expect("another one was, and one has no log any more", 1, 2, 0, 1, 0)
	})
}
