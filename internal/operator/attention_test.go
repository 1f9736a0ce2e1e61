package operator

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
)

// attentions returns the entries by reason. It fails if there are two with the same reason.
func (r *replica) attentions() (found map[genbusv1.Attention_Reason]*genbusv1.Attention, missing []string) {
	r.t.Helper()
	got, err := r.attention.List(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	found = map[genbusv1.Attention_Reason]*genbusv1.Attention{}
	for _, a := range got.GetEntries() {
		if found[a.GetReason()] != nil {
			r.t.Errorf("twice: %v", a)
		}
		found[a.GetReason()] = a
	}
	return found, got.GetMissing()
}

// TestAttention checks the entries of a paused route, a tenant at its limit, unknown outcomes and
// an unconfigured route, and that they end.
func TestAttention(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		up := newSandbox(t)
		older := newReplica(t, open(t), up, func(c *config.Config) {
			r := config.NewRoute("old", config.KindVideo, config.SandboxUpstream, "old-*")
			r.UpstreamModel = "sandbox-video"
			c.Routes = append(c.Routes, r)
		}).start()
		r := newReplica(t, open(t), up, func(c *config.Config) { c.Limits.Tenant.MaxJobs = 2 }).start()
		await(t, "the list to be whole", func() bool {
			found, missing := r.attentions()
			if len(found) > 0 {
				t.Errorf("of an idle service: %v", found)
			}
			return len(missing) == 0
		})
		letter := r.unknownDeadLetter(up, "lost", videoBody)
		if _, err := r.Pause(t.Context(), &genbusv1.PauseRouteRequest{Kind: "video", Name: config.SandboxVideoRoute, Reason: "repair"}, "ann"); err != nil {
			t.Fatal(err)
		}
		r.attention.overview.Outdate()
		r.admit(subject.Video, "waits", videoBody)
		served := older.admit(subject.Video, "old", `{"model":"old-one:statuses=queued","prompt":"x"}`)
		older.until(served.Name(), genbusv1.JobPhase_JOB_PHASE_SUBMITTED)
		if list, err := r.Orphans(t.Context()); err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		await(t, "the list to leave out a route that another replica serves", func() bool {
			found, _ := r.attentions()
			return found[genbusv1.Attention_REASON_ROUTE_UNCONFIGURED] == nil
		})
		older.stop()
		r.attention.rare.Outdate()
		want := map[genbusv1.Attention_Reason]string{
			genbusv1.Attention_REASON_DEAD_LETTERS:       "1 failed job waits for a decision. The outcome of 1 is unknown",
			genbusv1.Attention_REASON_ROUTE_PAUSED:       "1 job waits. Paused by ann: repair.",
			genbusv1.Attention_REASON_ROUTE_UNCONFIGURED: "1 job waits, the oldest since ",
			genbusv1.Attention_REASON_TENANT_AT_LIMIT:    "It has 2 unfinished jobs of at most 2 (max_jobs)",
		}
		var found map[genbusv1.Attention_Reason]*genbusv1.Attention
		await(t, "the entries", func() bool {
			var missing []string
			found, missing = r.attentions()
			if len(found) != len(want) || len(missing) > 0 {
				r.attention.rare.Outdate()
				return false
			}
			for reason, affects := range want {
				if !strings.HasPrefix(found[reason].GetAffects(), affects) {
					return false
				}
			}
			return true
		})
		if since := found[genbusv1.Attention_REASON_DEAD_LETTERS].GetSince(); since.AsTime().Sub(letter.GetLetter().GetTime().AsTime()).Abs() > patience {
			t.Errorf("the dead letter of %v is there since %v", letter.GetLetter().GetTime(), since)
		}
		if a := found[genbusv1.Attention_REASON_ROUTE_PAUSED]; !proto.Equal(a.GetSince(), r.routeState(config.SandboxVideoRoute).GetPause().GetSince()) {
			t.Errorf("the pause began %v", a.GetSince())
		}
		if err := r.Drop(t.Context(), letter.GetSequence()); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Resume(t.Context(), "video", config.SandboxVideoRoute); err != nil {
			t.Fatal(err)
		}
		if s, err := r.FailOrphans(t.Context(), &genbusv1.FailOrphansRequest{Kind: "video", Name: "old", NoReplicaServesIt: true}); err != nil || s.GetEnded() != 1 {
			t.Fatal(s, err)
		}
		if found, _ := r.attentions(); found[genbusv1.Attention_REASON_ROUTE_UNCONFIGURED] != nil {
			t.Errorf("listed after its jobs ended: %v", found)
		}
		if letters := r.deadLetters(Query{}); len(letters) != 1 {
			t.Fatal(letters)
		} else if err := r.Drop(t.Context(), letters[0].GetSequence()); err != nil {
			t.Fatal(err)
		}
		await(t, "the entries to end", func() bool {
			r.attention.rare.Outdate()
			found, missing := r.attentions()
			return len(found)+len(missing) == 0
		})
	})
}

// TestAttentionWithoutABroker checks that a list without any entry fails if nothing can be read.
func TestAttentionWithoutABroker(t *testing.T) {
	t.Parallel()
	r := newReplica(t, brokertest.Single(t), newSandbox(t))
	ended, end := context.WithCancel(t.Context())
	end()
	f, err := r.attention.overview.collect(ended)
	if err != nil || f.err == nil {
		t.Fatalf("%v, %v", f, err)
	}
	r.attention.overview.build = func(context.Context) (*facts, error) { return f, nil }
	if got, err := r.attention.List(t.Context()); err == nil {
		t.Errorf("%v", got)
	}
	f.replicas[0].FailedChecks = []*genbusv1.FailedCheck{{Check: "jetstream", Reason: "not connected to NATS"}}
	r.attention.overview.Outdate()
	if got, err := r.attention.List(t.Context()); err != nil || len(got.GetEntries()) != 1 || got.GetEntries()[0].GetReason() != genbusv1.Attention_REASON_NOT_READY {
		t.Errorf("%v, %v", got, err)
	}
}

// TestLogFill checks that a log that its disk cannot hold is full, and that one without a limit is not.
func TestLogFill(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		figures joblog.Figures
		want    float64
	}{
		"half":          {joblog.Figures{Max: 1000, Used: 200, Reserved: 150, Granted: 50}, 0.5},
		"a full disk":   {joblog.Figures{Max: 1000, Short: 900, Used: 1}, 1},
		"without limit": {joblog.Figures{Max: -1, Used: 1}, 0},
	} {
		if got := logFill(row.figures); got != row.want {
			t.Errorf("%s: %f", name, got)
		}
	}
}

// TestEveryStreamIsExplained checks that an entry about a stream can say what the stream is for.
func TestEveryStreamIsExplained(t *testing.T) {
	t.Parallel()
	for _, c := range brokertest.Single(t).Streams().Configs() {
		if whenFull[streamWord(c.Name)].effect == "" {
			t.Errorf("%s is not", c.Name)
		}
	}
}
