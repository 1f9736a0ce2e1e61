package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// storeEvery is the interval between checks of the embedded server's store.
	storeEvery = 2 * time.Second
	// spaceEvery is the interval between checks of the free disk space.
	spaceEvery = 100 * time.Millisecond
	// jobSpace and eventSpace are the free disk space, in bytes, that the embedded server needs for
	// new jobs and for any write. The difference is for the events of jobs that have begun.
	jobSpace   = 128 << 20
	eventSpace = 64 << 20
	// maxRestarts limits the number of restarts if the store keeps failing.
	maxRestarts = 2
	// restartGrace is how long after a restart the outcome of an earlier write may still be
	// undecided.
	restartGrace = 2 * PublishTimeout
	// faultFor is how long a failed write marks an external server's store as failing. A successful
	// write clears the mark earlier.
	faultFor = 30 * time.Second
)

// storeFault is a write that failed for a reason other than a stream limit, such as a full disk.
type storeFault struct {
	err error
	at  time.Time
}

// storeFaults holds the latest fault, or nil if a write has succeeded since.
type storeFaults struct{ last atomic.Pointer[storeFault] }

func (f *storeFaults) set(err error) { f.last.Store(&storeFault{err, time.Now()}) }

func (f *storeFaults) clear() {
	if f.last.Load() != nil {
		f.last.Store(nil)
	}
}

// errLowSpace refuses jobs and events before the embedded server's disk is full.
var errLowSpace = fmt.Errorf("%w: nats.data_dir has less than %d MiB of disk space left", ErrUnavailable, jobSpace>>20)

// diskFull returns the embedded server's fault while its disk is full. The server does not answer
// writes during that time.
func (w *writer) diskFull() error {
	if f := w.faults.last.Load(); f != nil && w.server != nil && isFull(f.err) {
		return f.err
	}
	return nil
}

// room returns errLowSpace if the embedded server's disk has less than need bytes left.
func (w *writer) room(need int64) error {
	if w.server != nil && w.server.free.Load() < need {
		return errLowSpace
	}
	return nil
}

// RoomForJobs returns why the embedded server's disk has no room for new jobs, or nil. Reads, and
// the events of jobs that have begun, do not need that much.
func (b *Broker) RoomForJobs() error { return b.room(jobSpace) }

// noteWrite records the result of a write to the job log of an external server. If the disk is
// full, the server either refuses the write or does not answer within PublishTimeout, which late
// reports. The result does not count if the caller gave up earlier. The embedded server is checked
// by keepStore.
func (w *writer) noteWrite(stream string, err error, late bool) {
	switch {
	case w.server != nil || stream != w.names.Tasks():
	case err == nil:
		w.faults.clear()
	case late, errors.Is(err, ErrStorage):
		w.faults.set(err)
	}
}

// StoreError returns why the server cannot store messages, or nil. For the embedded server, the
// result is at most storeEvery old, and StoreError also reports low disk space. For an external
// server, it is based on recent writes to the job log.
func (b *Broker) StoreError() error {
	f := b.faults.last.Load()
	switch {
	case f != nil && (b.embedded != nil || time.Since(f.at) <= faultFor):
		return f.err
	case b.embedded != nil && b.embedded.isStalled():
		return errStalled
	default:
		return b.RoomForJobs()
	}
}

var errStalled = fmt.Errorf("%w: embedded NATS server has been syncing a stream to disk for more than %s", ErrUnavailable, PublishTimeout)

// isStalled reports whether writeError has been waiting for a stream's sync for longer than
// PublishTimeout.
func (e *embedded) isStalled() bool {
	since := e.checking.Load()
	return since != 0 && time.Since(time.Unix(0, since)) > PublishTimeout
}

// Failed returns a channel that receives an error if restarting the embedded server did not help.
// The process must then exit.
func (b *Broker) Failed() <-chan error { return b.failed }

// writeError returns the first write error that the server reports for a stream. nats-server 2.15.2
// reports it until it restarts. known is false if the server reports only other errors. writeError
// waits for a sync in progress.
func (e *embedded) writeError() (known bool, err error) {
	e.checking.Store(time.Now().UnixNano())
	defer e.checking.Store(0)
	health := e.server().Healthz(&server.HealthzOptions{Account: server.DEFAULT_GLOBAL_ACCOUNT, Details: true})
	for _, found := range health.Errors {
		if found.Type == server.HealthzErrorStream {
			if err := cannotWrite(found.Stream, found.Error); err != nil {
				return true, err
			}
		}
	}
	return len(health.Errors) == 0, nil
}

// cannotWrite returns an error if text, the server's report on a stream, describes a write error.
func cannotWrite(stream, text string) error {
	if !strings.Contains(text, " write error: ") {
		return nil
	}
	why := text[strings.LastIndex(text, ": ")+2:] // without the path, because callers see this
	err := fmt.Errorf("%w: embedded NATS server cannot write %s: %s", ErrUnavailable, stream, why)
	if isFull(err) {
		err = fmt.Errorf("%w (nats.data_dir needs %d MiB)", err, jobSpace>>20)
	}
	return err
}

// isFull reports whether a write failed because there was no space left. nats-server reports the
// cause as text.
func isFull(err error) bool {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}

// checkSpace reads the free disk space. If that fails, the last result stays.
func (e *embedded) checkSpace() error {
	free, err := freeSpace(e.options.DataDir)
	if err != nil {
		return err
	}
	switch was := e.free.Swap(free); {
	case free < jobSpace && was >= jobSpace:
		e.log.Error("stopped accepting jobs before the disk is full", "data_dir", e.options.DataDir, "free", free, "needed", jobSpace)
	case free >= jobSpace && was < jobSpace:
		e.log.Info("accepting jobs again", "data_dir", e.options.DataDir, "free", free)
	}
	return nil
}

// watchSpace checks the disk space until ctx ends. If the disk fills up, nats-server 2.15.2 may list
// every sequence of a stream up to its last one as lost. In the streams that firstSequence numbers
// by time, that takes all memory, and the server stops answering.
func (e *embedded) watchSpace(ctx context.Context) {
	for err := error(nil); !errors.Is(err, errors.ErrUnsupported) && Wait(ctx, spaceEvery) == nil; {
		err = e.checkSpace()
	}
}

// trySpace writes a file of 16 MiB to the data directory, because a quota may leave less than the
// file system has.
func (e *embedded) trySpace() error {
	f, err := os.Create(filepath.Join(e.options.DataDir, "genbus.space"))
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 16<<20))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

// restart replaces the server with a new one at the same address.
func (e *embedded) restart() error {
	if addr, ok := e.server().Addr().(*net.TCPAddr); ok {
		if host, port, err := net.SplitHostPort(e.options.Listen); err == nil && port == "0" {
			e.options.Listen = net.JoinHostPort(host, fmt.Sprint(addr.Port)) // assigned by the system
		}
	}
	e.server().Shutdown()
	e.server().WaitForShutdown()
	err := e.start()
	if err == nil {
		e.restarted.Store(time.Now().UnixNano())
	}
	return err
}

// inRestartGrace reports whether the outcome of writes sent before a restart may still be
// undecided. If the restart was due to a failed write, they are lost.
func (e *embedded) inRestartGrace() bool {
	at := e.restarted.Load()
	return at != 0 && time.Since(time.Unix(0, at)) < restartGrace
}

// keepStore watches the embedded server's store until ctx ends. After the disk was full, it
// restarts the server once there is space again. If restarts do not help, it sends an error to
// Failed. Other write errors do not cause a restart, because after a failed sync, a new server may
// load messages that are not on disk.
func (b *Broker) keepStore(ctx context.Context) {
	restarts, reported := 0, false
	for Wait(ctx, storeEvery) == nil {
		known, cause := b.embedded.writeError()
		if cause == nil {
			if known {
				b.faults.clear()
				restarts, reported = 0, false
			}
			continue
		}
		if !reported {
			reported = true
			b.log.Error("embedded NATS server cannot write", "data_dir", b.embedded.options.DataDir, "error", cause)
		}
		b.faults.set(cause)
		if !isFull(cause) {
			continue
		}
		if b.RoomForJobs() != nil {
			continue
		}
		if err := b.embedded.trySpace(); err != nil && isFull(err) {
			continue
		} else if err != nil {
			b.failed <- fmt.Errorf("%w; nats.data_dir is not writable: %w", cause, err)
			return
		}
		err := errors.New("the store failed again")
		for err != nil && restarts < maxRestarts && ctx.Err() == nil {
			restarts++
			err = b.embedded.restart()
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.failed <- fmt.Errorf("%w after %d restarts: %w", cause, restarts, err)
			return
		}
		b.log.Warn("restarted embedded NATS server after a full disk", "error", cause)
		if known, err := b.embedded.writeError(); known && err == nil {
			b.faults.clear()
		}
	}
}
