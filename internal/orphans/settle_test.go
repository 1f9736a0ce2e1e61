package orphans

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// TestOrphanThatGoesOnIsNotEnded: between the look at the log and the end, its holder
// was alive after all and has the upstream's answer.
func TestOrphanThatGoesOnIsNotEnded(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		p := jobtest.NewProcess(t, b, jobtest.Config(t, "http://127.0.0.1:1"), telemetry.NewMetrics("test"))
		item := jobtest.ItemOf("v", "gone", "cat")
		queued := jobtest.PastOf(t, p.Log, item)
		known := queued
		for _, step := range []jobtest.Transition{
			func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
				return task.Submitting(v, now, task.Submission{Upstream: config.SandboxUpstream, Until: now.Add(time.Minute), Deadline: now.Add(time.Hour)})
			},
			func(v *genbusv1.VideoTask, now time.Time) (task.Event, error) {
				return task.Submitted(v, now, task.Receipt{UpstreamID: "paid", Status: "queued"})
			},
		} {
			e, err := step(jobtest.VideoOf(known), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if known, err = p.Log.Commit(t.Context(), e, known.Seq); err != nil {
				t.Fatal(err)
			}
		}
		s := &settlement{
			parts: Settler{Log: p.Log, Queue: p.Queue, Routes: p.Routes, Logger: p.Logger}, from: "gone", out: &genbusv1.OrphansSettled{},
		}
		if err := s.endJob(t.Context(), item, queued); !errors.Is(err, errMovedOn) {
			t.Errorf("ended: %v", err)
		}
		if e, err := p.Log.Get(t.Context(), joblog.NameOf(item)); err != nil || e.Seq != known.Seq {
			t.Errorf("the log has %v, %v", e.Job, err)
		}
	})
}

// TestTwoCopiesDoNotBothGiveWay: a replica that has both routes drops the copy on the one that an
// operator moves to, as the log names the other one, at the moment when that one is removed for it. The
// operator's call ends then.
func TestTwoCopiesDoNotBothGiveWay(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		p := jobtest.NewProcess(t, open(t), jobtest.Config(t, "http://127.0.0.1:1"), telemetry.NewMetrics("test"))
		item := jobtest.ItemOf("v", "gone", "cat")
		e := jobtest.PastOf(t, p.Log, item)
		put := func(route string) {
			m := nats.NewMsg(p.Broker.Names().WorkItem(subject.Video, route, item.GetTenant(), item.GetId()))
			copied := proto.CloneOf(item)
			copied.Route = route
			var err error
			if m.Data, err = proto.Marshal(copied); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Broker.Publish(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		put("gone")
		put(config.SandboxVideoRoute)
		on := func() (routes []string) {
			all, err := p.Queue.Items.All(t.Context(), e.Name())
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range all {
				n, err := p.Queue.Items.NameOf(i)
				if err != nil {
					t.Fatal(err)
				}
				routes = append(routes, n.Route)
			}
			return routes
		}
		to, ok := p.Config.Now().RouteNamed(config.KindVideo, config.SandboxVideoRoute)
		if !ok {
			t.Fatal("there is no route")
		}
		settled := make(chan error, 1)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		s := Settler{Log: p.Log, Queue: p.Queue, Letters: p.Letters, Routes: p.Routes, Logger: p.Logger}
		var out *genbusv1.OrphansSettled
		go func() {
			var err error
			out, err = s.Settle(ctx, subject.Video, "gone", &to, "")
			settled <- err
		}()
		jobtest.Shortly(t, "the orphan is removed", func() bool { return slices.Equal(on(), []string{config.SandboxVideoRoute}) })
		all, err := p.Queue.Items.All(t.Context(), e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Queue.Items.Remove(t.Context(), all[0]); err != nil {
			t.Fatal(err)
		}
		leave()
		if err := <-settled; err != nil {
			t.Fatal(err)
		}
		if got := on(); !slices.Equal(got, []string{config.SandboxVideoRoute}) || out.GetMoved() != 1 || out.GetRemoved() != 1 {
			t.Errorf("its items are on %v, %v", got, out)
		}
	})
}
