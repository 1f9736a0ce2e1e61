package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
	"github.com/genbus/genbus/test/faultinject/load"
)

type options struct {
	Duration  time.Duration
	Seed      uint64
	Cluster   bool
	Replicas  int
	Rate      float64
	SmallLog  bool // for the step fill
	SmallDisk bool // for the step full-disk
	// SmallPayload makes the nodes accept only small messages.
	SmallPayload bool
	Only         []string // limits the plan to these steps; empty means all
	Kills, Jobs  int
	Service      string
	// UpgradeFrom is the commit of the service that the replicas begin with; empty means this
	// version. The steps replace it.
	UpgradeFrom string
	Race, Keep  bool
	// Steps replace the steps drawn from the seed.
	Steps plan
}

// drainTimeout is how long jobs may take to end after the faults. It is the sum of a job's longest
// limits and the time for a takeover.
const drainTimeout = queueTimeout + deadline + endGrace + time.Minute

// clientLife is how long a client follows a job. It is the longest life of a job whose work item is
// not deleted.
const clientLife = queueTimeout + deadline + endGrace

type world struct {
	options
	dir      string
	up       *upstreams
	fleet    *fleet
	load     *load.Load
	recorder *load.Recorder
	storm    *storm
	began    time.Time // when all replicas were first ready
}

func soak(ctx context.Context, o options) (r result, err error) {
	w := &world{options: o, recorder: &load.Recorder{}}
	defer func() { err = errors.Join(err, w.close(len(r.Violations) > 0 || err != nil)) }()
	if err := w.open(ctx); err != nil {
		return result{}, err
	}
	progressf("seed %d: %d replicas, %s, in %s", o.Seed, o.Replicas, o.broker(), w.dir)
	w.began = time.Now()
	if err := w.work(ctx); err != nil {
		return result{}, err
	}
	h, err := w.history(ctx)
	if err != nil {
		return result{}, err
	}
	return w.judge(h), nil
}

func (o options) broker() string {
	if o.Cluster {
		return fmt.Sprintf("%d broker nodes", nodeCount)
	}
	return "embedded broker"
}

func (w *world) open(ctx context.Context) (err error) {
	if w.dir, err = os.MkdirTemp("", "genbus-soak-"); err != nil {
		return err
	}
	versions, err := w.versions(ctx)
	if err != nil {
		return err
	}
	if w.SmallDisk {
		if err := mountSmallDisk(w.dir); err != nil {
			return err
		}
	}
	if w.up, err = startUpstreams(w.Seed); err != nil {
		return err
	}
	if w.fleet, err = startFleet(ctx, w.options, w.dir, versions, w.up); err != nil {
		return err
	}
	w.storm = &storm{fleet: w.fleet, up: w.up, recorder: w.recorder, seed: w.Seed}
	w.load, err = load.New(load.Options{
		Seed: w.Seed, Rate: w.rate(), Jobs: w.Jobs, Replicas: w.fleet.targets(), NATS: w.fleet.nats, Tenants: tenants, Others: []load.Tenant{grey},
		VideoModels: []string{modelFilm, modelReel, modelPair}, MaxPayload: w.maxPayload(), ChatModels: []string{modelTalk}, Recorder: w.recorder, Life: clientLife,
	})
	w.storm.load = w.load
	return err
}

// versions returns the service binaries. The replicas begin with the first.
func (w *world) versions(ctx context.Context) ([]string, error) {
	now := w.Service
	if now == "" {
		progressf("building %s", servicePath)
		var err error
		if now, err = build(ctx, w.dir, w.Race, w.plan().has(clock)); err != nil {
			return nil, err
		}
	}
	if w.UpgradeFrom == "" {
		return []string{now}, nil
	}
	progressf("building %s of commit %s", servicePath, w.UpgradeFrom)
	before, err := buildCommit(ctx, w.dir, w.UpgradeFrom, w.Race)
	if err != nil {
		return nil, err
	}
	return []string{before, now}, acceptsConfiguration(ctx, w.dir, before, now)
}

// smallPayload is the max_payload of nodes with SmallPayload. Many replies are larger.
const smallPayload = 512 << 10

// maxPayload returns the max_payload of the nodes, in bytes. 0 means the default.
func (o options) maxPayload() int {
	if o.SmallPayload {
		return smallPayload
	}
	return 0
}

// rate spreads the jobs of a run with kills over the duration of the kills.
func (w *world) rate() float64 {
	if w.Kills == 0 {
		return w.Rate
	}
	const (
		oneKill = maxUptime/2 + 500*time.Millisecond
		queued  = 0.85 // of all requests; the others are inline chats or abandoned
	)
	return float64(w.Jobs) / queued / (time.Duration(w.Kills) * oneKill).Seconds()
}

// work runs load and faults, heals, and waits until all jobs have ended.
func (w *world) work(ctx context.Context) error {
	loaded := make(chan struct{})
	loading, cancel := context.WithCancel(ctx)
	defer func() { cancel(); <-loaded }()
	go func() { defer close(loaded); w.load.Run(loading) }()
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer func() { stop(); watchers.Wait() }()
	watchers.Go(func() { w.watch(watching) })
	watchers.Go(func() { w.storm.stalls(watching) })
	watchers.Go(func() { w.load.Listing(watching) })
	if err := w.faults(ctx); err != nil {
		return err
	}
	if w.Jobs == 0 {
		w.load.Stop()
	}
	if err := w.storm.heal(ctx); err != nil {
		return err
	}
	progressf("healed; waiting for the clients and the open jobs")
	if err := w.await(ctx, loaded); err != nil {
		return err
	}
	if err := w.drain(ctx); err != nil {
		return err
	}
	return w.calm(ctx)
}

// calmFor is how long lists are requested at the end, when they must succeed.
const calmFor = 5 * time.Second

// calm waits until lists must succeed, and calmFor after that. The jobs may have ended earlier.
func (w *world) calm(ctx context.Context) error {
	faults, _ := w.storm.done()
	faultinject.Pause(ctx, time.Until(check.QuietFrom(w.began, faults).Add(calmFor)))
	return context.Cause(ctx)
}

// faults runs the plan or the kills.
func (w *world) faults(ctx context.Context) error {
	if w.Kills > 0 {
		return w.storm.kills(ctx, w.Seed, w.Kills)
	}
	ctx, cancel := context.WithTimeout(ctx, w.Duration)
	defer cancel()
	return w.storm.run(ctx, w.plan())
}

// await waits until the clients are done with their jobs. If they are not, it dumps the stacks of
// all processes.
func (w *world) await(ctx context.Context, loaded <-chan struct{}) error {
	limit := drainTimeout
	if w.Jobs > 0 { // the remaining jobs must start first
		limit += time.Duration(float64(w.Jobs) / w.rate() * float64(time.Second))
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-loaded:
		return nil
	case <-timer.C:
		progressf("some clients are not done")
		return w.dump(ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drain waits until no job is open and no request in the inbox can become one. The checker judges
// jobs that remain open.
func (w *world) drain(ctx context.Context) error {
	r, err := newReader(w.fleet.nats)
	if err != nil {
		return err
	}
	defer r.close()
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	for {
		what, err := w.openWork(ctx, r)
		if err == nil && what == "" {
			return nil
		}
		if !faultinject.Pause(ctx, time.Second) {
			w.storm.broke("work-left", "%s are left (%v)", what, err)
			return nil
		}
	}
}

// openWork describes the open work. It returns "" if there is none. A message may stay in the inbox
// although its request was admitted. If its reader was killed before the ack, the message stays
// until it is redelivered.
func (w *world) openWork(ctx context.Context, r *reader) (string, error) {
	jobs, inbox, err := r.open(ctx)
	if err != nil {
		return "", err
	}
	if jobs > 0 {
		ids, err := r.openJobs(ctx)
		return fmt.Sprintf("%d work items: %s", jobs, ids), err
	}
	if inbox == 0 {
		return "", nil
	}
	h := &check.History{Calls: w.recorder.Calls()}
	h.Faults, _ = w.storm.done()
	if err := r.jobs(ctx, h); err != nil {
		return "", err
	}
	if n := check.Unadmitted(h); n > 0 {
		return fmt.Sprintf("%d requests in the inbox", n), nil
	}
	return "", nil
}

// watch detects replicas that end by themselves, and reports progress.
func (w *world) watch(ctx context.Context) {
	seen := map[string]bool{}
	for n := 0; faultinject.Pause(ctx, 100*time.Millisecond); n++ {
		if name := w.fleet.fallen(); name != "" && !seen[name] {
			seen[name] = true
			w.storm.broke("alive", "%s ended by itself", name)
		}
		if n%300 == 299 {
			asked, good := w.recorder.Answers()
			progressf("%d questions, %d granted", asked, good)
		}
	}
}

func (w *world) history(ctx context.Context) (*check.History, error) {
	h := &check.History{Config: checked(), Began: w.began, Calls: w.recorder.Calls(), Followed: w.recorder.Followed()}
	h.Final = w.load.WholeLists(ctx, w.fleet.up()) // before the log is read, so that the log contains everything listed
	h.Lists = w.recorder.Lists()
	h.Faults, _ = w.storm.done()
	w.up.addTo(h)
	r, err := newReader(w.fleet.nats)
	if err != nil {
		return nil, err
	}
	defer r.close()
	h.Finished = time.Now()
	return h, r.history(ctx, h)
}

// judge checks the history and stores it next to the logs.
func (w *world) judge(h *check.History) result {
	r := result{
		options: w.options, Begin: w.began, End: time.Now(), Faults: h.Faults, Upstream: w.up.faults(), Starts: w.storm.failedStarts(),
		Keeps: w.fleet.keeps(), Dir: w.dir,
	}
	r.Violations, r.Counts = check.Run(h)
	_, wrong := w.storm.done()
	r.Violations = append(append(wrong, w.fleet.complaints()...), r.Violations...)
	if len(r.Violations) > 0 || w.Keep {
		if err := keep(filepath.Join(w.dir, "history.json"), h); err != nil {
			progressf("the history is not kept: %v", err)
		}
	}
	return r
}

func keep(path string, h *check.History) error {
	data, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// kept reads a history written by keep. Unknown fields are an error, because they mean that another
// version wrote the history, which would be judged wrongly.
func kept(path string) (*check.History, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	var h check.History
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	if err := d.Decode(&h); err != nil {
		return nil, fmt.Errorf("%s is not a history of this version: %w", path, err)
	}
	return &h, nil
}

// close ends everything. It removes the directory unless it is needed.
func (w *world) close(needed bool) error {
	var errs []error
	if w.load != nil {
		errs = append(errs, w.load.Close())
	}
	if w.fleet != nil {
		errs = append(errs, w.fleet.close())
	}
	if w.up != nil {
		errs = append(errs, w.up.close())
	}
	if needed || w.Keep {
		progressf("kept %s", w.dir)
	} else if w.dir != "" {
		if w.SmallDisk {
			errs = append(errs, unmountSmallDisk(w.dir))
		}
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}
