package service

import (
	"context"
	"os"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
)

// keepReloading reloads the configuration on every signal until ctx ends.
func (s *Service) keepReloading(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reloads:
			_ = s.Reload(ctx) // Reload logs the error
		}
	}
}

// Reload rereads the configuration and applies the settings that need no restart. On error, this
// process keeps its configuration. Reload logs and returns the outcome. Call it only while Run is
// running, and not concurrently. If ctx ends, Reload stops waiting for the broker.
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

// logReload logs the changes made by a reload, or its error.
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

// listed returns an empty list for nil, which JSON logs would show as null.
func listed(names []string) []string { return append([]string{}, names...) }

// warnOfEndedKeys logs the tenants whose API keys have all expired.
func (s *Service) warnOfEndedKeys() {
	for _, k := range s.live.Now().EndedKeys() {
		s.log.Warn("refusing tenant, all its API keys have expired", telemetry.KeyTenant, k.Tenant, "key", k.Name, "not_after", k.NotAfter)
	}
}

// ReloadOn makes Run reload the configuration from source on every signal. Call it before Run.
func (s *Service) ReloadOn(signals <-chan os.Signal, source config.Source) {
	s.reloads, s.source = signals, source
}
