package jobtable

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

const (
	// RateMinutes is the number of minutes counted, including the current one.
	RateMinutes = 60
	// maxRated bounds the counted routes, because their names come from the log. Once it is
	// reached, a new route is counted only if it can replace one that had no event in these
	// minutes.
	maxRated = 512
)

// Minute counts the jobs of a route in one minute, by event time. A job counts at most once in each
// field.
type Minute struct {
	// Accepted counts new jobs. Started counts jobs whose first submission (video) or attempt
	// (chat) began. Ended counts ended jobs, and Failed the failed ones among them.
	Accepted uint32 `json:"a,omitempty"` // short names: an answer holds thousands
	Started  uint32 `json:"s,omitempty"`
	Ended    uint32 `json:"e,omitempty"`
	Failed   uint32 `json:"f,omitempty"`
}

// RouteRates holds the minutes of a route.
type RouteRates struct {
	Kind  subject.Kind `json:"kind"`
	Route string       `json:"route"`
	// Minutes has RateMinutes elements, oldest first. The last minute is incomplete.
	Minutes []Minute `json:"minutes"`
}

// Rates holds the recent minutes of each route and the number of unfinished jobs.
type Rates struct {
	// Routes lists the routes that had an event in these minutes, by kind and name.
	Routes []RouteRates `json:"routes"`
	// From is the start of the first minute. The counts include everything that was in the log at
	// the time AsOf. Both times are in Unix nanoseconds.
	From int64 `json:"from"`
	AsOf int64 `json:"as_of"`
	// Unfinished counts the unfinished jobs of all tenants, not counting inline chats.
	Unfinished int64 `json:"unfinished"`
}

// Of returns the minutes of a route. They are all zero if it had no events.
func (r Rates) Of(kind subject.Kind, route string) []Minute {
	for _, of := range r.Routes {
		if of.Kind == kind && of.Route == route && len(of.Minutes) == RateMinutes {
			return of.Minutes
		}
	}
	return make([]Minute, RateMinutes)
}

// RateCounter counts the jobs of each route per minute, from their events.
type RateCounter struct {
	mu    sync.Mutex
	rings map[rateKey]*ring
}

type rateKey struct {
	kind  subject.Kind
	route string
}

// ring holds the minutes of a route, each at its number modulo RateMinutes.
type ring struct {
	latest  int64 // number of the latest minute with an event
	minutes [RateMinutes]struct {
		number int64 // minutes since 1970
		Minute
	}
}

// NewRateCounter returns an empty counter.
func NewRateCounter() *RateCounter { return &RateCounter{rings: map[rateKey]*ring{}} }

// Count counts an event. It must be called exactly once per event. If added is set, earlier events
// of the job will not arrive, so Count also counts the job's acceptance and start.
func (r *RateCounter) Count(s joblog.Summary, added bool, now time.Time) {
	if s.Facts.Route == "" { // the record of a refused request
		return
	}
	oldest := now.Add(-RateMinutes * time.Minute)
	ended := task.TerminalWord(s.Status) && s.Time.After(oldest)
	accepted := (s.Version == 1 || added) && s.CreatedAt.After(oldest)
	begun, started := s.Facts.BegunAt()
	started = started && (added || begun.Equal(s.Time)) && begun.After(oldest)
	if !ended && !accepted && !started {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of(rateKey{s.Name.Kind, s.Facts.Route}, minuteOf(now))
	if of == nil {
		return
	}
	if accepted {
		of.at(s.CreatedAt, now).Accepted++
	}
	if started {
		of.at(begun, now).Started++
	}
	if ended {
		at := of.at(s.Time, now)
		at.Ended++
		if s.Status == failedWord {
			at.Failed++
		}
	}
}

var failedWord = task.StatusWord(genbusv1.JobStatus_JOB_STATUS_FAILED)

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// of returns the ring of a route, or nil if maxRated other routes are already counted.
func (r *RateCounter) of(key rateKey, now int64) *ring {
	if known := r.rings[key]; known != nil {
		return known
	}
	if len(r.rings) >= maxRated {
		r.expire(now)
	}
	if len(r.rings) >= maxRated {
		return nil
	}
	key.route = strings.Clone(key.route) // the name shares the message's memory
	r.rings[key] = &ring{}
	return r.rings[key]
}

// expire drops routes without an event in the counted minutes.
func (r *RateCounter) expire(now int64) {
	for key, of := range r.rings {
		if of.latest <= now-RateMinutes {
			delete(r.rings, key)
		}
	}
}

// at returns the minute of time t. A time after now comes from a replica whose clock is ahead, and
// counts as now. If t is too old to count, at returns a minute that is not part of the ring.
func (g *ring) at(t, now time.Time) *Minute {
	number := min(minuteOf(t), minuteOf(now))
	m := &g.minutes[number%RateMinutes]
	switch {
	case m.number > number:
		return &Minute{}
	case m.number < number:
		m.number, m.Minute = number, Minute{}
	}
	g.latest = max(g.latest, number)
	return &m.Minute
}

// Rates returns the minutes of all routes. The caller sets AsOf and Unfinished.
func (r *RateCounter) Rates(now time.Time) Rates {
	first := minuteOf(now) - RateMinutes + 1
	out := Rates{From: first * int64(time.Minute)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expire(minuteOf(now))
	for key, of := range r.rings {
		minutes := make([]Minute, RateMinutes)
		for _, m := range of.minutes {
			if i := m.number - first; i >= 0 && i < RateMinutes {
				minutes[i] = m.Minute
			}
		}
		out.Routes = append(out.Routes, RouteRates{Kind: key.kind, Route: key.route, Minutes: minutes})
	}
	slices.SortFunc(out.Routes, func(a, b RouteRates) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Route, b.Route)) })
	return out
}
