package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// listsOwn checks the jobs in all lists. A job that is missing from the log is excused if it was
// listed before the log was lost.
func listsOwn(f *facts, broken report) (looked int) {
	known := map[string]bool{} // one report per job
	for _, l := range slices.Concat(f.Lists, f.Final) {
		for _, id := range l.Jobs {
			looked++
			log := f.logs[id]
			why := ""
			switch {
			case len(log) == 0 && !f.lost(LosesLog, l.Asked):
				why = "the log does not have it"
			case len(log) > 0 && log[0].Tenant != l.Tenant:
				why = "it is of tenant " + log[0].Tenant
			case !isVideo(id):
				why = "it is no video task"
			}
			if why != "" && !known[id] {
				known[id] = true
				broken(id, "listed for tenant %s at %s by %s, and %s", l.Tenant, clock(l.Time), l.Target, why)
			}
		}
	}
	return looked
}

// listsWhole compares the whole lists with the log. A job stored after the request may or may not
// be listed.
func listsWhole(f *facts, broken report) (looked int) {
	for _, l := range f.Final {
		looked++
		if !l.Good() {
			broken("", "%s gave no whole list of tenant %s from %s to %s: %s", l.Target, l.Tenant, clock(l.Asked), clock(l.Time), cmp.Or(l.Lost, l.Code))
			continue
		}
		want := f.newestFirst(l.Tenant, l.Asked)
		got := slices.DeleteFunc(slices.Clone(l.Jobs), func(id string) bool { return f.storedAfter(id, l.Asked) })
		if !slices.Equal(got, want) {
			job, how := difference(got, want)
			broken(job, "%s listed %d video tasks of tenant %s at %s, and the log has %d: %s", l.Target, len(got), l.Tenant, clock(l.Time), len(want), how)
		}
	}
	return looked
}

// newestFirst returns a tenant's video tasks in the order of a list requested at the given time.
// The order is by created_at, even if a wrong clock set it, and then by ID.
func (f *facts) newestFirst(tenant string, asked time.Time) []string {
	var out []string
	for id, log := range f.queued {
		if isVideo(id) && log[0].Tenant == tenant && !f.storedAfter(id, asked) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(f.logs[b][0].Created.Compare(f.logs[a][0].Created), strings.Compare(b, a))
	})
	return out
}

func (f *facts) storedAfter(id string, at time.Time) bool {
	log := f.logs[id]
	return len(log) > 0 && log[0].Stored.After(at)
}

// difference describes how two lists differ and returns the first job that differs.
func difference(got, want []string) (job, how string) {
	place := 0
	for place < min(len(got), len(want)) && got[place] == want[place] {
		place++
	}
	at := func(ids []string) string {
		if place < len(ids) {
			return ids[place]
		}
		return ""
	}
	job = cmp.Or(at(want), at(got))
	missing, more := without(want, got), without(got, want)
	return job, fmt.Sprintf("%d are missing (%s), %d are not in the log (%s), and at place %d is %q in place of %q",
		len(missing), few(missing), len(more), few(more), place+1, at(got), at(want))
}

func without(ids, others []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(others, id) })
}

func few(ids []string) string {
	const most = 5
	if len(ids) > most {
		return strings.Join(ids[:most], " ") + " ..."
	}
	return strings.Join(ids, " ")
}

// quietFor is how long there must have been no fault before lists must be available. Within a few
// seconds, replicas agree which of them keep the index, and those then read it from the log.
const quietFor = 30 * time.Second

// listsReady checks that lists are available after a quiet period. It treats the start of the run
// like a restart of killed replicas.
func listsReady(f *facts, broken report) (looked int) {
	for _, l := range f.Lists {
		faults := slices.DeleteFunc(slices.Clone(f.Faults), func(fault Fault) bool { return fault.From.After(l.Time) })
		if l.Asked.Before(QuietFrom(f.Began, faults)) {
			continue
		}
		looked++
		if l.Code == "index_catching_up" {
			broken("", "%s told tenant %s %s at %s, and nothing had been broken for %s", l.Target, l.Tenant, l.Code, clock(l.Time), quietFor)
		}
	}
	return looked
}

// QuietFrom returns the time from which lists must be available, if the run began at began and
// there are no further faults. A clean stop counts as a fault, because a replica restarts without
// an index.
func QuietFrom(began time.Time, faults []Fault) time.Time {
	for _, fault := range faults {
		if fault.harms() || fault.Kind == FaultTerminate {
			began = later(began, later(fault.From, fault.To))
		}
	}
	return began.Add(quietFor)
}
