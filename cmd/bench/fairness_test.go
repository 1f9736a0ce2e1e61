package main

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestStartsOfANewcomer(t *testing.T) {
	t.Parallel()
	s := &starts{begun: map[string]start{}, news: make(chan struct{})}
	for range 3 {
		s.add(busyTenant)
	}
	go func() {
		s.add("new")
		s.add(busyTenant)
		s.add("new")
	}()
	first, err := s.first(t.Context(), "new")
	if err != nil || first.busy != 3 || first.at.IsZero() {
		t.Errorf("%+v, %v", first, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.first(gone, "nobody"); !errors.Is(err, context.Canceled) {
		t.Errorf("a tenant that never comes: %v", err)
	}
}

func TestFairnessFlags(t *testing.T) {
	t.Parallel()
	good := fairnessCommand{Queued: 10_000, InFlight: 100, Life: time.Second, Rounds: 10, Hold: time.Second}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*fairnessCommand){
		"queued":    func(c *fairnessCommand) { c.Queued = 10 },
		"in flight": func(c *fairnessCommand) { c.InFlight = 20_000 },
		"rounds":    func(c *fairnessCommand) { c.Rounds = 0 },
		"life":      func(c *fairnessCommand) { c.Life = 0 },
		"hold":      func(c *fairnessCommand) { c.Hold = 0 },
	} {
		bad := good
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
