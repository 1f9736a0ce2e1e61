package main

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/subject"
)

const busyTenant = "busy"

// secondVersion is the version of the event that starts a video's submission.
const secondVersion = "2"

// starts counts the started videos of the busy tenant and records the first start of each other
// tenant.
type starts struct {
	mu    sync.Mutex
	busy  int
	begun map[string]start // by tenant
	news  chan struct{}    // closed and replaced at each start
}

// start holds the time of a tenant's first start and the number of the busy tenant's starts before
// it.
type start struct {
	at   time.Time
	busy int
}

func followStarts(nc *nats.Conn) (*starts, error) {
	s := &starts{begun: map[string]start{}, news: make(chan struct{})}
	names := subject.Default()
	sub, err := nc.Subscribe(names.LiveTaskPattern(), func(m *nats.Msg) {
		if n, err := names.ParseLiveTask(m.Subject); err == nil && m.Header.Get(subject.HeaderVersion) == secondVersion {
			s.add(n.Tenant)
		}
	})
	if err != nil {
		return nil, err
	}
	return s, sub.SetPendingLimits(-1, -1)
}

func (s *starts) add(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.begun[tenant]; tenant == busyTenant {
		s.busy++
	} else if !known {
		s.begun[tenant] = start{at: time.Now(), busy: s.busy}
	}
	close(s.news)
	s.news = make(chan struct{})
}

func (s *starts) busyOnes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

func (s *starts) first(ctx context.Context, tenant string) (start, error) {
	for {
		s.mu.Lock()
		first, begun := s.begun[tenant]
		news := s.news
		s.mu.Unlock()
		if begun {
			return first, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return start{}, context.Cause(ctx)
		}
	}
}
