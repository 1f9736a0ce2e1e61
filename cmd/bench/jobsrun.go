package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/internal/subject"
)

type jobsRun struct {
	jobsCase
	w        *workshop
	cmd      jobsCommand
	upstream *child
	base     string  // URL of the upstream
	cluster  cluster // nil for an embedded server
	target   *child
	service  *service // nil for the floor
	url      string   // of the broker
	pub      *publisher
	feed     *jobsFeed
	sent     int // requests published so far

	rate  jobsResult
	paced *jobsPaced
}

func (r *jobsRun) dir() string { return filepath.Join(r.w.dir, r.String()) }

// startNeighbours starts the upstream and any external NATS servers.
func (r *jobsRun) startNeighbours(ctx context.Context) (err error) {
	if err := os.MkdirAll(r.dir(), 0o750); err != nil {
		return err
	}
	if r.Kind == string(subject.Video) {
		r.upstream, r.base, err = r.w.startSandbox(ctx)
	} else {
		r.upstream, r.base, err = r.w.startUpstream(ctx)
	}
	if err == nil && r.Nodes > 1 {
		r.cluster, err = r.w.startCluster(ctx, r.String(), r.Nodes, r.Fsync == onOff(true))
		r.url = r.cluster.url()
	}
	return err
}

func (w *workshop) startUpstream(ctx context.Context) (*child, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	c, found, err := startChild(ctx, w.dir, "upstream", []string{self, "upstream"}, childEnv(), bannerAddr)
	if err != nil {
		return nil, "", err
	}
	return c, found[0], nil
}

func (r *jobsRun) broker() jobsBroker {
	return jobsBroker{NATS: r.url, Copies: r.Nodes, Dir: filepath.Join(r.dir(), "data"), Fsync: r.Fsync == onOff(true), InFlight: r.cmd.InFlight}
}

// preload fills the inbox. If the server is embedded, bench runs it. It does so without fsync,
// because the server flushes to disk when it stops.
func (r *jobsRun) preload(ctx context.Context) error {
	options := r.broker()
	options.Fsync = false
	b, err := options.open(ctx)
	if err != nil {
		return err
	}
	url := r.url
	if url == "" {
		url = b.ClientURL()
	}
	r.pub, err = connectPublisher(url)
	if err == nil {
		err = r.publish(ctx, r.cmd.Jobs, 0)
		r.pub.close()
	}
	return errors.Join(err, b.Close())
}

func (r *jobsRun) start(ctx context.Context) (err error) {
	if r.Target == targetFloor {
		return r.startFloor(ctx)
	}
	r.service, err = r.w.startService(ctx, r.String(), serviceSetup{
		Upstream: r.base, Kind: r.Kind, NATS: r.url, Copies: r.Nodes, SyncAlways: r.Fsync == onOff(true),
		InFlight: r.cmd.InFlight, Queued: 2*r.cmd.Jobs + 100_000, Poll: r.cmd.Poll,
	})
	if err != nil {
		return err
	}
	r.target = r.service.child
	if r.url == "" {
		r.url = r.service.nats
	}
	return nil
}

func (r *jobsRun) startFloor(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{self, "floor", "--kind", r.Kind, "--upstream", r.base, "--poll", r.cmd.Poll.String()}, r.broker().flags()...)
	c, found, err := startChild(ctx, r.dir(), "floor", args, childEnv(), bannerServer)
	if err != nil {
		return err
	}
	r.target, r.url = c, found[0]
	return nil
}

func (r *jobsRun) connect(ctx context.Context) (err error) {
	if r.pub, err = connectPublisher(r.url); err != nil {
		return err
	}
	r.feed, err = followJobs(ctx, r.pub.js)
	return err
}

func (r *jobsRun) discard() error {
	if r.feed != nil {
		r.feed.close()
	}
	if r.pub != nil {
		r.pub.close()
	}
	if r.service != nil {
		r.service.http.CloseIdleConnections()
	}
	for _, c := range []*child{r.target, r.upstream} {
		if c != nil {
			c.kill()
		}
	}
	r.cluster.discard()
	if r.w.Keep {
		return nil
	}
	return os.RemoveAll(r.dir())
}

// request returns a short chat or video as JSON. Its label is the publish time.
func (r *jobsRun) request() *nats.Msg {
	body := `{"model":"` + chatModel(0, 0) + `","messages":[{"role":"user","content":"Where do paper boats go?"}]}`
	if r.Kind == string(subject.Video) {
		body = fmt.Sprintf(`{"model":"sandbox-video","prompt":"a paper boat drifts down a gutter at dusk","duration":5,"width":1280,"height":720,`+
			`"metadata":{"sandbox":{"duration_ms":%d,"statuses":["completed"]}}}`, (r.cmd.Poll / 2).Milliseconds())
	}
	tenant := fmt.Sprint("tenant-", r.sent%r.cmd.Tenants)
	return &nats.Msg{Subject: subject.Default().Request(subject.Kind(r.Kind), tenant), Data: []byte(body), Header: nats.Header{
		subject.HeaderContentType: {subject.ContentTypeJSON},
		subject.HeaderLabels:      {sentLabel + strconv.FormatInt(time.Now().UnixNano(), 10)},
	}}
}

// publish sends n requests at a fixed interval and waits for all acks.
func (r *jobsRun) publish(ctx context.Context, n int, every time.Duration) error {
	next := time.Now()
	for range n {
		if every > 0 {
			if err := pause(ctx, time.Until(next)); err != nil {
				return err
			}
			next = next.Add(every)
		}
		if err := r.pub.send(ctx, r.request()); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		r.sent++
	}
	return r.pub.awaitAcks(ctx)
}

func (r *jobsRun) alive() error {
	if err := r.target.alive(); err != nil {
		return err
	}
	return r.upstream.alive()
}

// warmUpQueued is the number of warm-up jobs before a measurement with a live inbox.
const warmUpQueued = 200

func (r *jobsRun) warmUp(ctx context.Context) error {
	if err := r.publish(ctx, warmUpQueued, 0); err != nil {
		return err
	}
	_, err := r.feed.wait(ctx, warmUpQueued, r.alive)
	return err
}

// jobsCount holds all values whose differences are measured.
type jobsCount struct {
	at       time.Time
	ended    int
	procs    []procStat // target, upstream, client, NATS servers
	messages traffic
	stored   map[string]uint64 // last sequence of each stream
}

func (r *jobsRun) count(ctx context.Context) (c jobsCount, err error) {
	if c.procs, err = append(procs{r.target.pid(), r.upstream.pid(), os.Getpid()}, r.cluster.pids()...).read(); err != nil {
		return c, err
	}
	c.at = time.Now()
	if c.ended, _, err = r.feed.count(); err != nil {
		return c, err
	}
	if c.messages, err = r.cluster.traffic(ctx); err != nil {
		return c, err
	}
	c.stored = map[string]uint64{}
	streams := r.pub.js.ListStreams(ctx)
	for s := range streams.Info() {
		c.stored[strings.ToLower(strings.TrimPrefix(s.Config.Name, "GENBUS_"))] = s.State.LastSeq
	}
	return c, streams.Err()
}

// measure measures the rate. With a full inbox, it starts when the first job ends.
func (r *jobsRun) measure(ctx context.Context) error {
	total := r.cmd.Jobs
	if r.Inbox == inboxFull {
		if _, err := r.feed.wait(ctx, 1, r.alive); err != nil {
			return err
		}
	} else {
		total += r.sent
	}
	before, err := r.count(ctx)
	if err != nil {
		return err
	}
	group, gctx := errgroup.WithContext(ctx)
	if r.Inbox == inboxLive {
		group.Go(func() error { return r.publish(gctx, r.cmd.Jobs, 0) })
	}
	if r.service != nil && r.service.pprof != "" {
		group.Go(func() error { return r.w.profile(gctx, r.service, r.String(), r.cmd.ProfileFor) })
	}
	var after jobsCount
	group.Go(func() error {
		last, err := r.feed.wait(gctx, total, r.alive)
		if err != nil {
			return err
		}
		after, err = r.count(gctx)
		after.at = last
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	r.rate, err = jobsRate(before, after)
	r.rate.jobsCase = r.jobsCase
	r.feed.takeDelays()
	return err
}

// jobsRate returns the changes between two counts.
func jobsRate(before, after jobsCount) (jobsResult, error) {
	r := jobsResult{Jobs: after.ended - before.ended, Window: after.at.Sub(before.at).Seconds(), Stored: map[string]float64{}, LoadAvg: loadAverage()}
	if r.Jobs < 1 || r.Window < leastWindow.Seconds() {
		return r, fmt.Errorf("%d jobs ended in %.2f s, and a window needs %s; raise --jobs, of which the floor has five times as many", r.Jobs, r.Window, leastWindow)
	}
	messages, err := after.messages.since(before.messages)
	if err != nil {
		return r, err
	}
	n := float64(r.Jobs)
	cpu := func(i int) float64 { return perUnitMS(after.procs[i].CPU-before.procs[i].CPU, n) }
	r.PerSecond, r.ServiceMS, r.UpstreamMS, r.ClientMS = n/r.Window, cpu(0), cpu(1), cpu(2)
	for i := 3; i < len(after.procs); i++ {
		r.NATSMS += cpu(i)
	}
	r.ToServer, r.FromServer = float64(messages.In)/n, float64(messages.Out)/n
	for stream, last := range after.stored {
		if grown := last - before.stored[stream]; grown > 0 {
			r.Stored[stream] = float64(grown) / n
		}
	}
	return r, nil
}

// pace publishes at the requested rate and measures the delays.
func (r *jobsRun) pace(ctx context.Context) error {
	n := int(r.cmd.Rate * r.cmd.PacedFor.Seconds())
	if n == 0 {
		return nil
	}
	begin := time.Now()
	if err := r.publish(ctx, n, time.Duration(float64(time.Second)/r.cmd.Rate)); err != nil {
		return err
	}
	took := time.Since(begin)
	if _, err := r.feed.wait(ctx, r.sent, r.alive); err != nil {
		return err
	}
	d := r.feed.takeDelays()
	if len(d.total) != n {
		return fmt.Errorf("%d of %d jobs said when they were published", len(d.total), n)
	}
	r.paced = &jobsPaced{
		jobsCase: r.jobsCase, Jobs: n, PublishedRate: float64(n) / took.Seconds(), LoadAvg: loadAverage(),
		P50: rank(d.total, 0.5), P99: rank(d.total, 0.99), DeliveryP50: rank(d.delivery, 0.5), DeliveryP99: rank(d.delivery, 0.99),
	}
	return nil
}
