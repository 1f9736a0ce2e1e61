package operator

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// TestOrphans: an older replica serves its route until it stops. Then its jobs are listed,
// and moved or ended by an operator who says that no replica serves it.
func TestOrphans(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"move": false, "fail": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !fails {
				brokertest.Full(t, "waits ten seconds for the dispatcher")
			}
			brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
				up := newSandbox(t)
				older := newReplica(t, open(t), up, func(c *config.Config) {
					r := config.NewRoute("old", config.KindVideo, config.SandboxUpstream, "old-*")
					r.UpstreamModel, r.MaxInFlight = "sandbox-video", 10
					c.Routes = append(c.Routes, r)
				}).start()
				const route = config.SandboxVideoRoute
				newer := newReplica(t, open(t), up, func(c *config.Config) {
					for i := range c.Routes {
						if c.Routes[i].Name == route {
							c.Routes[i].Models, c.Routes[i].UpstreamModel = []string{"*"}, "sandbox-video"
						}
					}
				}).start()
				settle := func(ctx context.Context, sure bool) (*genbusv1.OrphansSettled, error) {
					if fails {
						return newer.FailOrphans(ctx, &genbusv1.FailOrphansRequest{Kind: "video", Name: "old", NoReplicaServesIt: sure})
					}
					return newer.MoveOrphans(ctx, &genbusv1.MoveOrphansRequest{Kind: "video", Name: "old", To: route, NoReplicaServesIt: sure})
				}
				if _, err := settle(t.Context(), false); errcode.CodeOf(err) != errcode.InvalidRequest {
					t.Errorf("unconfirmed: %v", err)
				}
				await(t, "a pull of the older replica", func() bool {
					_, err := settle(t.Context(), true)
					return errcode.CodeOf(err) == errcode.StillHeld
				})
				older.stop()
				e := older.admit(subject.Video, "v", `{"model":"old-one","prompt":"a cat"}`)
				await(t, "the pulls of the older replica to end", func() bool {
					list, err := newer.Orphans(t.Context())
					return err == nil && len(list) == 1 && newer.unserved(t.Context(), subject.Video, "old") == nil
				})
				list, err := newer.Orphans(t.Context())
				if err != nil || list[0].GetKind() != "video" || list[0].GetName() != "old" || list[0].GetReady()+list[0].GetWaiting() != 1 ||
					!proto.Equal(list[0].GetOldest(), e.Job.GetCreatedAt()) {
					t.Errorf("listed %v, %v", list, err)
				}
				s, err := settle(t.Context(), true)
				if err != nil || s.GetMoved()+s.GetEnded() != 1 {
					t.Fatalf("settled %v, %v", s, err)
				}
				end := newer.end(e.Name())
				if status := end.Job.GetStatus(); fails && end.Job.GetError().GetCode() != "upstream_removed" || !fails && status != genbusv1.JobStatus_JOB_STATUS_COMPLETED {
					t.Errorf("ended %v, %v", status, end.Job.GetError())
				}
				if list, err := newer.Orphans(t.Context()); err != nil || len(list) != 0 {
					t.Errorf("afterwards: %v, %v", list, err)
				}
			})
		})
	}
}

func TestOrphansOfWhatIsNone(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t), func(c *config.Config) {
		drains := config.NewRoute("drains", config.KindVideo, config.SandboxUpstream, "drains")
		drains.Draining = true
		c.Routes = append(c.Routes, drains)
	}).start()
	for want, m := range map[errcode.Code]*genbusv1.MoveOrphansRequest{
		errcode.RouteNotFound:    {Kind: "video", Name: "gone", To: "nowhere"},
		errcode.InvalidPageToken: {Kind: "video", Name: "gone", To: config.SandboxVideoRoute, PageToken: "x"},
	} {
		m.NoReplicaServesIt = true
		if _, err := r.MoveOrphans(t.Context(), m); errcode.CodeOf(err) != want {
			t.Errorf("%v: %v", m, err)
		}
	}
	for _, m := range []*genbusv1.MoveOrphansRequest{
		{Kind: "video", Name: config.SandboxVideoRoute, To: config.SandboxVideoRoute},
		{Kind: "video", Name: "a.b", To: config.SandboxVideoRoute},
		{Kind: "video", Name: "gone", To: "drains"},
	} {
		m.NoReplicaServesIt = true
		if _, err := r.MoveOrphans(t.Context(), m); errcode.CodeOf(err) != errcode.InvalidRequest {
			t.Errorf("%v: %v", m, err)
		}
	}
}
