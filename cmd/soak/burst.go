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

// Requests in a burst.
const (
	largeBurst     = 6
	duplicateBurst = 10
)

func (s *storm) burst(ctx context.Context, shape load.Shape, n int) error {
	defer s.begin(check.Fault{Kind: check.FaultBurst, Target: string(shape)})()
	s.bursts++
	s.load.Burst(ctx, s.bursts, n, shape)
	return nil
}

const (
	// fillBurst limits the requests for filling the log. fillRefusals is the number of refusals
	// after which it counts as full.
	fillBurst    = 10_000
	fillRefusals = 20
	fillTimeout  = 2 * time.Minute
)

// fill pauses all routes and submits jobs until the log is full. Then it resumes the routes, and
// every job must end.
func (s *storm) fill(ctx context.Context) error {
	defer s.begin(check.Fault{Kind: check.FaultFill, Target: "log"})()
	for _, r := range served {
		if err := s.setPaused(ctx, r, true); err != nil {
			return err
		}
	}
	before := s.recorder.Refusals(codeFull)
	full, stop := context.WithTimeout(ctx, fillTimeout)
	defer stop()
	var burst errgroup.Group
	burst.Go(func() error { return s.burst(full, load.Plain, fillBurst) })
	for s.recorder.Refusals(codeFull) < before+fillRefusals && faultinject.Pause(full, 100*time.Millisecond) {
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

// codeFull is the error code for a log without capacity.
const codeFull = "storage_full"

const (
	// garbageTenant publishes invalid requests, which are rejected at once.
	garbageTenant = "grey"
	wrongTenant   = "gr\u00e9y"
	// garbageSize is the size of one message. garbageBurst is the number of messages, which
	// together exceed the limit of a dead letter stream.
	garbageSize  = 200 << 10
	garbageBurst = 2 * deadBytes / garbageSize
)

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
	case <-ctx.Done(): // messages not stored yet do not matter
	}
	return nil
}

func noise(r *rand.Rand) []byte {
	out := make([]byte, 0, garbageSize+8)
	for len(out) < garbageSize {
		out = binary.LittleEndian.AppendUint64(out, r.Uint64())
	}
	return out
}
