package consumer

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
)

// TestJobsThatAnOldReplicaAcceptsLater: the new replica has started, and found
// nothing. Then an old one accepts jobs, in line and behind it, and goes.
func TestJobsThatAnOldReplicaAcceptsLater(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				b, up := open(t), newSandbox(t)
				old := testConfig(t, up.URL(), videoRoutes(func(r *config.Route) { r.ReadyJobs = 2 }))
				newReplica(t, b, old).stop(true) // its consumers are there
				newer := newReplica(t, b, testConfig(t, up.URL(), removes(mode)))
				older := idleReplica(t, b, old)
				var ids []string
				for i := range 5 {
					e, err := older.Admission.Admit(t.Context(), admission.Request{
						Kind: subject.Video, Tenant: "acme", RequestID: fmt.Sprint(i), Body: fmt.Appendf(nil, `{"model":"sandbox-video","prompt":"%d"}`, i),
					})
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, e.Job.GetId())
				}
				if line, behind := items(t, b, b.Names().Work(), b.Names().WorkPattern()), items(t, b, b.Names().Wait(), b.Names().WaitPattern()); line != 2 || behind != 3 {
					t.Fatalf("%d jobs in line and %d behind it", line, behind)
				}
				for _, id := range ids {
					end := last(follow(t, newer.log, id))
					completed := end.Job.GetStatus() == genbusv1.JobStatus_JOB_STATUS_COMPLETED
					if moved := mode == config.OrphansReroute; completed != moved || !moved && end.Job.GetError().GetCode() != "upstream_removed" {
						t.Errorf("%s ended %v with %v", id, end.Job.GetStatus(), end.Job.GetError())
					}
					doneOnce(t, b, end)
					newer.noItems(t, end.Name())
				}
				if n := up.Sandbox.Stats().MaxAcceptsPerKey; n > 1 {
					t.Errorf("a job was accepted %d times", n)
				}
			})
		})
	}
}

// TestOrphansAreFoundAmongVeryMany: more jobs wait than are read at a time. Nothing is
// read twice, unless the stream was made anew.
func TestOrphansAreFoundAmongVeryMany(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSandbox(t)
	r := idleReplica(t, b, testConfig(t, up.URL()))
	finder, names := newOrphanFinder(r.Consumer, r.Routes.Has), b.Names()
	put := func(from, to int, route string) {
		t.Helper()
		for i := from; i < to; i++ {
			m := nats.NewMsg(names.WaitItem(subject.Video, route, "acme", videoID(fmt.Sprint(i))))
			if _, err := b.JetStream().PublishMsgAsync(m); err != nil {
				t.Fatal(err)
			}
		}
		<-b.JetStream().PublishAsyncComplete()
	}
	seen := func(want map[routeID]int) {
		t.Helper()
		if err := finder.look(t.Context()); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(finder.jobs) != fmt.Sprint(want) {
			t.Errorf("found %v, want %v", finder.jobs, want)
		}
	}
	gone, other := routeID{subject.Video, "gone"}, routeID{subject.Video, "other"}
	put(0, 2*waitingBatch, config.SandboxVideoRoute)
	put(2*waitingBatch, 2*waitingBatch+100, "gone")
	seen(map[routeID]int{gone: 100})
	put(3*waitingBatch, 3*waitingBatch+1, "other")
	seen(map[routeID]int{gone: 100, other: 1})
	seen(map[routeID]int{gone: 100, other: 1})
	if err := b.JetStream().DeleteStream(t.Context(), names.Wait()); err != nil {
		t.Fatal(err)
	}
	if err := b.EnsureStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(0, 1, "other")
	seen(map[routeID]int{gone: 100, other: 2})
}

// TestOrphansOfARouteThatAReloadRemoves: their items were looked at before that.
func TestOrphansOfARouteThatAReloadRemoves(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, "http://127.0.0.1:1"))
	waitItem(t, b, "removed", videoID("v"), 0)
	removed := false
	finder := newOrphanFinder(r.Consumer, func(_ subject.Kind, name string) bool { return !removed || name != "removed" })
	if err := finder.look(t.Context()); err != nil || len(finder.jobs) != 0 {
		t.Fatalf("found %v, %v", finder, err)
	}
	plan, err := r.Prepare(t.Context(), testConfig(t, "http://127.0.0.1:1", removes(config.OrphansFail)))
	if err != nil {
		t.Fatal(err)
	}
	plan.next = r.cfg // nothing of this process adopts them
	plan.Apply(t.Context(), func() { removed = true })
	if err := finder.look(t.Context()); err != nil || finder.jobs[routeID{subject.Video, "removed"}] != 1 {
		t.Errorf("found %v, %v", finder, err)
	}
}

// TestAdoptionIsRepeated: the jobs cannot be moved as long as there is no room for
// them. They are when there is.
func TestAdoptionIsRepeated(t *testing.T) {
	t.Parallel()
	b, up := brokertest.Single(t), newSandbox(t)
	ids := []string{videoID("in line"), videoID("behind it")}
	storeItem(t, b, "gone", ids[0], 0)
	waitItem(t, b, "gone", ids[1], 0)
	stream, err := b.JetStream().Stream(t.Context(), b.Names().Wait())
	if err != nil {
		t.Fatal(err)
	}
	room := func(n int64) {
		t.Helper()
		c := stream.CachedInfo().Config
		c.MaxMsgs = n
		if _, err := b.JetStream().UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	room(1)
	tried := make(chan *nats.Msg, 100) // a plain subscriber sees what the stream refuses, too
	sub, err := b.Conn().ChanSubscribe(b.Names().WaitItem(subject.Video, config.SandboxVideoRoute, "acme", ids[0]), tried)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	r := newReplica(t, b, testConfig(t, up.URL(), func(c *config.Config) { c.Orphans = config.OrphansReroute }))
	for range 2 {
		<-tried
	}
	room(-1)
	for _, id := range ids {
		end := last(follow(t, r.log, id))
		if end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("ended %v", end.Job.GetError())
		}
		doneOnce(t, b, end)
		r.noItems(t, subject.TaskName{Kind: subject.Video, Tenant: "acme", ID: id})
	}
}
