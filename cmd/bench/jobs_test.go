package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/subject"
)

func jobsArgs(t *testing.T, args string) (jobsCommand, error) {
	t.Helper()
	var c cli
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(append([]string{"jobs"}, strings.Fields(args)...))
	return c.Jobs, err
}

func TestJobsFlags(t *testing.T) {
	t.Parallel()
	got, err := jobsArgs(t, "")
	if err != nil || len(got.cases()) != 2*2*2*2*2 {
		t.Errorf("%v, %v", got.cases(), err)
	}
	if got, err = jobsArgs(t, "--nodes 1 --kind chat --fsync on --no-preloaded"); err != nil {
		t.Fatal(err)
	}
	want := []jobsCase{
		{Target: targetFloor, Kind: "chat", Nodes: 1, Fsync: "on", Inbox: inboxLive},
		{Target: targetGenbus, Kind: "chat", Nodes: 1, Fsync: "on", Inbox: inboxLive},
	}
	if diff := cmp.Diff(want, got.cases()); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{
		"--nodes 2", "--kind image", "--fsync maybe", "--jobs 99", "--jobs 200001", "--tenants 0", "--in-flight 0", "--rate 0", "--paced-for 1ms", "--poll 1ms", "--profile-for 0s",
	} {
		if _, err := jobsArgs(t, bad); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
}

// TestFloorFlags proves that a floor can be started with the flags of jobsBroker.
func TestFloorFlags(t *testing.T) {
	t.Parallel()
	want := jobsBroker{NATS: "nats://a:1,nats://b:2", Copies: 3, Dir: "/data", Fsync: true, InFlight: 7}
	var c cli
	parser, err := kong.New(&c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(append([]string{"floor", "--kind", "chat", "--upstream", "http://x"}, want.flags()...)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, c.Floor.jobsBroker); diff != "" {
		t.Error(diff)
	}
}

// TestFloorServes proves that the floor handles chats and short videos from genbus's inbox.
func TestFloorServes(t *testing.T) {
	t.Parallel()
	for _, kind := range subject.Kinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			upstream := httptest.NewServer(floorUpstream())
			defer upstream.Close()
			f := floorCommand{Kind: kind, Upstream: upstream.URL, Poll: time.Millisecond, jobsBroker: jobsBroker{Copies: 1, Dir: t.TempDir(), InFlight: 4}}
			b, err := f.open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- floor{cmd: f, names: b.Names(), js: b.JetStream(), http: upstream.Client()}.run(ctx, b.ClientURL())
			}()
			r := &jobsRun{jobsCase: jobsCase{Kind: string(kind)}, cmd: jobsCommand{Tenants: 3}, url: b.ClientURL()}
			if err := r.connect(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := r.publish(t.Context(), 10, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := r.feed.wait(t.Context(), 10, func() error { return nil }); err != nil {
				t.Error(err)
			}
			if d := r.feed.takeDelays(); len(d.total) != 10 || d.total[0] <= 0 || d.total[0] < d.delivery[0] {
				t.Errorf("delays %+v", d)
			}
			r.feed.close()
			r.pub.close()
			cancel()
			if err := <-ended; err == nil || ctx.Err() == nil {
				t.Errorf("the floor ended with %v", err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// floorUpstream answers chats, and completes videos at their first poll.
func floorUpstream() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", answerChat)
	mux.HandleFunc("POST /v1/video/generations", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"id":"task_1","status":"queued"}`)
	})
	mux.HandleFunc("GET /v1/video/generations/task_1", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"id":"task_1","status":"completed"}`)
	})
	return mux
}

// TestJobsFeed proves that each job is counted once, that delays are read from the headers of
// genbus and the floor, and that a failed job is an error.
func TestJobsFeed(t *testing.T) {
	t.Parallel()
	f := &jobsFeed{ended: map[string]bool{}}
	sent := time.Unix(1_700_000_000, 0)
	label := sentLabel + "1700000000000000000"
	done := func(status, id string) string { return subject.Default().Done(subject.Chat, "acme", status, id) }
	for range 2 {
		f.add(done("completed", "chat_1"), nats.Header{subject.HeaderIndex: {"phase=ended&model=m;" + label}}, sent.Add(time.Second), sent.Add(900*time.Millisecond))
	}
	f.add(done("completed", "chat_2"), nats.Header{subject.HeaderLabels: {label}}, sent.Add(3*time.Second), sent.Add(2*time.Second))
	f.add(done("completed", "chat_3"), nil, sent, sent)
	f.add("rubbish", nil, sent, sent)
	if n, last, err := f.count(); n != 3 || !last.Equal(sent) || err != nil {
		t.Errorf("%d, %s, %v", n, last, err)
	}
	d := f.takeDelays()
	want := jobDelays{total: []float64{1, 3}, delivery: []float64{0.1, 1}}
	if diff := cmp.Diff(want, d, cmp.AllowUnexported(jobDelays{}), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
	f.add(done("failed", "chat_4"), nil, sent, sent)
	if _, err := f.wait(t.Context(), 4, func() error { return nil }); err == nil || !strings.Contains(err.Error(), "chat_4") {
		t.Errorf("a job that failed: %v", err)
	}
}

func TestJobsRate(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	cpu := func(ms ...int) (all []procStat) {
		for _, n := range ms {
			all = append(all, procStat{CPU: time.Duration(n) * time.Millisecond})
		}
		return all
	}
	before := jobsCount{at: begin, ended: 10, procs: cpu(0, 0, 0, 0, 100), messages: traffic{In: 1, Out: 2}, stored: map[string]uint64{"tasks": 40, "dead": 1}}
	after := jobsCount{
		at: begin.Add(2 * time.Second), ended: 110, procs: cpu(100, 20, 10, 30, 120), messages: traffic{In: 801, Out: 1102},
		stored: map[string]uint64{"tasks": 440, "dead": 1, "usage": 100},
	}
	got, err := jobsRate(before, after)
	if err != nil {
		t.Fatal(err)
	}
	want := jobsResult{
		Jobs: 100, Window: 2, PerSecond: 50, ServiceMS: 1, UpstreamMS: 0.2, ClientMS: 0.1, NATSMS: 0.5, ToServer: 8, FromServer: 11,
		Stored: map[string]float64{"tasks": 4, "usage": 1}, LoadAvg: got.LoadAvg,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(jobsResult{}), cmpopts.EquateApprox(0, 1e-9), cmpopts.EquateComparable(jobsCase{})); diff != "" {
		t.Error(diff)
	}
	after.at = begin.Add(time.Millisecond)
	if _, err := jobsRate(before, after); err == nil {
		t.Error("a rate was taken from a window that is too short")
	}
}

// TestJobsAreComparedWithTheFloor proves that aims with fsync are compared with the floor without.
func TestJobsAreComparedWithTheFloor(t *testing.T) {
	t.Parallel()
	of := func(target, fsync, inbox string, perSecond float64) jobsResult {
		return jobsResult{jobsCase: jobsCase{Target: target, Kind: "chat", Nodes: 1, Fsync: fsync, Inbox: inbox}, PerSecond: perSecond}
	}
	all := []jobsResult{
		of(targetFloor, "off", inboxLive, 1000), of(targetGenbus, "off", inboxLive, 500),
		of(targetFloor, "on", inboxLive, 400), of(targetGenbus, "on", inboxLive, 140),
		of(targetGenbus, "on", inboxFull, 300), // without a floor
	}
	compareJobs(all)
	if r := all[3]; r.Ratio != 0.35 || r.RatioNoFsync != 0.14 {
		t.Errorf("compared %+v", r)
	}
	var verdicts []string
	for _, r := range all {
		verdicts = append(verdicts, r.verdict())
	}
	if diff := cmp.Diff([]string{"-", "0.5 met", "-", "0.15 missed", "-"}, verdicts); diff != "" {
		t.Error(diff)
	}
	paced := jobsPaced{jobsCase: all[3].jobsCase, P99: 0.025}
	if got := []string{paced.verdict(200), paced.verdict(100), (jobsPaced{jobsCase: all[1].jobsCase}).verdict(200)}; !slices.Equal(got, []string{"25 met", "-", "-"}) {
		t.Errorf("paced: %q", got)
	}
	var b bytes.Buffer
	all[3].Stored = map[string]float64{"tasks": 4, "requests": 1}
	if err := (jobsReport{Rates: all}).tables()[1].write(&b); err != nil || !strings.Contains(b.String(), "5.00 (requests 1.00, tasks 4.00)") {
		t.Errorf("%s, %v", b.String(), err)
	}
}

func TestNATSServerOfACluster(t *testing.T) {
	t.Parallel()
	var opts server.Options
	if err := (natsCommand{Cluster: []string{"127.0.0.1:3", "127.0.0.1:1", "127.0.0.1:2"}}).join(&opts); err != nil {
		t.Fatal(err)
	}
	if opts.Cluster.Port != 3 || len(opts.Routes) != 2 || opts.Routes[0].Host != "127.0.0.1:1" {
		t.Errorf("%+v, %v", opts.Cluster, opts.Routes)
	}
	if err := (natsCommand{Cluster: []string{"nowhere"}}).join(&opts); err == nil {
		t.Error("an address that is none was taken")
	}
}
