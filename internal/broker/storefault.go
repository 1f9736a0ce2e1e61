package broker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// storeEvery is the interval between checks of the embedded server's store.
	storeEvery = 2 * time.Second
	// spaceNeeded is the free disk space in bytes needed before a restart.
	spaceNeeded = 16 << 20
	// maxRestarts bounds restarts that are less than soundFor apart.
	maxRestarts = 2
	soundFor    = time.Minute
	// faultFor is how long a failed write to an external server makes the store count as failing,
	// unless a later write succeeds.
	faultFor = 30 * time.Second
)

// storeFault is a write that failed for another reason than a stream limit, such as a full disk.
type storeFault struct {
	err error
	at  time.Time
}

// storeFaults holds the latest fault; nil after a successful write.
type storeFaults struct{ last atomic.Pointer[storeFault] }

// note records the result of a write.
func (f *storeFaults) note(err error) {
	switch {
	case err == nil:
		if f.last.Load() != nil {
			f.last.Store(nil)
		}
	case errors.Is(err, ErrStorage):
		f.last.Store(&storeFault{err, time.Now()})
	}
}

// cannotStore returns the embedded server's fault. The server does not answer writes while it has one.
func (c *connection) cannotStore() error {
	if f := c.faults.last.Load(); f != nil && c.writers.server != nil {
		return f.err
	}
	return nil
}

// noteWrite records the result of a write to an external server. keepStore checks the embedded one.
func (c *connection) noteWrite(err error) {
	if c.writers.server == nil {
		c.faults.note(err)
	}
}

// StoreError reports why the server cannot store messages, or nil. It is at most storeEvery old for the
// embedded server, and based on recent writes for an external one.
func (b *Broker) StoreError() error {
	f := b.faults.last.Load()
	if f == nil || b.embedded == nil && time.Since(f.at) > faultFor {
		return nil
	}
	return f.err
}

// Failed delivers an error if restarting the embedded server does not help. The process must end.
func (b *Broker) Failed() <-chan error { return b.failed }

// writeError returns the first write error of any stream. nats-server keeps it until a restart (2.15.2).
func (e *embedded) writeError() error {
	health := e.server().Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Details: true})
	for _, found := range health.Errors {
		if found.Type == server.HealthzErrorStream && strings.Contains(found.Error, " write error: ") {
			why := found.Error[strings.LastIndex(found.Error, ": ")+2:] // without the path: callers see this
			return errors.Join(ErrStorage, ErrFull, fmt.Errorf("stream %s: %s", found.Stream, why))
		}
	}
	return nil
}

// hasSpace reports whether spaceNeeded bytes can be written to the data directory.
func (e *embedded) hasSpace() bool {
	f, err := os.CreateTemp(e.options.DataDir, "space-*")
	if err != nil {
		return false
	}
	defer func() { _ = os.Remove(f.Name()) }() // a leftover is harmless
	_, err = f.Write(make([]byte, spaceNeeded))
	return errors.Join(err, f.Sync(), f.Close()) == nil
}

// restart replaces the server by a new one at the same address.
func (e *embedded) restart() error {
	if addr := e.server().Addr(); addr != nil && e.options.Listen != "" {
		e.options.Listen = addr.String() // keep a port that the system chose
	}
	e.server().Shutdown()
	e.server().WaitForShutdown()
	s, err := startServer(e.options, e.log)
	if err == nil {
		e.running.Store(s)
	}
	return err
}

// keepStore restarts the embedded server after a write error once the disk has space, until ctx ends.
// If that does not help, it sends to Failed.
func (b *Broker) keepStore(ctx context.Context) {
	restarts, last := 0, time.Time{}
	for Wait(ctx, storeEvery) == nil {
		cause := b.embedded.writeError()
		if cause == nil {
			b.faults.note(nil)
			continue
		}
		if b.faults.last.Load() == nil {
			b.log.Error("embedded NATS server cannot write, waiting for disk space", "data_dir", b.embedded.options.DataDir, "error", cause)
		}
		b.faults.note(cause)
		if !b.embedded.hasSpace() {
			continue
		}
		if time.Since(last) > soundFor {
			restarts = 0
		}
		err := errors.New("the disk was full again")
		for err != nil && restarts < maxRestarts {
			restarts++
			err = b.embedded.restart()
		}
		if last = time.Now(); err != nil {
			b.failed <- fmt.Errorf("embedded NATS server cannot write (%w) after %d restarts: %w", cause, restarts, err)
			return
		}
		b.log.Warn("restarted embedded NATS server after a write error", "error", cause)
	}
}
