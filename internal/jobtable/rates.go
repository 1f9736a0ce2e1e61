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
	// RateMinutes is how many minutes are counted, the current one included.
	RateMinutes = 60
	// maxRated bounds the routes that are counted: their names come from the log. One that is
	// new takes the place of one that had no event in these minutes.
	maxRated = 512
)

// Minute is what happened to the jobs of a route in one minute, by the times of the events. A
// job counts once in each field at most.
type Minute struct {
	// Accepted were made, and Started are those whose first submission (video) or attempt
	// (chat) began. Ended came to an end, and Failed are those of them that failed.
	Accepted uint32 `json:"a,omitempty"` // short: an answer has thousands
	Started  uint32 `json:"s,omitempty"`
	Ended    uint32 `json:"e,omitempty"`
	Failed   uint32 `json:"f,omitempty"`
}

// RouteRates are the minutes of a route.
type RouteRates struct {
	Kind  subject.Kind `json:"kind"`
	Route string       `json:"route"`
	// Minutes are RateMinutes, the oldest first; the last is not over.
	Minutes []Minute `json:"minutes"`
}

// Rates is what happened to the jobs of each route lately, and how many have not ended.
type Rates struct {
	// Routes are those with an event in these minutes, by kind and name.
	Routes []RouteRates `json:"routes"`
	// From is when the first minute began, and AsOf when the log had no more than is counted,
	// Unix nanoseconds.
	From int64 `json:"from"`
	AsOf int64 `json:"as_of"`
	// Unfinished are the jobs of all tenants that have not ended, without inline chats.
	Unfinished int64 `json:"unfinished"`
}

// Of are the minutes of a route.
func (r Rates) Of(kind subject.Kind, route string) []Minute {
	for _, of := range r.Routes {
		if of.Kind == kind && of.Route == route && len(of.Minutes) == RateMinutes {
			return of.Minutes
		}
	}
	return make([]Minute, RateMinutes)
}

// RateCounter counts the jobs of each route by minutes, from their events.
type RateCounter struct {
	mu    sync.Mutex
	rings map[rateKey]*ring
}

type rateKey struct {
	kind  subject.Kind
	route string
}

// ring is the minutes of a route, each at its number modulo their count.
type ring struct {
	latest  int64 // number of the latest minute that has an event
	minutes [RateMinutes]struct {
		number int64 // since 1970
		Minute
	}
}

// NewRateCounter returns a counter that has counted nothing.
func NewRateCounter() *RateCounter { return &RateCounter{rings: map[rateKey]*ring{}} }

// Count counts an event. Call it once for each. If added is set, the events of the job before
// this one are not to come: it then counts what they would have.
func (r *RateCounter) Count(n joblog.Notice, added bool, now time.Time) {
	if n.Facts.Route == "" { // a request that was refused, and recorded
		return
	}
	oldest := now.Add(-RateMinutes * time.Minute)
	ended := task.TerminalWord(n.Status) && n.Time.After(oldest)
	accepted := (n.Version == 1 || added) && n.CreatedAt.After(oldest)
	begun, started := n.Facts.BegunAt()
	started = started && (added || begun.Equal(n.Time)) && begun.After(oldest)
	if !ended && !accepted && !started {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of(rateKey{n.Name.Kind, n.Facts.Route}, minuteOf(now))
	if of == nil {
		return
	}
	if accepted {
		of.at(n.CreatedAt, now).Accepted++
	}
	if started {
		of.at(begun, now).Started++
	}
	if ended {
		at := of.at(n.Time, now)
		at.Ended++
		if n.Status == failedWord {
			at.Failed++
		}
	}
}

var failedWord = task.StatusWord(genbusv1.JobStatus_JOB_STATUS_FAILED)

func minuteOf(t time.Time) int64 { return t.Unix() / 60 }

// of is the ring of a route; nil where there are so many others.
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
	key.route = strings.Clone(key.route) // it is a part of a message's memory
	r.rings[key] = &ring{}
	return r.rings[key]
}

// expire drops the routes that had no event in the minutes that are counted.
func (r *RateCounter) expire(now int64) {
	for key, of := range r.rings {
		if of.latest <= now-RateMinutes {
			delete(r.rings, key)
		}
	}
}

// at is the minute of a time. What is later than now was written by a replica whose clock is
// ahead, and counts as now; what is earlier than the minutes counts where no one looks.
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

// Rates returns the minutes of all routes, without AsOf and Unfinished.
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
