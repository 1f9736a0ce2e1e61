package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// overview returns an Overview whose only replica has the given state.
func (r *replica) overview(state func() *genbusv1.ReplicaState) *Overview {
	return NewOverview(r.Routes, &deadletter.Counter{Streams: deadletter.Streams{Broker: r.o.Broker}}, fleet.New(fleet.Options{Alone: true, State: state}))
}

// TestOverview checks the route rates and dead letters of an overview.
func TestOverview(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const route = config.SandboxVideoRoute
		b := open(t)
		r := newReplica(t, b, newSandbox(t), func(c *config.Config) {
			for i := range c.Routes {
				c.Routes[i].ReadyJobs = 7
			}
		}).start()
		r.end(r.admit(subject.Video, "done", videoBody).Name())
		r.end(r.admit(subject.Video, "failed", `{"model":"sandbox-video:statuses=in_progress|failed","prompt":"x"}`).Name())
		paused, err := r.Pause(t.Context(), &genbusv1.PauseRouteRequest{Kind: "video", Name: route, Reason: "repair", Duration: durationpb.New(time.Hour)}, "ann")
		if err != nil {
			t.Fatal(err)
		}
		waiting := r.admit(subject.Video, "waits", videoBody)
		letters := deadletter.Store{Broker: b, Bodies: r.o.Bodies, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)}
		for i, code := range []errcode.Code{errcode.SubmissionUnknown, errcode.Poisoned, errcode.SubmissionUnknown} {
			letter := &genbusv1.DeadLetter{Kind: "video", Tenant: "acme", Id: fmt.Sprint("video_", i), Error: &genbusv1.TaskError{Code: string(code)}}
			if err := letters.Put(t.Context(), letter, letter.GetId(), "1"); err != nil {
				t.Fatal(err)
			}
		}
		all := r.overview(func() *genbusv1.ReplicaState { return &genbusv1.ReplicaState{Id: "me"} })
		sum := &genbusv1.RouteMinute{}
		var got *genbusv1.GetOverviewResponse
		r.eventually("the jobs are counted", func() bool {
			var err error
			if got, err = all.Get(t.Context()); err != nil {
				t.Fatal(err)
			}
			sum = &genbusv1.RouteMinute{}
			for _, m := range videoRoute(got).GetMinutes() {
				sum.Accepted, sum.Started, sum.Ended, sum.Failed = sum.GetAccepted()+m.GetAccepted(), sum.GetStarted()+m.GetStarted(), sum.GetEnded()+m.GetEnded(), sum.GetFailed()+m.GetFailed()
			}
			route := videoRoute(got).GetRoute()
			return sum.GetAccepted() == 3 && route.GetWaiting() == 1 && route.GetInHand() == 0 // the ack follows the job's end
		})
		if diff := cmp.Diff(&genbusv1.RouteMinute{Accepted: 3, Started: 2, Ended: 2, Failed: 1}, sum, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		of := videoRoute(got)
		want := &genbusv1.RouteState{
			Kind: "video", Name: route, Paused: true, Pause: paused.GetPause(), Waiting: 1, MaxInFlight: of.GetRoute().GetMaxInFlight(), OldestWaiting: waiting.Job.GetCreatedAt(),
			StartsLastMinute: &of.GetMinutes()[len(of.GetMinutes())-2].Started, ReadyWindow: 7,
		}
		if diff := cmp.Diff(want, of.GetRoute(), protocmp.Transform()); diff != "" || len(of.GetMinutes()) != 60 || of.GetRoute().GetMaxInFlight() == 0 {
			t.Errorf("%d minutes, %s", len(of.GetMinutes()), diff)
		}
		if since := got.GetAsOf().AsTime().Sub(got.GetMinutesFrom().AsTime()); since < 59*time.Minute || since > 61*time.Minute || !got.GetIndexAsOf().IsValid() || got.GetUnfinished() != 1 {
			t.Errorf("the minutes began %s ago; %d jobs", since, got.GetUnfinished())
		}
		if diff := cmp.Diff(&genbusv1.DeadLetterCounts{OutcomeUnknown: 2, Other: 1}, got.GetDeadLetters(), protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		listed, err := r.RouteStates(t.Context())
		if err != nil || len(listed) != len(got.GetRoutes()) || r.routeState(route).StartsLastMinute == nil || r.routeState(route).GetReadyWindow() != 7 {
			t.Errorf("%v, %v", listed, err)
		}
	})
}

func videoRoute(m *genbusv1.GetOverviewResponse) *genbusv1.RouteOverview {
	for _, r := range m.GetRoutes() {
		if r.GetRoute().GetName() == config.SandboxVideoRoute {
			return r
		}
	}
	return nil
}

// TestAnOverviewIsMadeForAll checks that concurrent callers share an overview, even if the first
// caller leaves.
func TestAnOverviewIsMadeForAll(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	for _, c := range r.o.Config.Now().Routes {
		if _, err := r.queue(c).Ensure(t.Context(), c, r.o.Broker.Streams().EnsureConsumer); err != nil {
			t.Fatal(err)
		}
	}
	var made atomic.Int64
	begun, goOn := make(chan struct{}), make(chan struct{})
	all := r.overview(func() *genbusv1.ReplicaState {
		if made.Add(1) == 1 {
			close(begun)
			<-goOn
		}
		return &genbusv1.ReplicaState{Id: "me"}
	})
	answers := make(chan *genbusv1.GetOverviewResponse, 50)
	var calls sync.WaitGroup
	ctx, leave := context.WithCancel(t.Context())
	call := func(ctx context.Context) {
		calls.Go(func() {
			got, err := all.Get(ctx)
			if err != nil {
				t.Error(err)
			}
			answers <- got
		})
	}
	call(ctx)
	<-begun
	leave()
	if _, err := all.Get(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left gets %v", err)
	}
	all.mu.Lock()
	all.latest.began = time.Now().Add(time.Hour) // never outdated
	all.mu.Unlock()
	for range cap(answers) - 2 {
		call(t.Context())
	}
	close(goOn)
	calls.Wait()
	call(t.Context())
	calls.Wait()
	close(answers)
	first := <-answers
	for got := range answers {
		if got != first {
			t.Fatal("a caller got another overview")
		}
	}
	if n := made.Load(); n != 1 {
		t.Errorf("%d were made", n)
	}
}

// TestAnOverviewIsUsedForASecond checks that an overview is reused for a second, even a failed one,
// and rebuilt after Outdate.
func TestAnOverviewIsUsedForASecond(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"made": nil, "failed": errors.New("broken")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := NewOverview(nil, nil, nil)
			began := time.Unix(1_000_000, 0)
			s, first := all.join(began)
			if !first {
				t.Fatal("the first caller does not make it")
			}
			if other, first := all.join(began.Add(time.Minute)); first || other != s {
				t.Error("another one is made meanwhile")
			}
			s.err = err
			close(s.done)
			if other, first := all.join(began.Add(overviewEvery - 1)); first || other != s {
				t.Error("another one is made within a second")
			}
			next, first := all.join(began.Add(overviewEvery))
			if !first || next == s {
				t.Error("none is made after a second")
			}
			all.Outdate() // while one is built, possibly from before the change
			if latest, first := all.join(began.Add(overviewEvery)); !first || latest == next {
				t.Error("none is made after a change")
			}
		})
	}
}

// TestWhatFailsHidesNoOther checks that a failing part of an overview does not hide the others.
func TestWhatFailsHidesNoOther(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	b := r.o.Broker
	for _, c := range r.o.Config.Now().Routes {
		if _, err := r.queue(c).Ensure(t.Context(), c, b.Streams().EnsureConsumer); err != nil {
			t.Fatal(err)
		}
	}
	r.admit(subject.Video, "waits", videoBody)
	all := r.overview(func() *genbusv1.ReplicaState {
		return &genbusv1.ReplicaState{Id: "me", Upstreams: []*genbusv1.UpstreamState{{Name: "u"}}}
	})
	build := func() *genbusv1.GetOverviewResponse {
		t.Helper()
		got, err := all.collect(t.Context())
		if err != nil || got.err != nil {
			t.Fatal(err, got.err)
		}
		return got.overview
	}
	r.eventually("all is read", func() bool {
		got := build()
		return len(got.GetMissing()) == 0 && videoRoute(got).GetRoute().GetWaiting() == 1
	})
	// First the consumer of the ready jobs is missing, then both are.
	durable := subject.WorkDurable(subject.Video, config.SandboxVideoRoute)
	for _, stream := range []string{b.Names().Work(), b.Names().Wait()} {
		if err := b.JetStream().DeleteConsumer(t.Context(), stream, durable); err != nil {
			t.Fatal(err)
		}
		got := build()
		if len(got.GetMissing()) != 0 || len(got.GetRoutes()) != len(r.o.Config.Now().Routes) {
			t.Errorf("without a consumer: %v", got)
		}
		for _, route := range got.GetRoutes() {
			s := route.GetRoute()
			lost := s.GetName() == config.SandboxVideoRoute
			if s.GetIncomplete() != lost || lost != (s.GetMaxInFlight() == 0) || lost && s.GetWaiting() != 1 || s.StartsLastMinute == nil {
				t.Errorf("%v", s)
			}
		}
		if listed, err := r.RouteStates(t.Context()); err != nil || len(listed) != len(got.GetRoutes()) || !r.routeState(config.SandboxVideoRoute).GetIncomplete() {
			t.Errorf("%v, %v", listed, err)
		}
	}
	if err := b.JetStream().DeleteStream(t.Context(), b.Names().Dead()); err != nil {
		t.Fatal(err)
	}
	got := build()
	if !slices.Equal(got.GetMissing(), []string{"dead_letters"}) || got.GetDeadLetters() != nil || videoRoute(got) == nil || got.GetReplicas() != 1 || len(got.GetUpstreams()) != 1 {
		t.Errorf("without the stream of dead letters: %v", got)
	}
	r.Rates = jobindex.New(jobindex.Options{Log: r.o.Log, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(t)}) // never ready
	ended, end := context.WithCancel(t.Context())
	end()
	if got, err := all.collect(ended); err != nil || got.err == nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
}

// TestHealthIsTheWorst checks that an upstream's health combines the worst states of all replicas.
func TestHealthIsTheWorst(t *testing.T) {
	t.Parallel()
	later := timestamppb.New(time.Now().Add(time.Minute))
	replicas := []*genbusv1.ReplicaState{
		{Upstreams: []*genbusv1.UpstreamState{
			{Name: "b", Breaker: genbusv1.UpstreamState_BREAKER_OPEN, Calls: 10, CallsFailed: 5, Keys: []*genbusv1.UpstreamKeyState{{Name: "k1", CooldownUntil: later}, {Name: "k2"}}},
			{Name: "a", Breaker: genbusv1.UpstreamState_BREAKER_CLOSED, Calls: 1, Keys: []*genbusv1.UpstreamKeyState{{}}},
		}},
		{Upstreams: []*genbusv1.UpstreamState{
			{Name: "b", Breaker: genbusv1.UpstreamState_BREAKER_HALF_OPEN, Calls: 3, CallsFailed: 1, PausedUntil: later, Keys: []*genbusv1.UpstreamKeyState{{Name: "k1", PausedUntil: later}, {Name: "k3"}}},
		}},
	}
	want := []*genbusv1.UpstreamHealth{
		{Name: "a", Breaker: genbusv1.UpstreamState_BREAKER_CLOSED, Keys: 1, Calls: 1},
		{Name: "b", Breaker: genbusv1.UpstreamState_BREAKER_OPEN, BreakersNotClosed: 2, Paused: true, Keys: 3, KeysResting: 1, Calls: 13, CallsFailed: 6},
	}
	if diff := cmp.Diff(want, healths(replicas), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkOverview builds an overview of 20 routes, each with a waiting job, and 100 dead letters.
func BenchmarkOverview(b *testing.B) {
	r := newReplica(b, brokertest.Single(b), newSandbox(b), func(c *config.Config) {
		video := slices.IndexFunc(c.Routes, func(r config.Route) bool { return r.Name == config.SandboxVideoRoute })
		for i := len(c.Routes); i < 20; i++ {
			route := c.Routes[video]
			route.Name, route.Models = fmt.Sprint("r", i), []string{fmt.Sprint("m", i)}
			c.Routes = append(c.Routes, route)
		}
	})
	for _, c := range r.o.Config.Now().Routes {
		if _, err := r.queue(c).Ensure(b.Context(), c, r.o.Broker.Streams().EnsureConsumer); err != nil {
			b.Fatal(err)
		}
		if c.Protocol == "primary" {
			r.admit(subject.Video, c.Name, fmt.Sprintf(`{"model":%q,"prompt":"x"}`, c.Models[0]))
		}
	}
	letters := deadletter.Store{Broker: r.o.Broker, Bodies: r.o.Bodies, Metrics: telemetry.NewMetrics("test"), Logger: brokertest.Logger(b)}
	for i := range 100 {
		if err := letters.Put(b.Context(), &genbusv1.DeadLetter{Kind: "video", Tenant: "acme", Error: &genbusv1.TaskError{Code: "poisoned"}}, fmt.Sprint(i), "1"); err != nil {
			b.Fatal(err)
		}
	}
	all := r.overview(func() *genbusv1.ReplicaState { return &genbusv1.ReplicaState{Id: "me"} })
	b.ReportAllocs()
	for b.Loop() {
		if got, err := all.collect(b.Context()); err != nil || len(got.overview.GetRoutes()) != 20 || got.overview.GetDeadLetters().GetOther() != 100 {
			b.Fatal(got, err)
		}
	}
}
