package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

const (
	// detectTimeout limits the time until the service reports the full disk.
	detectTimeout = 30 * time.Second
	// fillBlock is the size of one write to the filler, in bytes.
	fillBlock = 64 << 10
)

// fullDisk fills the embedded broker's disk for a while. The replica must report it on
// /readyz/jobs, stay alive, and recover without a restart.
func (s *storm) fullDisk(ctx context.Context, long time.Duration) error {
	r := s.fleet.replicas[0]
	defer s.begin(check.Fault{Kind: check.FaultDisk, Target: r.Name, Broker: true, Wipes: true})()
	filler := filepath.Join(r.setup.DataDir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		return err
	}
	block := make([]byte, fillBlock)
	full, cancel := context.WithTimeout(ctx, detectTimeout)
	defer cancel()
	for s.fleet.ready(ctx, r) == nil {
		if _, err := f.Write(block); err != nil && !faultinject.Pause(full, 100*time.Millisecond) {
			s.broke("full-disk", "%s is ready for jobs %s after its disk was full", r.Name, detectTimeout)
			break
		}
	}
	// genbus has stopped accepting jobs. Below 64 MiB, it also stops writing events.
	if _, err := f.Write(make([]byte, 80<<20)); err == nil {
		faultinject.Pause(ctx, time.Second)
		for err == nil && ctx.Err() == nil {
			_, err = f.Write(block)
		}
	}
	faultinject.Pause(ctx, long)
	if err := s.fleet.probed(ctx, r, "/healthz"); err != nil {
		s.broke("full-disk", "while the disk was full: %v", err)
	}
	if err := errors.Join(f.Close(), os.Remove(filler)); err != nil {
		return err
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	for s.fleet.ready(again, r) != nil {
		if !faultinject.Pause(again, 100*time.Millisecond) {
			return errors.Join(fmt.Errorf("%s is not ready for jobs %s after its disk had space; its log ends with its stacks", r.Name, readyTimeout), r.stacks())
		}
	}
	return nil
}
