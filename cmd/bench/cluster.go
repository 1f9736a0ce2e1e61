package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/genbus/genbus/test/freeport"
)

// cluster is a group of replicating NATS servers, each in its own process.
type cluster []*natsServer

// startCluster starts n servers with their streams below dir/name. It waits until they have a
// leader that knows all of them.
func (w *workshop) startCluster(ctx context.Context, name string, n int, sync bool) (c cluster, err error) {
	defer func() {
		if err != nil {
			c.discard()
		}
	}()
	addrs, err := freeport.Addrs(n)
	if err != nil {
		return nil, err
	}
	for i := range addrs {
		own := append(addrs[i:len(addrs):len(addrs)], addrs[:i]...)
		flags := []string{"--name", fmt.Sprint("n", i), "--cluster", strings.Join(own, ",")}
		if sync {
			flags = append(flags, "--sync")
		}
		s, err := w.startNATS(ctx, filepath.Join(name, fmt.Sprint("n", i)), flags...)
		if err != nil {
			return c, err
		}
		c = append(c, s)
	}
	return c, c.led(ctx)
}

func (c cluster) led(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("the NATS servers had no leader within %s", startTimeout))
	defer cancel()
	for {
		for _, s := range c {
			var info server.JSInfo
			if err := s.alive(); err != nil {
				return err
			}
			err := readMonitor(ctx, s.http, s.monitor+"/jsz", &info)
			if err == nil && info.Meta != nil && len(info.Meta.Replicas) == len(c)-1 { // only the leader lists them
				return nil
			}
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

func (c cluster) url() string {
	urls := make([]string, len(c))
	for i, s := range c {
		urls[i] = s.url
	}
	return strings.Join(urls, ",")
}

func (c cluster) pids() (pids procs) {
	for _, s := range c {
		pids = append(pids, s.pid())
	}
	return pids
}

// traffic returns the total traffic of genbus's connections.
func (c cluster) traffic(ctx context.Context) (sum traffic, err error) {
	for _, s := range c {
		t, err := readTraffic(ctx, s.http, s.monitor)
		if err != nil {
			return traffic{}, err
		}
		sum.In, sum.Out, sum.ids = sum.In+t.In, sum.Out+t.Out, append(sum.ids, t.ids...)
	}
	return sum, nil
}

// discard stops the servers. Their streams are not needed.
func (c cluster) discard() {
	for _, s := range c {
		s.discard()
	}
}
