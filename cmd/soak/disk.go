package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

const (
	// noticed is how long the service may take to say that it cannot write.
	noticed = 30 * time.Second
	// fillBlock is what is written at a time to fill the disk, in bytes.
	fillBlock = 64 << 10
)

// fullDisk fills the disk of the embedded broker for a while. The replica says that it takes no jobs,
// and lives; when there is space it goes on by itself.
func (s *storm) fullDisk(ctx context.Context, long time.Duration) error {
	r := s.fleet.replicas[0]
	defer s.begin(check.Fault{Kind: check.FaultDisk, Target: r.Name, Broker: true, Wipes: true})()
	filler := filepath.Join(r.setup.DataDir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		return err
	}
	block := make([]byte, fillBlock)
	full, cancel := context.WithTimeout(ctx, noticed)
	defer cancel()
	for s.fleet.ready(ctx, r) == nil { // it writes only while somebody wants something
		if _, err := f.Write(block); err != nil && !faultinject.Pause(full, 100*time.Millisecond) {
			s.broke("full-disk", "%s is ready for jobs %s after its disk was full", r.Name, noticed)
			break
		}
	}
	faultinject.Pause(ctx, long)
	if err := s.fleet.alive(ctx, r); err != nil {
		s.broke("full-disk", "while the disk was full: %v", err)
	}
	if err := errors.Join(f.Close(), os.Remove(filler)); err != nil {
		return err
	}
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyTimeout)
	defer cancel()
	for s.fleet.ready(again, r) != nil {
		if !faultinject.Pause(again, 100*time.Millisecond) {
			return fmt.Errorf("%s is not ready for jobs %s after its disk had space", r.Name, readyTimeout)
		}
	}
	return nil
}

// alive asks whether the process of a replica lives.
func (f *fleet) alive(ctx context.Context, r *replica) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.HTTP+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := f.probe.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/healthz of %s: %s", r.Name, resp.Status)
	}
	return nil
}
