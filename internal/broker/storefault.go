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
	// storeEvery is how often the embedded server is asked whether it can write.
	storeEvery = 2 * time.Second
	// spaceNeeded is what the disk must take before that server is started again, in bytes.
	spaceNeeded = 16 << 20
	// maxRestarts is how often it is started again because it cannot write, unless it could for
	// soundFor in between.
	maxRestarts = 2
	soundFor    = time.Minute
	// faultFor is how long a write that another server's store refused is remembered, unless a
	// later one was taken.
	faultFor = 30 * time.Second
)

// storeFault is a write that the store of the server refused although no limit was reached, such as
// on a full disk.
type storeFault struct {
	err error
	at  time.Time
}

// storeFaults has the last one; nil once a later write was taken.
type storeFaults struct{ last atomic.Pointer[storeFault] }

// note takes what became of a write.
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

// cannotStore is why the embedded server does not take writes, as it answers none of them then.
func (c *connection) cannotStore() error {
	if f := c.faults.last.Load(); f != nil && c.writers.server != nil {
		return f.err
	}
	return nil
}

// noteWrite takes what became of a write to another server; the embedded one is asked.
func (c *connection) noteWrite(err error) {
	if c.writers.server == nil {
		c.faults.note(err)
	}
}

// StoreError is why the server cannot store what is written; nil where it can, as far as is known. The
// embedded server is asked every two seconds. Of another one the writes tell that failed lately.
func (b *Broker) StoreError() error {
	f := b.faults.last.Load()
	if f == nil || b.embedded == nil && time.Since(f.at) > faultFor {
		return nil
	}
	return f.err
}

// Failed gets an error when the embedded server cannot be made to write again: the process has to end.
func (b *Broker) Failed() <-chan error { return b.failed }

// writeError is why the server does not take writes of a stream any more; nil for none. It keeps the
// error of a write that failed until it is started again (nats-server 2.15.2).
func (e *embedded) writeError() error {
	health := e.server().Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Details: true})
	for _, found := range health.Errors {
		if found.Type == server.HealthzErrorStream && strings.Contains(found.Error, " write error: ") {
			why := found.Error[strings.LastIndex(found.Error, ": ")+2:] // and no path, as callers see it
			return errors.Join(ErrStorage, ErrFull, fmt.Errorf("stream %s: %s", found.Stream, why))
		}
	}
	return nil
}

// hasSpace reports whether the disk takes some bytes.
func (e *embedded) hasSpace() bool {
	f, err := os.CreateTemp(e.options.DataDir, "space-*")
	if err != nil {
		return false
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is small, and temporary by its name
	_, err = f.Write(make([]byte, spaceNeeded))
	return errors.Join(err, f.Sync(), f.Close()) == nil
}

// restart starts the server again, at the same address. Its clients connect again.
func (e *embedded) restart() error {
	if addr := e.server().Addr(); addr != nil && e.options.Listen != "" {
		e.options.Listen = addr.String() // where the port was left to the system
	}
	e.server().Shutdown()
	e.server().WaitForShutdown()
	s, err := startServer(e.options, e.log)
	if err == nil {
		e.running.Store(s)
	}
	return err
}

// keepStore starts the embedded server again where it cannot write and the disk has space, until ctx
// ends. Where that does not help, Failed says so.
func (b *Broker) keepStore(ctx context.Context) {
	restarts, last := 0, time.Time{}
	for Wait(ctx, storeEvery) == nil {
		cause := b.embedded.writeError()
		if cause == nil {
			b.faults.note(nil)
			continue
		}
		if b.faults.last.Load() == nil {
			b.log.Error("the embedded NATS server cannot write; it is started again when nats.data_dir has space", "data_dir", b.embedded.options.DataDir, "error", cause)
		}
		b.faults.note(cause)
		if !b.embedded.hasSpace() {
			continue
		}
		if time.Since(last) > soundFor {
			restarts = 0
		}
		err := errors.New("it cannot write again")
		for err != nil && restarts < maxRestarts {
			restarts++
			err = b.embedded.restart()
		}
		if last = time.Now(); err != nil {
			b.failed <- fmt.Errorf("the embedded NATS server was started again %d times, as it cannot write (%w): %w", restarts, cause, err)
			return
		}
		b.log.Warn("the embedded NATS server was started again, as it could not write", "error", cause)
	}
}
