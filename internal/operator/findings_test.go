package operator

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/jobindex"
)

var (
	// long and later are times at which something began, and now is when the list is built.
	long  = timestamppb.New(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	later = timestamppb.New(long.AsTime().Add(time.Hour))
	now   = long.AsTime().Add(2 * time.Hour)
)

// threeReplicas returns findings of a healthy service of three replicas that have been running for
// an hour. The routes film and trailer use the upstream main, which has two keys.
func threeReplicas(t *testing.T) findings {
	t.Helper()
	cfg := config.Default()
	for _, name := range []string{"film", "trailer"} {
		cfg.Routes = append(cfg.Routes, config.NewRoute(name, config.KindVideo, "main", name))
	}
	f := findings{facts: &facts{overview: &genbusv1.GetOverviewResponse{AsOf: timestamppb.New(now), DeadLetters: &genbusv1.DeadLetterCounts{Rejected: 7}}}, fills: &fills{}, config: cfg}
	for i := range 3 {
		f.replicas = append(f.replicas, &genbusv1.ReplicaState{
			Id: fmt.Sprint("r", i), Address: fmt.Sprintf("host-%d:8080", i), StartedAt: later, IndexReady: i > 0,
			Upstreams: []*genbusv1.UpstreamState{{Name: "main", Breaker: genbusv1.UpstreamState_BREAKER_CLOSED, Calls: 10, Keys: []*genbusv1.UpstreamKeyState{{Name: "k1"}, {Name: "k2"}}}},
		})
	}
	for _, name := range []string{"film", "trailer"} {
		f.overview.Routes = append(f.overview.Routes, &genbusv1.RouteOverview{Route: &genbusv1.RouteState{Kind: "video", Name: name, Waiting: 6, InHand: 1}})
	}
	f.streams = []streamFill{
		{&genbusv1.StreamState{Name: "GENBUS_WORK", Used: 0.79}, 1},
		{&genbusv1.StreamState{Name: "GENBUS_USAGE", Used: 0.9, DropsOld: true}, 1}, // messages expire by age
	}
	f.tenants = []*genbusv1.TenantState{
		{Tenant: "unlimited", Unfinished: 1e6}, {Tenant: "below", Unfinished: 4, MaxJobs: 5, StoredBytes: 89, MaxStoredBytes: 100},
	}
	return f
}

// listed returns the list of the findings, with the upstreams of the replicas.
func (f findings) listed() []*genbusv1.Attention {
	f.overview.Upstreams = healths(f.replicas)
	return f.list(now)
}

// TestAHealthyServiceNeedsNoAttention checks that values below the limits, rejected requests and
// replicas that are starting are not listed.
func TestAHealthyServiceNeedsNoAttention(t *testing.T) {
	t.Parallel()
	f := threeReplicas(t)
	if got := f.listed(); len(got) > 0 {
		t.Error(got)
	}
	for _, r := range f.replicas {
		r.StartedAt, r.IndexReady = timestamppb.New(now.Add(-indexPatience+1)), false
	}
	f.noIndex = jobindex.ErrCatchingUp
	if got := f.listed(); len(got) > 0 {
		t.Errorf("at the start: %v", got)
	}
	for _, r := range f.replicas {
		r.StartedAt = long
	}
	f.replicas[2].IndexReady = true
	if got := f.listed(); len(got) > 0 {
		t.Errorf("while another replica has the index: %v", got)
	}
	f.replicas[2].IndexReady = false
	f.noIndex = errors.New("no answer")
	if got := f.listed(); len(got) > 0 {
		t.Errorf("while the index is unknown: %v", got)
	}
	f.noIndex, f.err = nil, errors.New("no broker")
	f.overview.Silent = []*genbusv1.SilentReplica{{Id: "r9"}}
	if got := f.listed(); len(got) > 0 {
		t.Errorf("without the broker, no replica is known to be missing: %v", got)
	}
}

// TestFindings checks each reason with its sentences.
func TestFindings(t *testing.T) {
	t.Parallel()
	const opened, halfOpen = genbusv1.UpstreamState_BREAKER_OPEN, genbusv1.UpstreamState_BREAKER_HALF_OPEN
	up := func(f findings, replica int) *genbusv1.UpstreamState { return f.replicas[replica].GetUpstreams()[0] }
	route := func(f findings) *genbusv1.RouteState { return f.overview.GetRoutes()[0].GetRoute() }
	stream := func(f findings, s *genbusv1.StreamState, history float64) {
		f.streams = []streamFill{{s, history}}
	}
	for name, row := range map[string]struct {
		change func(findings)
		want   *genbusv1.Attention
	}{
		"a check fails on one replica": {func(f findings) {
			f.replicas[1].FailedChecks = []*genbusv1.FailedCheck{{Check: "store", Reason: "no space left on device", Since: later}}
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_NOT_READY, Subject: "check store", Since: later,
			Affects: "1 of 3 replicas (host-1:8080) accepts no jobs: no space left on device. Inline chats continue.",
			Action:  "Free space on the disk of the NATS server (nats.data_dir if it is embedded), or replace the disk.",
			Command: "nats server report jetstream", Console: "/console/streams",
		}},
		"a check fails on all replicas": {func(f findings) {
			for i, r := range f.replicas {
				since := []*timestamppb.Timestamp{later, long, later}[i]
				r.FailedChecks = []*genbusv1.FailedCheck{{Check: "jetstream", Reason: "stream GENBUS_TASKS: no leader", Since: since}}
			}
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_NOT_READY, Subject: "check jetstream", Since: long,
			Affects: "No replica accepts jobs: stream GENBUS_TASKS: no leader. Inline chats continue.",
			Action:  "Bring the NATS servers back; most of them must run. Replicas need no restart.",
			Command: "nats stream report", Console: "/console/streams",
		}},
		"no replica has the index": {func(f findings) {
			f.noIndex = jobindex.ErrCatchingUp
			for _, r := range f.replicas {
				r.IndexReady = false
			}
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_INDEX_NOT_READY, Subject: "job index",
			Affects: "None of 3 replicas has read the job log completely. Lists fail, max_jobs is enforced only approximately, and jobs that no replica holds do not end at their deadlines.",
			Action:  `If it stays, search the logs of the replicas for "could not read job index from log", and check that not every replica has the setting index: off.`,
			Command: "genbus operator replicas", Console: "/console/replicas",
		}},
		"a stream that refuses": {func(f findings) { stream(f, &genbusv1.StreamState{Name: "GENBUS_WORK", Used: 0.8}, 1) }, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_STREAM_FULL, Subject: "stream GENBUS_WORK",
			Affects: "80 % of its capacity is used or reserved. At 100 %, genbus refuses new jobs.",
			Action:  "Raise nats.streams.work.max_msgs or max_bytes on all replicas, and restart them one at a time.",
			Command: "genbus operator streams", Console: "/console/streams",
		}},
		"the stream of dead letters": {func(f findings) { stream(f, &genbusv1.StreamState{Name: "GENBUS_DEAD", Used: 1}, 1) }, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_STREAM_FULL, Subject: "stream GENBUS_DEAD",
			Affects: "100 % of its capacity is used or reserved. At 100 %, genbus submits no more videos.",
			Action:  "Resolve dead letters, or raise nats.streams.dead.max_bytes.",
			Command: "genbus operator dead list", Console: "/console/decisions",
		}},
		"a stream that drops": {func(f findings) {
			stream(f, &genbusv1.StreamState{Name: "GENBUS_CHUNKS", Used: 0.99, DropsOld: true}, 0.42)
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_STREAM_DROPS_OLD, Subject: "stream GENBUS_CHUNKS",
			Affects: "It is 99 % full, and keeps messages for only 42 % of max_age. Late readers miss the start of a running chat.",
			Action:  "Raise nats.streams.chunks.max_bytes on all replicas, and restart them one at a time.",
			Command: "genbus operator streams", Console: "/console/streams",
		}},
		"unknown outcomes": {func(f findings) {
			f.overview.DeadLetters = &genbusv1.DeadLetterCounts{OutcomeUnknown: 2, Other: 3, Uncounted: 1}
			stream(f, &genbusv1.StreamState{Name: "GENBUS_DEAD", Oldest: later}, 1)
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_DEAD_LETTERS, Subject: "failed jobs", Since: later,
			Affects: "6 failed jobs wait for a decision. The outcome of 2 is unknown: the upstream may have charged without a result. The code of 1 was not read.",
			Action:  "Look for the tasks with unknown outcomes at the upstream. Attach those that it has. Retry (redrive) the others once the upstream works again.",
			Command: "genbus operator dead list --code submission_outcome_unknown", Console: "/console/decisions?code=submission_outcome_unknown",
		}},
		"another dead letter": {func(f findings) { f.overview.DeadLetters.Other = 1 }, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_DEAD_LETTERS, Subject: "failed jobs",
			Affects: "1 failed job waits for a decision.",
			Action:  "Look up the code of each dead letter, then attach, retry (redrive) or drop it.",
			Command: "genbus operator dead list", Console: "/console/decisions",
		}},
		"breakers of one upstream": {func(f findings) {
			up(f, 0).Breaker, up(f, 0).BreakerSince, up(f, 0).CallsFailed, up(f, 0).LastError, up(f, 0).LastErrorAt = opened, later, 5, "status 500", long
			up(f, 2).Breaker, up(f, 2).BreakerSince, up(f, 2).CallsFailed, up(f, 2).LastError, up(f, 2).LastErrorAt = halfOpen, long, 3, "status 503", later
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_BREAKER_OPEN, Subject: "upstream main", Since: long,
			Affects: "genbus avoids it on 2 of 3 replicas: jobs go to other upstreams of their routes, or wait. 8 of 30 calls in the last 5 minutes failed. Last failure: status 503. 14 unfinished jobs on video route film, video route trailer.",
			Action:  "The next successful trial closes the breaker. If none succeeds, take the upstream out of its routes, or pause them.",
			Command: "genbus operator upstreams", Console: "/console/upstreams",
		}},
		"a breaker of a replica that does not know since when": {func(f findings) {
			up(f, 0).Breaker, up(f, 0).BreakerSince = opened, long
			up(f, 1).Breaker = opened
			up(f, 2).Breaker, up(f, 2).BreakerSince = opened, long
			f.overview.Routes = nil
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_BREAKER_OPEN, Subject: "upstream main",
			Affects: "genbus avoids it on 3 of 3 replicas: jobs go to other upstreams of their routes, or wait. 0 of 30 calls in the last 5 minutes failed.",
			Action:  "The next successful trial closes the breaker. If none succeeds, take the upstream out of its routes, or pause them.",
			Command: "genbus operator upstreams", Console: "/console/upstreams",
		}},
		"a key": {func(f findings) {
			k := up(f, 1).GetKeys()[1]
			k.CooldownUntil, k.RefusedSince, k.HttpStatus = timestamppb.New(now), long, 401
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_KEY_REFUSED, Subject: "key main/k2", Since: long,
			Affects: "Upstream main refused it with HTTP 401 on 1 of 3 replicas. Its other key takes the jobs.",
			Action:  "Put a valid key in its place, and reload the configuration (SIGHUP).",
			Command: "genbus operator upstreams", Console: "/console/upstreams",
		}},
		"the only key of the only replica": {func(f findings) {
			f.replicas = f.replicas[:1]
			up(f, 0).Keys = []*genbusv1.UpstreamKeyState{{CooldownUntil: timestamppb.New(now), HttpStatus: 402}}
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_KEY_REFUSED, Subject: "only key of upstream main",
			Affects: "Upstream main refused it with HTTP 402. It has no other key, so each job tries this one and fails.",
			Action:  "Top up the account at the upstream, or put another key in its place and reload the configuration (SIGHUP). Until then, pause the routes, so that jobs wait instead of failing.",
			Command: "genbus operator upstreams", Console: "/console/upstreams",
		}},
		"a missing replica": {func(f findings) {
			f.overview.Silent = []*genbusv1.SilentReplica{{Id: "r9", Address: "host-9:8080", HeardAt: later}, {Id: "slow", HeardAt: timestamppb.New(now.Add(-2 * time.Second))}}
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_REPLICA_MISSING, Subject: "replica host-9:8080", Since: later,
			Affects: "It does not answer; 3 replicas do. If it was killed, another one takes over its jobs within 60 s (ack_wait).",
			Action:  "Start it again, and look for the cause in its log. It is listed until another replica replaces it, for 3 minutes at most.",
			Command: "genbus operator replicas", Console: "/console/replicas",
		}},
		"a pause without an end": {func(f findings) {
			route(f).Paused, route(f).Pause = true, &genbusv1.RoutePause{Since: long, By: "ann", Reason: "upstream maintenance"}
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_ROUTE_PAUSED, Subject: "video route film", Since: long,
			Affects: "6 jobs wait. Paused by ann: upstream maintenance.",
			Action:  "Resume it when the reason is over.",
			Command: "genbus operator resume video film", Console: "/console/routes",
		}},
		"a chat route paused by another program": {func(f findings) {
			route(f).Kind, route(f).Waiting, route(f).Paused, route(f).Pause = "chat", 1, true, &genbusv1.RoutePause{Until: later}
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_ROUTE_PAUSED, Subject: "chat route film",
			Affects: "1 job waits, and inline chats are refused. Paused by another program than genbus until 2026-01-01T01:00:00Z.",
			Action:  "It resumes by itself. To resume it now, run the command.",
			Command: "genbus operator resume chat film", Console: "/console/routes",
		}},
		"an unconfigured route": {func(f findings) {}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_ROUTE_UNCONFIGURED, Subject: "video route wan",
			Affects: "12 jobs wait, the oldest since 2026-01-01T00:00:00Z. The route is not configured, and no replica asks for its jobs, though one with an older configuration may hold some.",
			Action:  "Make sure that no replica has an older configuration. Then configure the route again, or end its jobs (operator orphans fail).",
			Command: "genbus operator orphans list", Console: "/console/routes",
		}},
		"a tenant with too many jobs": {func(f findings) {
			f.tenants = []*genbusv1.TenantState{{Tenant: "acme", Unfinished: 5, MaxJobs: 5}}
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_TENANT_AT_LIMIT, Subject: "tenant acme",
			Affects: "It has 5 unfinished jobs of at most 5 (max_jobs), so genbus refuses more.",
			Action:  "Let jobs end, cancel some, or raise its max_jobs.",
			Command: "genbus operator jobs list --status unfinished --tenant acme", Console: "/console/tenants",
		}},
		"a tenant with a full store": {func(f findings) {
			f.tenants = []*genbusv1.TenantState{{Tenant: "acme", StoredBytes: 19 << 30, MaxStoredBytes: 20 << 30}}
		}, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_TENANT_AT_LIMIT, Subject: "tenant acme",
			Affects: "It uses 95 % of its 20GiB of storage (limits.bodies_bytes). At 100 %, genbus refuses its jobs.",
			Action:  "Erase ended jobs, or raise limits.bodies_bytes.",
			Command: "genbus operator tenants", Console: "/console/tenants",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := threeReplicas(t)
			row.change(f)
			if row.want.GetReason() == genbusv1.Attention_REASON_ROUTE_UNCONFIGURED {
				f.orphans = []*genbusv1.OrphanedRoute{{Kind: "video", Name: "wan", Ready: 3, Waiting: 9, Oldest: long}}
			}
			if diff := cmp.Diff([]*genbusv1.Attention{row.want}, f.listed(), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAllKeysAreRefused checks that the entry of a refused key does not deny the other one, which is
// refused as well.
func TestAllKeysAreRefused(t *testing.T) {
	t.Parallel()
	f := threeReplicas(t)
	for i, k := range f.replicas[1].GetUpstreams()[0].GetKeys() {
		k.CooldownUntil, k.HttpStatus = timestamppb.New(now), []int32{401, 402}[i]
	}
	f.replicas[1].Upstreams = append(f.replicas[1].Upstreams, &genbusv1.UpstreamState{Name: "other", Keys: []*genbusv1.UpstreamKeyState{{Name: "k1"}}})
	var got []string
	for _, a := range f.listed() {
		got = append(got, a.GetSubject()+": "+a.GetAffects())
	}
	want := []string{
		"key main/k1: Upstream main refused it with HTTP 401 on 1 of 3 replicas. It refused its other key too, so each job tries one of them and fails.",
		"key main/k2: Upstream main refused it with HTTP 402 on 1 of 3 replicas. It refused its other key too, so each job tries one of them and fails.",
	}
	if !slices.Equal(got, want) {
		t.Error(got)
	}
}

// TestFindingsAreSorted checks the order: by reason, then the oldest first, then by subject.
func TestFindingsAreSorted(t *testing.T) {
	t.Parallel()
	f := threeReplicas(t)
	f.overview.Silent = []*genbusv1.SilentReplica{{Id: "c"}, {Id: "b", HeardAt: later}, {Id: "a"}, {Id: "d", HeardAt: long}}
	f.tenants = append(f.tenants, &genbusv1.TenantState{Tenant: "full", Unfinished: 1, MaxJobs: 1})
	f.replicas[0].FailedChecks = []*genbusv1.FailedCheck{{Check: "of a newer replica", Reason: "x"}}
	var got []string
	for _, a := range f.listed() {
		got = append(got, a.GetSubject())
	}
	if want := []string{"check of a newer replica", "replica d", "replica b", "replica a", "replica c", "tenant full"}; !slices.Equal(got, want) {
		t.Error(got)
	}
}
