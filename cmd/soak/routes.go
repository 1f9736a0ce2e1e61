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

// drainRoute has all replicas reload a configuration in which a route is draining, and
// after a while the one in which it is not.
func (s *storm) drainRoute(ctx context.Context, r route, d time.Duration) error {
	defer s.begin(check.Fault{Kind: check.FaultRoute, Target: r.name})()
	if err := s.reload(ctx, r.name); err != nil {
		return err
	}
	faultinject.Pause(ctx, d)
	return s.reload(ctx, "")
}

// reload gives all replicas a configuration in which a route is draining, or none, and
// waits until each has taken it.
func (s *storm) reload(ctx context.Context, draining string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	var all errgroup.Group
	for _, r := range s.fleet.replicas {
		all.Go(func() error { return r.reload(ctx, draining) })
	}
	return all.Wait()
}

// What the service says of a reload.
const (
	reloaded    = `"reloaded configuration`
	notReloaded = `"could not reload configuration`
)

// reload has a replica take its configuration in which a route is draining. One that
// refuses it, as it does while the broker is away, is told again.
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
		if again, err := r.heard(ctx, done, refused); !again {
			return err
		}
	}
}

// heard waits until a reload was done or refused, by what was said before.
func (r *replica) heard(ctx context.Context, done, refused int) (again bool, err error) {
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

// reloads counts what the log says of reloads.
func (r *replica) reloads() (done, refused int, err error) {
	data, err := os.ReadFile(r.log)
	return bytes.Count(data, []byte(reloaded)), bytes.Count(data, []byte(notReloaded)), err
}
