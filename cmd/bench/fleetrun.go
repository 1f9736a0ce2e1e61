package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/subject"
)

// fleet is a group of replicas with one NATS server and one upstream.
type fleet struct {
	w        *workshop
	name     string
	nats     *natsServer
	sandbox  *child
	services []*service
}

// startFleet starts the replicas one after another with the same configuration.
func (w *workshop) startFleet(ctx context.Context, name string, replicas int, setup serviceSetup) (f *fleet, err error) {
	f = &fleet{w: w, name: name}
	defer func() {
		if err != nil {
			f.discard()
		}
	}()
	if f.nats, err = w.startNATS(ctx, name); err != nil {
		return nil, err
	}
	if f.sandbox, setup.Upstream, err = w.startSandbox(ctx); err != nil {
		return nil, err
	}
	setup.NATS = f.nats.url
	for i := range replicas {
		s, err := w.startService(ctx, fmt.Sprintf("%s-replica-%d", name, i), setup)
		if err != nil {
			return nil, err
		}
		f.services = append(f.services, s)
	}
	return f, nil
}

func (f *fleet) discard() {
	for _, s := range f.services {
		s.discard()
	}
	if f.sandbox != nil {
		f.sandbox.kill()
	}
	if f.nats == nil {
		return
	}
	f.nats.discard()
	if err := discardData(f.w, f.name); err != nil {
		progressf("%v", err)
	}
}

func (f *fleet) alive() error {
	for _, s := range f.services {
		if err := s.alive(); err != nil {
			return err
		}
	}
	return f.sandbox.alive()
}

// wait waits for d and checks that all processes are alive.
func (f *fleet) wait(ctx context.Context, d time.Duration) error {
	if err := pause(ctx, d); err != nil {
		return err
	}
	return f.alive()
}

// usage is the resource usage of all replicas and their NATS server.
type usage struct {
	seconds   float64
	cpu       time.Duration // of the replicas
	serverCPU time.Duration
	messages  traffic
}

func (f *fleet) measure(ctx context.Context, during func() error) (usage, error) {
	var p procs
	for _, s := range f.services {
		p = append(p, s.pid())
	}
	p = append(p, f.nats.pid())
	begin := time.Now()
	before, err := p.read()
	if err != nil {
		return usage{}, err
	}
	sent, err := f.nats.traffic(ctx, len(f.services))
	if err != nil {
		return usage{}, err
	}
	if err := during(); err != nil {
		return usage{}, err
	}
	u := usage{seconds: time.Since(begin).Seconds()}
	after, err := p.read()
	if err != nil {
		return usage{}, err
	}
	total, err := f.nats.traffic(ctx, len(f.services))
	if err != nil {
		return usage{}, err
	}
	for i := range f.services {
		u.cpu += after[i].CPU - before[i].CPU
	}
	u.serverCPU = after[len(f.services)].CPU - before[len(f.services)].CPU
	u.messages, err = total.since(sent)
	return u, err
}

// fleetJobs publishes jobs to the inbox and counts their ends.
type fleetJobs struct {
	fleet *fleet
	pub   *publisher
	total int // published so far

	mu     sync.Mutex
	ended  map[string]bool // by ID
	failed string          // how the first failed job ended
}

func newFleetJobs(f *fleet, kind subject.Kind) (*fleetJobs, error) {
	request := videoRequest(fmt.Sprintf(`{"sandbox":{"duration_ms":%d,"statuses":["in_progress","completed"]}}`, fleetLife.Milliseconds()))
	if kind == subject.Chat {
		request = chatRequest()
	}
	pub, err := newPublisher(f.nats.url, kind, request)
	if err != nil {
		return nil, err
	}
	j := &fleetJobs{fleet: f, pub: pub, ended: map[string]bool{}}
	sub, err := pub.nc.Subscribe(subject.Default().DonePattern(), func(m *nats.Msg) { j.add(m.Subject) })
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = pub.nc.Flush() // subscribe before the first job
	}
	if err != nil {
		pub.close()
		return nil, err
	}
	return j, nil
}

func (j *fleetJobs) close() { j.pub.close() }

// add counts each end only once, because another replica may store it in the feed again.
func (j *fleetJobs) add(done string) {
	name, err := subject.Default().ParseDone(done)
	if err != nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended[name.ID] = true
	if name.Status != "completed" && j.failed == "" {
		j.failed = fmt.Sprintf("%s: %s", name.ID, name.Status)
	}
}

func (j *fleetJobs) count() (int, string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.ended), j.failed
}

func (j *fleetJobs) run(ctx context.Context, n int, rate float64) error {
	every := time.Duration(float64(time.Second) / rate)
	next := time.Now()
	for range n {
		if err := pause(ctx, time.Until(next)); err != nil {
			return err
		}
		next = next.Add(every)
		if err := j.pub.publish(ctx); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		j.total++
	}
	if err := j.pub.awaitAcks(ctx); err != nil {
		return err
	}
	return j.wait(ctx)
}

func (j *fleetJobs) wait(ctx context.Context) error {
	for {
		ended, failed := j.count()
		if failed != "" {
			return fmt.Errorf("a job did not complete: %s", failed)
		}
		if ended >= j.total {
			return nil
		}
		if err := j.fleet.alive(); err != nil {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d jobs ended: %w", ended, j.total, err)
		}
	}
}
