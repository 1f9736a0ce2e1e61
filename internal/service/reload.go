package service

import (
	"context"
	"os"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
)

// keepReloading reloads the configuration with each signal until ctx ends.
func (s *Service) keepReloading(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reloads:
			_ = s.Reload(ctx) // which says it
		}
	}
}

// Reload reads the configuration again, and puts what a running process can take from it
// into force. Where anything is wrong, nothing has changed in this process. The log says
// what became of it, and so does the error. Reloads come one after the other, while Run
// runs. A stop waits for the one in hand, which waits for nothing when ctx has ended.
func (s *Service) Reload(ctx context.Context) error {
	changes, err := s.reload(ctx)
	s.logReload(changes, err)
	return err
}

func (s *Service) reload(ctx context.Context) (config.Changes, error) {
	read := time.Now()
	next, changes, err := s.live.Now().Reload(s.source)
	if err != nil {
		return config.Changes{}, err
	}
	swap, err := s.routes.Reload(next)
	if err != nil {
		return config.Changes{}, err
	}
	plan, err := s.consumer.Prepare(ctx, next)
	if err != nil {
		return config.Changes{}, err
	}
	if err := telemetry.SetLevel(s.log, next.Log.Level); err != nil {
		return config.Changes{}, err
	}
	plan.Apply(func() {
		swap()
		s.live.Set(next)
	})
	s.metrics.ConfigRead(read)
	s.configRead.Store(read.UnixNano())
	return changes, nil
}

// logReload says what a reload changed, or why it did not.
func (s *Service) logReload(changes config.Changes, err error) {
	if err != nil {
		s.metrics.Reloaded(telemetry.ReloadRefused)
		s.log.Error("could not reload configuration, nothing changed", telemetry.KeyError, err)
		return
	}
	s.metrics.Reloaded(telemetry.ReloadApplied)
	if changes.None() {
		s.log.Info("reloaded configuration, nothing changed")
	} else {
		s.log.Info("reloaded configuration", "added", listed(changes.Added), "removed", listed(changes.Removed), "changed", listed(changes.Changed))
	}
	if len(changes.Restart) > 0 {
		s.log.Warn("some changes need a restart and were not applied", "keys", changes.Restart)
	}
	s.warnOfEndedKeys()
	s.warnOfSmallLog()
}

// listed is a list in JSON logs too, when it is empty.
func listed(names []string) []string { return append([]string{}, names...) }

// warnOfEndedKeys names the tenants that can call nothing any more.
func (s *Service) warnOfEndedKeys() {
	for _, k := range s.live.Now().EndedKeys() {
		s.log.Warn("refusing tenant, all its API keys have expired", telemetry.KeyTenant, k.Tenant, "key", k.Name, "not_after", k.NotAfter)
	}
}

// ReloadOn has the process reload with each signal from when it runs, from where its
// configuration was loaded. It is called before Run, or not at all.
func (s *Service) ReloadOn(signals <-chan os.Signal, source config.Source) {
	s.reloads, s.source = signals, source
}
