package operator

import (
	"testing"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// TestOrphans checks that the jobs of an unconfigured route are listed once no replica serves it,
// and end when an operator confirms this.
func TestOrphans(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		older := newReplica(t, open(t), up, func(c *config.Config) {
			r := config.NewRoute("old", config.KindVideo, config.SandboxUpstream, "old-*")
			r.UpstreamModel, r.MaxInFlight = "sandbox-video", 10
			c.Routes = append(c.Routes, r)
		}).start()
		newer := newReplica(t, open(t), up).start()
		fail := func(sure bool) (*genbusv1.OrphansSettled, error) {
			return newer.FailOrphans(t.Context(), &genbusv1.FailOrphansRequest{Kind: "video", Name: "old", NoReplicaServesIt: sure})
		}
		if _, err := fail(false); errcode.CodeOf(err) != errcode.InvalidRequest {
			t.Errorf("unconfirmed: %v", err)
		}
		await(t, "a pull of the older replica", func() bool {
			_, err := fail(true)
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
		if s, err := fail(true); err != nil || s.GetEnded() != 1 {
			t.Fatalf("settled %v, %v", s, err)
		}
		if end := newer.end(e.Name()); end.Job.GetError().GetCode() != "upstream_removed" {
			t.Errorf("ended %v, %v", end.Job.GetStatus(), end.Job.GetError())
		}
		if list, err := newer.Orphans(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("afterwards: %v, %v", list, err)
		}
	})
}

func TestOrphansOfWhatIsNone(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t)).start()
	for name, row := range map[string]struct {
		m    *genbusv1.FailOrphansRequest
		want errcode.Code
	}{
		"a page token of another list": {&genbusv1.FailOrphansRequest{Kind: "video", Name: "gone", PageToken: "x"}, errcode.InvalidPageToken},
		"a configured route":           {&genbusv1.FailOrphansRequest{Kind: "video", Name: config.SandboxVideoRoute}, errcode.InvalidRequest},
		"no name of a route":           {&genbusv1.FailOrphansRequest{Kind: "video", Name: "a.b"}, errcode.InvalidRequest},
		"no kind":                      {&genbusv1.FailOrphansRequest{Kind: "audio", Name: "gone"}, errcode.InvalidRequest},
	} {
		row.m.NoReplicaServesIt = true
		if _, err := r.FailOrphans(t.Context(), row.m); errcode.CodeOf(err) != row.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
