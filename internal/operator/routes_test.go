package operator

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

func (r *replica) routeState(name string) *genbusv1.RouteState {
	r.t.Helper()
	states, err := r.RouteStates(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for i, s := range states {
		if i > 0 && states[i-1].GetKind()+states[i-1].GetName() >= s.GetKind()+s.GetName() {
			r.t.Errorf("%s %s is out of order", s.GetKind(), s.GetName())
		}
		if s.GetName() == name {
			return s
		}
	}
	r.t.Fatalf("no route %s", name)
	return nil
}

// TestPause checks that held jobs continue and waiting jobs wait on all replicas, through restarts,
// until the route is resumed.
func TestPause(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const route = config.SandboxVideoRoute
		up := newSandbox(t)
		one, two := newReplica(t, open(t), up).start(), newReplica(t, open(t), up).start()
		running := one.admit(subject.Video, "running", `{"model":"sandbox-video:duration_ms=1500","prompt":"a cat"}`)
		one.until(running.Name(), genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
		for range 2 {
			if s, err := two.Pause(t.Context(), &genbusv1.PauseRouteRequest{Kind: "video", Name: route, Reason: "repair"}, "ann"); err != nil || !s.GetPaused() {
				t.Fatalf("%v, %v", s, err)
			}
		}
		creates := up.Sandbox.Stats().Creates
		var waiting []joblog.Entry
		for _, id := range []string{"a", "b", "c"} {
			waiting = append(waiting, one.admit(subject.Video, id, videoBody))
		}
		if end := one.end(running.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("what was in hand ended %v", end.Job.GetError())
		}
		one.stop()
		two.stop()
		// Starting replicas update the consumers, concurrently.
		three, four := newReplica(t, open(t), up).start(), newReplica(t, open(t), up).start()
		await(t, "the route's count", func() bool { return three.routeState(route).GetWaiting() == 3 })
		s := three.routeState(route)
		if !s.GetPaused() || s.GetInHand() != 0 || s.GetMaxInFlight() == 0 || !s.GetOldestWaiting().AsTime().Equal(waiting[0].Job.GetCreatedAt().AsTime()) {
			t.Errorf("the paused route is %v; the oldest was accepted %v", s, waiting[0].Job.GetCreatedAt().AsTime())
		}
		if p := s.GetPause(); p.GetReason() != "repair" || p.GetBy() != "ann" || !p.GetSince().IsValid() || p.GetUntil() != nil {
			t.Errorf("a later replica has the pause as %v", p)
		}
		if other := three.routeState(config.SandboxChatRoute); other.GetPaused() {
			t.Errorf("another route is %v", other)
		}
		chat := four.admit(subject.Chat, "chat", `{"model":"sandbox-chat","messages":[{"role":"user","content":"hello"}]}`)
		four.end(chat.Name())
		if n := up.Sandbox.Stats().Creates; n != creates {
			t.Fatalf("%d creates while the route is paused", n-creates)
		}
		if s, err := four.Resume(t.Context(), "video", route); err != nil || s.GetPaused() {
			t.Fatalf("%v, %v", s, err)
		}
		for _, e := range waiting {
			if end := three.end(e.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
				t.Errorf("ended %v", end.Job.GetError())
			}
		}
		if n := up.Sandbox.Stats().Creates; n != creates+3 {
			t.Errorf("%d creates of three jobs", n-creates)
		}
		await(t, "an empty route", func() bool {
			s := three.routeState(route)
			return s.GetWaiting() == 0 && s.GetInHand() == 0 && s.GetOldestWaiting() == nil
		})
	})
}

// TestAPauseEnds checks that waiting jobs run by themselves after the end of a pause, on a replica
// that started during it, and not before.
func TestAPauseEnds(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		const route = config.SandboxVideoRoute
		up := newSandbox(t)
		one := newReplica(t, open(t), up).start()
		s, err := one.Pause(t.Context(), &genbusv1.PauseRouteRequest{Kind: "video", Name: route, Duration: durationpb.New(3 * time.Second)}, "ann")
		if err != nil {
			t.Fatal(err)
		}
		waiting := one.admit(subject.Video, "waits", videoBody)
		one.stop()
		two := newReplica(t, open(t), up).start()
		if end := two.end(waiting.Name()); end.Job.GetStatus() != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
			t.Errorf("ended %v", end.Job.GetError())
		}
		until := s.GetPause().GetUntil().AsTime()
		for _, e := range two.history(waiting.Name()) {
			if e.Job.GetExecution().GetPhase() != genbusv1.JobPhase_JOB_PHASE_QUEUED && e.Time.Before(until) {
				t.Errorf("%v at %s, before the end of the pause at %s", e.Job.GetExecution().GetPhase(), e.Time, until)
			}
		}
		if s := two.routeState(route); s.GetPaused() || s.GetPause() != nil {
			t.Errorf("after the end: %v", s)
		}
		// Metadata of the earlier pause must not describe that of another tool.
		if _, err := two.o.Broker.JetStream().PauseConsumer(t.Context(), two.o.Broker.Names().Work(), subject.WorkDurable(subject.Video, route), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		await(t, "the pause of another tool", func() bool { return two.routeState(route).GetPaused() })
		if p := two.routeState(route).GetPause(); p.GetBy() != "" || p.GetSince() != nil || !p.GetUntil().IsValid() {
			t.Errorf("paused with another tool: %v", p)
		}
	})
}

// TestInvalidPauses checks the limits of a reason and a duration.
func TestInvalidPauses(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t)).start()
	for _, row := range []struct {
		reason   string
		duration *durationpb.Duration
		field    string
	}{
		{strings.Repeat("ä", 201), nil, "reason"}, {"two\nlines", nil, "reason"}, {"", durationpb.New(0), "duration"},
		{"", durationpb.New(-time.Hour), "duration"}, {"", durationpb.New(30*24*time.Hour + 1), "duration"},
	} {
		_, err := r.Pause(t.Context(), &genbusv1.PauseRouteRequest{Kind: "video", Name: config.SandboxVideoRoute, Reason: row.reason, Duration: row.duration}, "ann")
		if f := errcode.From(err); f.Code != errcode.InvalidRequest || len(f.Violations) != 1 || f.Violations[0].Field != row.field {
			t.Errorf("%v: %v", row, err)
		}
	}
	longest := &genbusv1.PauseRouteRequest{Kind: "video", Name: config.SandboxVideoRoute, Reason: strings.Repeat("ä", 200), Duration: durationpb.New(30 * 24 * time.Hour)}
	if s, err := r.Pause(t.Context(), longest, "ann"); err != nil || s.GetPause().GetReason() != longest.GetReason() {
		t.Errorf("%v, %v", s, err)
	}
}

func TestPauseOfNoRoute(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t)).start()
	for _, row := range [][2]string{{"video", "gone"}, {"audio", config.SandboxVideoRoute}, {"chat", config.SandboxVideoRoute}} {
		if _, err := r.Pause(t.Context(), &genbusv1.PauseRouteRequest{Kind: row[0], Name: row[1]}, "ann"); errcode.CodeOf(err) != errcode.RouteNotFound {
			t.Errorf("%v: %v", row, err)
		}
		if _, err := r.Resume(t.Context(), row[0], row[1]); errcode.CodeOf(err) != errcode.RouteNotFound {
			t.Errorf("%v: %v", row, err)
		}
	}
}
