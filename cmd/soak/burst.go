package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
	"github.com/genbus/genbus/test/faultinject/load"
)

// How many wishes a burst has.
const (
	largeBurst     = 6
	duplicateBurst = 10
)

// burst has clients wish for many jobs of one shape at once.
func (s *storm) burst(ctx context.Context, shape load.Shape, n int) error {
	defer s.begin(check.Fault{Kind: check.FaultBurst, Target: string(shape)})()
	s.bursts++
	s.load.Burst(ctx, s.bursts, n, shape)
	return nil
}

const (
	// fillBurst is how many jobs are wished for at most until the log is full, and
	// fillRefusals how many refusals show that it is.
	fillBurst    = 10_000
	fillRefusals = 20
	fillTimeout  = 2 * time.Minute
)

// fill has an operator pause all routes, and clients wish for jobs until the log is full.
// Then the jobs go on, and each of them ends.
func (s *storm) fill(ctx context.Context) error {
	defer s.begin(check.Fault{Kind: check.FaultFill, Target: "log"})()
	for _, r := range served {
		if err := s.setPaused(ctx, r, true); err != nil {
			return err
		}
	}
	before := s.told.Refusals(codeFull)
	full, stop := context.WithTimeout(ctx, fillTimeout)
	defer stop()
	var burst errgroup.Group
	burst.Go(func() error { return s.burst(full, load.Plain, fillBurst) })
	for s.told.Refusals(codeFull) < before+fillRefusals && faultinject.Pause(full, 100*time.Millisecond) {
		continue
	}
	if full.Err() != nil && ctx.Err() == nil {
		s.broke("filled", "the log is not full after %s", fillTimeout)
	}
	stop()
	err := burst.Wait()
	for _, r := range served {
		err = errors.Join(err, s.setPaused(ctx, r, false))
	}
	return err
}

// codeFull is what refuses a job for which the log has no room.
const codeFull = "storage_full"

const (
	// garbageTenant publishes what is no request. Its jobs end at once, as invalid.
	garbageTenant = "grey"
	// wrongTenant is no tenant at all.
	wrongTenant = "gr\u00e9y"
	// garbageSize is that of one message, and garbageBurst how many of them come at once:
	// more than the stream of dead letters holds.
	garbageSize  = 200 << 10
	garbageBurst = 2 * deadBytes / garbageSize
)

// garbage has a tenant fill the inbox with large messages that are no requests.
func (s *storm) garbage(ctx context.Context) error {
	defer s.begin(check.Fault{Kind: check.FaultGarbage, Target: garbageTenant})()
	r, err := newReader(s.fleet.nats)
	if err != nil {
		return err
	}
	defer r.close()
	random := rand.New(rand.NewPCG(s.seed, 3))
	for i := range garbageBurst {
		tenant := garbageTenant
		if i%10 == 0 {
			tenant = wrongTenant
		}
		_, err := r.js.PublishAsync(r.names.Request(subject.Kinds[i%len(subject.Kinds)], tenant), noise(random), jetstream.WithStallWait(healTimeout))
		if err != nil {
			return fmt.Errorf("publish garbage: %w", err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	select {
	case <-r.js.PublishAsyncComplete():
	case <-ctx.Done(): // what is not stored yet need not be
	}
	return nil
}

// noise is a message that is no request.
func noise(r *rand.Rand) []byte {
	out := make([]byte, 0, garbageSize+8)
	for len(out) < garbageSize {
		out = binary.LittleEndian.AppendUint64(out, r.Uint64())
	}
	return out
}
