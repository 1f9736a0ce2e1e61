package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime/pprof"
	"syscall"

	"github.com/genbus/genbus/test/faultinject/check"
)

// dump writes the stacks of all processes next to the logs, to show what hangs. It ends the
// replicas with SIGQUIT and restarts them.
func (w *world) dump(ctx context.Context) error {
	file, err := os.Create(filepath.Join(w.dir, "clients.txt"))
	if err != nil {
		return err
	}
	if err := errors.Join(pprof.Lookup("goroutine").WriteTo(file, 2), file.Close()); err != nil {
		return err
	}
	for i, r := range w.fleet.replicas {
		progressf("the stacks of %s go to its log", r.Name)
		end := w.storm.begin(w.storm.replicaFault(check.FaultKill, i))
		err := w.quit(ctx, r)
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) quit(ctx context.Context, r *replica) error {
	if err := r.stacks(); err != nil {
		return err
	}
	var ended error
	if ended = r.process.Wait(ctx); ctx.Err() != nil {
		return ended
	}
	return w.storm.restart(ctx, r)
}

// stacks makes a replica write its stacks to its log and end.
func (r *replica) stacks() error {
	r.setDown(true)
	p, err := os.FindProcess(r.process.Pid())
	if err != nil {
		return err
	}
	return p.Signal(syscall.SIGQUIT)
}
