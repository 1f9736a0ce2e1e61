package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/load"
	"github.com/genbus/genbus/test/freeport"
)

// replica is one service process. Its addresses survive restarts.
type replica struct {
	load.Replica
	process *faultinject.Process
	// links connect the replica to the broker's nodes. There are none with an embedded broker.
	links  []*faultinject.Link
	log    string
	binary string // path of a symbolic link to the version that the next process runs
	config string // path of its configuration
	clock  string // path of the file with its clock error
	setup  setup

	mu   sync.Mutex
	down bool // on purpose
}

type fleet struct {
	replicas []*replica
	nodes    *faultinject.Nodes // nil for an embedded broker
	nats     string             // for the clients
	probe    *http.Client
	versions []string // paths of the service binaries
}

func startFleet(ctx context.Context, o options, dir string, versions []string, up *upstreams) (*fleet, error) {
	f := &fleet{versions: versions, probe: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	if o.Cluster {
		nodes, err := faultinject.StartNodes(ctx, faultinject.NodesOptions{Dir: dir, N: nodeCount, MaxPayload: o.maxPayload()})
		if err != nil {
			return nil, err
		}
		f.nodes, f.nats = nodes, nodes.ClientURLs()
	}
	for i := range o.Replicas {
		r, err := f.start(ctx, o, i, dir, up)
		if r != nil {
			f.replicas = append(f.replicas, r)
		}
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return f, nil
}

func (f *fleet) start(ctx context.Context, o options, i int, dir string, up *upstreams) (*replica, error) {
	r := &replica{log: filepath.Join(dir, fmt.Sprintf("replica%d.log", i))}
	r.Name = fmt.Sprintf("replica %d", i)
	s := setup{Name: r.Name, Frail: up.frail.URL(), Strict: up.strict.URL(), Honest: up.honest.URL(), DataDir: filepath.Join(dir, "data"), SmallLog: o.SmallLog}
	addrs, err := freeport.Addrs(3)
	if err != nil {
		return r, err
	}
	s.HTTP, s.GRPC, s.Listen = addrs[0], addrs[1], addrs[2]
	if err := f.connect(r, &s); err != nil {
		return r, err
	}
	r.HTTP, r.GRPC = "http://"+s.HTTP, s.GRPC
	r.config, r.setup = filepath.Join(dir, fmt.Sprintf("replica%d.yaml", i)), s
	r.clock = filepath.Join(dir, fmt.Sprintf("replica%d.clock", i))
	r.binary = filepath.Join(dir, fmt.Sprintf("replica%d", i))
	if err := errors.Join(r.setup.write(r.config), r.setClock(0), os.Symlink(f.versions[0], r.binary)); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	r.process, err = faultinject.Start(ctx, faultinject.Spec{
		Path: r.binary, Args: []string{"serve"}, Env: serviceEnv("GENBUS_CONFIG="+r.config, skewEnv+"="+r.clock), Dir: dir, Log: r.log,
		Ready: func(ctx context.Context) error { return f.ready(ctx, r) },
	})
	return r, err
}

// connect gives a replica its own links to the nodes, so that it can be cut off separately. An
// embedded broker needs none.
func (f *fleet) connect(r *replica, s *setup) error {
	if f.nodes == nil {
		f.nats = "nats://" + s.Listen
		return nil
	}
	var urls []string
	for n := range f.nodes.Len() {
		l, err := faultinject.NewLink(strings.TrimPrefix(f.nodes.ClientURL(n), "nats://"))
		if err != nil {
			return err
		}
		r.links = append(r.links, l)
		urls = append(urls, "nats://"+l.Addr())
	}
	s.NATS = strings.Join(urls, ",")
	return nil
}

const readyTimeout = 90 * time.Second

func (f *fleet) ready(ctx context.Context, r *replica) error { return f.probed(ctx, r, "/readyz/jobs") }

// probed requests a health path and returns an error unless it answers 200.
func (f *fleet) probed(ctx context.Context, r *replica, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.HTTP+path, nil)
	if err != nil {
		return err
	}
	resp, err := f.probe.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s of %s: %s", path, r.Name, resp.Status)
	}
	return nil
}

func (f *fleet) targets() []load.Replica {
	out := make([]load.Replica, len(f.replicas))
	for i, r := range f.replicas {
		out[i] = r.Replica
	}
	return out
}

// fallen returns the name of a replica that ended by itself.
func (f *fleet) fallen() string {
	for _, r := range f.replicas {
		r.mu.Lock()
		down := r.down
		r.mu.Unlock()
		if !down && !r.process.Running() {
			return r.Name
		}
	}
	return ""
}

func (f *fleet) up() (out []int) {
	for i, r := range f.replicas {
		r.mu.Lock()
		down := r.down
		r.mu.Unlock()
		if !down && r.process.Running() {
			out = append(out, i)
		}
	}
	return out
}

func (r *replica) setDown(down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = down
}

func (f *fleet) close() error {
	var errs []error
	for _, r := range f.replicas {
		r.setDown(true)
		if r.process != nil {
			errs = append(errs, r.process.Kill())
		}
		for _, l := range r.links {
			errs = append(errs, l.Close())
		}
	}
	if f.nodes != nil {
		errs = append(errs, f.nodes.Close())
	}
	f.probe.CloseIdleConnections()
	return errors.Join(errs...)
}
