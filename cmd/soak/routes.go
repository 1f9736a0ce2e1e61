package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

// drainRoute makes all replicas drain a route, and undoes it after a while.
func (s *storm) drainRoute(ctx context.Context, r route, d time.Duration) error {
	defer s.begin(check.Fault{Kind: check.FaultRoute, Target: r.name})()
	if err := s.reload(ctx, r.name); err != nil {
		return err
	}
	faultinject.Pause(ctx, d)
	return s.reload(ctx, "")
}

// reload makes all replicas reload with one route draining, or with none, and waits until each has
// applied the change.
func (s *storm) reload(ctx context.Context, draining string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	var all errgroup.Group
	for _, r := range s.fleet.replicas {
		all.Go(func() error { return r.reload(ctx, draining) })
	}
	return all.Wait()
}

// Log messages of a reload.
const (
	reloaded    = `"reloaded configuration`
	notReloaded = `"could not reload configuration`
)

// reload makes a replica reload its configuration with one route draining. It retries a refused
// reload, for example while the broker is unavailable.
func (r *replica) reload(ctx context.Context, draining string) error {
	r.setup.Draining = draining
	if err := r.setup.write(r.config); err != nil {
		return err
	}
	for {
		done, refused, err := r.reloads()
		if err != nil {
			return err
		}
		if err := r.process.Reload(); err != nil {
			return err
		}
		if again, err := r.awaitReload(ctx, done, refused); !again {
			return err
		}
	}
}

// awaitReload waits until the log shows another reload. again is true if that reload was refused.
func (r *replica) awaitReload(ctx context.Context, done, refused int) (again bool, err error) {
	for {
		nowDone, nowRefused, err := r.reloads()
		switch {
		case err != nil:
			return false, err
		case nowDone > done:
			return false, nil
		case nowRefused > refused && faultinject.Pause(ctx, time.Second):
			return true, nil
		case !faultinject.Pause(ctx, 20*time.Millisecond):
			return false, errors.Join(fmt.Errorf("%s does not take its configuration", r.Name), ctx.Err())
		}
	}
}

// reloads counts the applied and refused reloads in the log.
func (r *replica) reloads() (done, refused int, err error) {
	data, err := os.ReadFile(r.log)
	return bytes.Count(data, []byte(reloaded)), bytes.Count(data, []byte(notReloaded)), err
}
